// SPDX-License-Identifier: Apache-2.0
#include "tokenize/chars_map.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "characters/tokenizer_class.h"
#include "characters/utf8.h"

namespace megalith::tokenize {
namespace {

constexpr size_t kMostClusterBytes = 5;

// The fields of a unit.
uint32_t label(uint32_t unit) { return unit & 0x800000FF; }
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

}  // namespace

CharsMap::CharsMap(std::string_view compiled, std::string_view where) : compiled_(compiled) {
  static_assert(std::endian::native == std::endian::little);
  uint32_t bytes = 0;
  if (compiled.size() >= sizeof bytes) std::memcpy(&bytes, compiled.data(), sizeof bytes);
  if (bytes < sizeof(uint32_t) || bytes % sizeof(uint32_t) != 0 ||
      bytes > compiled.size() - sizeof bytes)
    throw UserError("{}: the precompiled_charsmap is cut off or no such thing", where);
  units_.resize(bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), compiled.data() + sizeof bytes, bytes);
  results_ = compiled.substr(sizeof bytes + bytes);
  if (characters::find_invalid_utf8(results_) != std::string_view::npos)
    throw UserError("{}: the results in precompiled_charsmap are not UTF-8", where);
  for (size_t c = 1; c < 128; ++c) {
    const char as_char = static_cast<char>(c);
    changes_ascii_[c] = find(std::string_view(&as_char, 1)).has_value();
  }
  for (size_t first = 1; first < 128; ++first) {
    for (size_t second = 0; second < 128; ++second) {
      Node node = root();
      const bool is_rule = step(node, static_cast<char>(first)) &&
                           (node.has_value || step(node, static_cast<char>(second)));
      if (is_rule) ascii_rules_[first][second / 64] |= uint64_t{1} << second % 64;
    }
  }
  changes_ascii_['\r'] = true;  // it may be one cluster with a line feed
}

CharsMap::Node CharsMap::root() const { return {offset(units_[0]), false}; }

// Goes to the child; false if there is none.
bool CharsMap::step(Node& node, char byte) const {
  const uint32_t at = node.base ^ static_cast<uint8_t>(byte);
  if (byte == 0 || at >= units_.size()) return false;
  const uint32_t unit = units_[at];
  if (label(unit) != static_cast<uint8_t>(byte)) return false;
  node = {at ^ offset(unit), has_value(unit)};
  return true;
}

// What the rule that ends at a node says; nothing where none does, or where it points astray.
std::optional<std::string_view> CharsMap::result_at(const Node& node) const {
  if (!node.has_value || node.base >= units_.size()) return std::nullopt;
  const size_t begin = units_[node.base] & 0x7FFFFFFF;
  if (begin >= results_.size()) return std::nullopt;
  if ((static_cast<uint8_t>(results_[begin]) & 0xC0) == 0x80) return std::nullopt;
  return std::string_view(results_).substr(begin, std::strlen(results_.c_str() + begin));
}

std::optional<std::string_view> CharsMap::find(std::string_view text) const {
  Node node = root();
  for (const char c : text) {
    if (!step(node, c)) return std::nullopt;
    if (node.has_value) return result_at(node);
  }
  return std::nullopt;
}

std::optional<CharsMap::Rule> CharsMap::longest(std::string_view text) const {
  std::optional<Rule> found;
  Node node = root();
  for (size_t at = 0; at < text.size() && step(node, text[at]); ++at)
    if (const auto result = result_at(node)) found = Rule{at + 1, *result};
  // A rule that ends within a character would leave a broken one.
  if (found && found->length < text.size() &&
      (static_cast<uint8_t>(text[found->length]) & 0xC0) == 0x80)
    return std::nullopt;
  return found;
}

void CharsMap::append_cluster(std::string_view cluster, std::string& out) const {
  if (cluster.size() <= kMostClusterBytes) {
    if (const auto result = find(cluster)) {
      out.append(*result);
      return;
    }
  }
  for (size_t at = 0; at < cluster.size();) {
    const std::string_view character =
        cluster.substr(at, characters::read_utf8(cluster.data() + at).length);
    out.append(find(character).value_or(character));
    at += character.size();
  }
}

bool CharsMap::append(std::string_view text, std::string& out) const {
  const size_t before = out.size();
  bool keeps_start = true;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t at = 0; at < text.size();) {
    size_t plain = at;  // ASCII without a rule, and not followed by what might join it
    while (plain < text.size() && byte(plain) < 0x80 && !changes_ascii_[byte(plain)]) ++plain;
    if (plain > at && plain < text.size() && byte(plain) >= 0x80) --plain;
    out.append(text.substr(at, plain - at));
    at = plain;
    if (at == text.size()) break;
    const size_t length = characters::cluster_length(text, at);
    append_cluster(text.substr(at, length), out);
    at += length;
    if (out.size() == before) keeps_start = false;
  }
  return keeps_start;
}

}  // namespace megalith::tokenize
