// SPDX-License-Identifier: Apache-2.0
#include "chat/call_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_fault.h"

namespace megalith::chat {
namespace {

using Json = nlohmann::ordered_json;

MessagePiece::Call& call_of(MessagePiece& piece, size_t index) {
  if (piece.calls.empty() || piece.calls.back().index != index)
    piece.calls.push_back({.index = index});
  return piece.calls.back();
}

/// Where the longest tail of the text begins that is a beginning of `tag`.
size_t tail_of(std::string_view text, std::string_view tag) {
  for (size_t length = std::min(text.size(), tag.size() - 1); length > 0; --length)
    if (text.ends_with(tag.substr(0, length))) return text.size() - length;
  return text.size();
}

}  // namespace

MessagePiece ForcedCalls::push(std::string_view text) {
  MessagePiece piece;
  for (const char c : text) take(c, piece);
  return piece;
}

void ForcedCalls::take(char c, MessagePiece& piece) {
  const bool is_one = !function_.empty();
  if (is_one && !has_begun_) call_of(piece, 0).name = function_;
  has_begun_ = true;
  const bool was_inside = is_one || depth_ > 2;
  if (in_string_) {
    take_in_string(c, piece);
  } else if (c == '"') {
    in_string_ = true;
    if (!was_inside) ++strings_;
  } else {
    take_bracket(c);
  }
  if (was_inside || depth_ > 2) call_of(piece, call_).arguments += c;
}

void ForcedCalls::take_in_string(char c, MessagePiece& piece) {
  const bool ends = c == '"' && !is_escaped_;
  is_escaped_ = c == '\\' && !is_escaped_;
  if (ends) in_string_ = false;
  if (!function_.empty() || depth_ != 2 || strings_ != 2) return;
  if (!ends) {
    name_ += c;
  } else {
    call_of(piece, call_).name = std::exchange(name_, "");
  }
}

void ForcedCalls::take_bracket(char c) {
  if (c == '{' || c == '[') ++depth_;
  if (c != '}' && c != ']') return;
  --depth_;
  if (!function_.empty() || depth_ != 1) return;
  ++call_;
  strings_ = 0;
}

MessagePiece TaggedCalls::push(std::string_view text) {
  MessagePiece piece;
  held_ += text;
  for (;;) {
    const size_t begin = std::min(held_.find(kBegin), tail_of(held_, kBegin));
    add_content(std::string_view(held_).substr(0, begin), piece);
    held_.erase(0, begin);
    const size_t end = held_.find(kEnd);
    if (!held_.starts_with(kBegin) || end == held_.npos) return piece;
    const std::string block = held_.substr(0, end + kEnd.size());
    held_.erase(0, block.size());
    const std::string_view inner(block.data() + kBegin.size(), end - kBegin.size());
    if (!add_call(inner, piece)) add_content(block, piece);
  }
}

MessagePiece TaggedCalls::finish() {
  MessagePiece piece;
  add_content(std::exchange(held_, ""), piece);
  return piece;
}

bool TaggedCalls::add_call(std::string_view json, MessagePiece& piece) {
  if (json_fault(json)) return false;
  const Json call = Json::parse(json);
  if (!call.is_object() || call.size() != 2 || !call.contains("name") ||
      !call.contains("arguments") || !call["name"].is_string() || !call["arguments"].is_object())
    return false;
  const auto name = call["name"].get<std::string>();
  if (std::ranges::find(functions_, name) == functions_.end()) return false;
  piece.calls.push_back({.index = call_++, .name = name, .arguments = call["arguments"].dump()});
  skips_space_ = true;
  return true;
}

void TaggedCalls::add_content(std::string_view text, MessagePiece& piece) {
  if (skips_space_) text.remove_prefix(std::min(text.find_first_not_of(" \n\r\t"), text.size()));
  if (text.empty()) return;
  skips_space_ = false;
  piece.content += text;
}

}  // namespace megalith::chat
