// SPDX-License-Identifier: Apache-2.0
// The fields of a JSON object by name, type and range. A null is a field that is not given. Every
// fault is an ApiError that names the field.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/json_body.h"

namespace megalith::protocols {

class Fields {
 public:
  /// `object` must outlive it. `prefix` begins the names of fields in messages: "stream_options.".
  explicit Fields(const Json& object, std::string prefix = "");

  /// Null if it is not given.
  const Json* find(std::string_view name);
  std::optional<int64_t> whole(std::string_view name, int64_t low, int64_t high);
  std::optional<double> number(std::string_view name, double low, double high);
  std::optional<bool> flag(std::string_view name);
  std::optional<std::string> text(std::string_view name, size_t most_bytes);
  /// A field that this server cannot do: ApiError unless it is absent, null, false, 0, "" or empty,
  /// or equals `harmless`.
  void refuse(std::string_view name, std::string_view why, const Json& harmless = nullptr);
  /// The name as messages have it.
  std::string path(std::string_view name) const { return prefix_ + std::string(name); }
  const Json& object() const { return object_; }
  /// Fields that nobody asked for.
  std::vector<std::string> unknown() const;

 private:
  const Json& object_;
  std::string prefix_;
  std::set<std::string, std::less<>> asked_;
};

/// A JSON value as a token of the vocabulary; `where` is its field.
int32_t token_id(const Json& json, int64_t vocab, const std::string& where);
/// A list of them, of at most `most`.
std::vector<int32_t> token_ids(const Json& json, int64_t vocab, size_t most,
                               const std::string& where);

}  // namespace megalith::protocols
