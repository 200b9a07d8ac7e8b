// SPDX-License-Identifier: Apache-2.0
// Follows Hugging Face's added vocabulary: matches are found first, leftmost and longest, and a
// match whose single_word condition fails is passed over whole; stripped white space never reaches
// into the match before.
#include "text/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "characters/code_class.h"
#include "characters/utf8.h"

namespace megalith::text {
namespace {

uint32_t last_code(std::string_view text) {
  const char* begin = text.data();
  return characters::read_utf8(characters::previous_character(begin, begin + text.size())).code;
}

// Length of the white space at the start and at the end.
size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const characters::CodePoint point = characters::read_utf8(text.data() + at);
    if (characters::class_of(point.code) != characters::CodeClass::space) break;
    at += point.length;
  }
  return at;
}
size_t trailing_space(std::string_view text) {
  size_t kept = text.size();
  while (kept > 0) {
    const char* last = characters::previous_character(text.data(), text.data() + kept);
    if (characters::class_of(characters::read_utf8(last).code) != characters::CodeClass::space)
      break;
    kept = static_cast<size_t>(last - text.data());
  }
  return text.size() - kept;
}

bool stands_alone(std::string_view before, std::string_view after) {
  return (before.empty() || !characters::is_word_code(last_code(before))) &&
         (after.empty() || !characters::is_word_code(characters::read_utf8(after.data()).code));
}

}  // namespace

int32_t AddedTokenMatcher::child(int32_t node, uint8_t byte) const {
  int32_t next = nodes_[static_cast<size_t>(node)].first_child;
  while (next >= 0 && nodes_[static_cast<size_t>(next)].byte != byte)
    next = nodes_[static_cast<size_t>(next)].next_sibling;
  return next;
}

void AddedTokenMatcher::add(const AddedToken& token) {
  if (token.content.empty()) return;
  int32_t node = 0;
  for (const char c : token.content) {
    const uint8_t byte = static_cast<uint8_t>(c);
    int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({byte, -1, nodes_[static_cast<size_t>(node)].first_child, -1});
      nodes_[static_cast<size_t>(node)].first_child = next;
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].index = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
  begins_[static_cast<uint8_t>(token.content[0])] = true;
  only_begin_ = std::count(begins_.begin(), begins_.end(), true) == 1
                    ? static_cast<uint8_t>(token.content[0])
                    : -1;
}

std::optional<AddedTokenMatcher::Found> AddedTokenMatcher::find(std::string_view text,
                                                                size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (only_begin_ >= 0) {
      const void* hit = std::memchr(text.data() + at, only_begin_, text.size() - at);
      if (hit == nullptr) return std::nullopt;
      at = static_cast<size_t>(static_cast<const char*>(hit) - text.data());
    } else if (!begins_[static_cast<uint8_t>(text[at])]) {
      continue;
    }
    std::optional<Found> longest;
    int32_t node = 0;
    for (size_t end = at; end < text.size(); ++end) {
      node = child(node, static_cast<uint8_t>(text[end]));
      if (node < 0) break;
      const int32_t index = nodes_[static_cast<size_t>(node)].index;
      if (index >= 0) longest = Found{at, end + 1, index};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

void AddedTokenMatcher::split(std::string_view text, std::vector<TextPart>& parts) const {
  size_t done = 0;  // parts cover [0, done)
  size_t from = 0;
  while (!tokens_.empty()) {
    const std::optional<Found> found = find(text, from);
    if (!found) break;
    from = found->end;
    const AddedToken& token = tokens_[static_cast<size_t>(found->index)];
    size_t begin = found->begin;
    size_t end = found->end;
    if (token.single_word && !stands_alone(text.substr(0, begin), text.substr(end))) continue;
    // A token of white space can lie inside what the one before took; then, as in Hugging Face,
    // what follows it counts again.
    if (token.lstrip)
      begin = begin > done ? begin - trailing_space(text.substr(done, begin - done)) : done;
    if (token.rstrip) end += leading_space(text.substr(end));
    if (done < begin) parts.push_back({-1, text.substr(done, begin - done)});
    if (begin < end) parts.push_back({token.id, text.substr(begin, end - begin)});
    done = end;
  }
  if (done < text.size()) parts.push_back({-1, text.substr(done)});
}

}  // namespace megalith::text
