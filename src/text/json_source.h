// SPDX-License-Identifier: Apache-2.0
// Typed access to a parsed tokenizer.json. Only the reader's sources include this header, because
// it brings in simdjson.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::text {

using JsonElement = simdjson::dom::element;

/// An object of the file, together with words that say where it is. Valid as long as its parser.
class JsonSource {
 public:
  JsonSource(JsonElement element, std::string_view where) : element_(element), where_(where) {}
  std::string_view where() const { return where_; }
  JsonElement element() const { return element_; }

  /// True if the key is there and not null.
  bool has(std::string_view key) const;
  /// The member; UserError if it is absent.
  JsonElement member(std::string_view key) const;
  std::string string(std::string_view key) const;
  bool boolean(std::string_view key, bool absent) const;
  /// A whole number >= 0.
  uint64_t whole(std::string_view key, uint64_t absent) const;
  /// A list of whole numbers >= 0; none if it is absent or null.
  std::vector<uint64_t> wholes(std::string_view key) const;
  JsonSource object(std::string_view key) const;
  /// The objects of a list; none if the list is absent or null.
  std::vector<JsonSource> items(std::string_view key) const;
  /// The number of members or items; 0 if absent or of another kind.
  size_t count(std::string_view key) const;
  /// The member as minified JSON, "null" if absent.
  std::string json(std::string_view key) const;

 private:
  JsonElement element_;
  std::string_view where_;
};

}  // namespace megalith::text
