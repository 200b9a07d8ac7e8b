// SPDX-License-Identifier: Apache-2.0
#include "tune/line_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json_fault.h"

namespace megalith::tune {
namespace {

/// A turn that says nothing teaches nothing.
bool is_empty(const LineJson& message) {
  const LineJson* const content = member(message, "content");
  const LineJson* const calls = member(message, "tool_calls");
  const bool says = content != nullptr && !(content->is_string() && *content == "");
  return !says && (calls == nullptr || calls->empty());
}

}  // namespace

LineJson parse_line(std::string_view text) {
  if (const auto fault = json_fault(text)) throw UserError("{}", *fault);
  LineJson line = LineJson::parse(text);
  if (!line.is_object()) throw UserError("is not a JSON object");
  return line;
}

const LineJson* member(const LineJson& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const LineJson& object, const std::string& key) {
  const LineJson* const value = member(object, key.c_str());
  if (value == nullptr) throw UserError("has no field {:?}", key);
  if (value->is_string()) return value->get<std::string>();
  if (value->is_number() || value->is_boolean()) return value->dump();
  throw UserError("has a field {:?} that is no text", key);
}

void add_message(const LineJson& message, bool may_be_learned, ChatExample& chat) {
  const size_t number = chat.messages.size();
  if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
    throw UserError("has a message {} that is not like {{\"role\": ..., \"content\": ...}}",
                    number);
  }
  const bool is_answer = message["role"] == "assistant";
  bool learned = may_be_learned && is_answer;
  LineJson kept = message;
  if (const LineJson* const weight = member(message, "weight")) {
    if (!is_answer || !weight->is_number() || (*weight != 0 && *weight != 1))
      throw UserError("has a message {} whose \"weight\" is not an assistant's 0 or 1", number);
    learned = learned && *weight == 1;
  }
  kept.erase("weight");
  if (learned && is_empty(message)) throw UserError("has an empty answer, message {}", number);
  chat.messages.push_back(kept.dump());
  chat.learned.push_back(learned);
}

void add_messages(const LineJson& list, const char* key, bool may_be_learned, ChatExample& chat) {
  if (!list.is_array() || list.empty())
    throw UserError("has no list with at least one message under \"{}\"", key);
  for (const LineJson& message : list) add_message(message, may_be_learned, chat);
}

ChatExample require_answer(ChatExample chat) {
  if (std::ranges::find(chat.learned, true) == chat.learned.end())
    throw UserError("has no assistant's turn to learn from");
  return chat;
}

}  // namespace megalith::tune
