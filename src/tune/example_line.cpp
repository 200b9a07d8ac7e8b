// SPDX-License-Identifier: Apache-2.0
#include "tune/example_line.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json_fault.h"

namespace megalith::tune {
namespace {

using Json = nlohmann::ordered_json;

const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const Json& object, const std::string& key) {
  const Json* const value = member(object, key.c_str());
  if (value == nullptr) throw UserError("has no field {:?}", key);
  if (value->is_string()) return value->get<std::string>();
  if (value->is_number() || value->is_boolean()) return value->dump();
  throw UserError("has a field {:?} that is no text", key);
}

/// A turn that says nothing teaches nothing.
bool is_empty(const Json& message) {
  const Json* const content = member(message, "content");
  const Json* const calls = member(message, "tool_calls");
  const bool says = content != nullptr && !(content->is_string() && *content == "");
  return !says && (calls == nullptr || calls->empty());
}

/// Appends a message; whether it is learned is its "weight" (an assistant's: 1 unless given).
void add_message(const Json& message, bool may_be_learned, ChatExample& chat) {
  const size_t number = chat.messages.size();
  if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
    throw UserError("has a message {} that is not like {{\"role\": ..., \"content\": ...}}",
                    number);
  }
  const bool is_answer = message["role"] == "assistant";
  bool learned = may_be_learned && is_answer;
  Json kept = message;
  if (const Json* const weight = member(message, "weight")) {
    if (!is_answer || !weight->is_number() || (*weight != 0 && *weight != 1))
      throw UserError("has a message {} whose \"weight\" is not an assistant's 0 or 1", number);
    learned = learned && *weight == 1;
  }
  kept.erase("weight");
  if (learned && is_empty(message)) throw UserError("has an empty answer, message {}", number);
  chat.messages.push_back(kept.dump());
  chat.learned.push_back(learned);
}

void add_messages(const Json& list, const char* key, bool may_be_learned, ChatExample& chat) {
  if (!list.is_array() || list.empty())
    throw UserError("has no list with at least one message under \"{}\"", key);
  for (const Json& message : list) add_message(message, may_be_learned, chat);
}

ChatExample require_answer(ChatExample chat) {
  if (std::ranges::find(chat.learned, true) == chat.learned.end())
    throw UserError("has no assistant's turn to learn from");
  return chat;
}

/// A speaker of NeMo's chats, or of those that others call ShareGPT's.
std::string role_of(const std::string& speaker) {
  std::string lower = speaker;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "user" || lower == "human") return "user";
  if (lower == "assistant" || lower == "gpt" || lower == "bot") return "assistant";
  if (lower == "system") return "system";
  throw UserError("has a turn \"from\" {:?}; known are User, Assistant and System", speaker);
}

ChatExample nemo_chat(const Json& line) {
  ChatExample chat;
  const std::string masked =
      member(line, "mask") != nullptr ? role_of(text_of(line, "mask")) : "user";
  if (masked != "user")
    throw UserError("masks {:?}; what is learned here are the assistant's turns",
                    text_of(line, "mask"));
  if (member(line, "type") != nullptr)
    throw UserError("has a \"type\", which chat templates have no place for");
  const Json* const system = member(line, "system");
  if (system != nullptr && *system != "")
    add_message({{"role", "system"}, {"content", text_of(line, "system")}}, false, chat);
  const Json& turns = line["conversations"];
  if (!turns.is_array() || turns.empty())
    throw UserError("has no list with at least one turn under \"conversations\"");
  for (const Json& turn : turns) {
    if (!turn.is_object()) throw UserError("has a turn that is not like {{\"from\", \"value\"}}");
    if (member(turn, "label") != nullptr)
      throw UserError("has a turn with a \"label\", which chat templates have no place for");
    add_message({{"role", role_of(text_of(turn, "from"))}, {"content", text_of(turn, "value")}},
                true, chat);
  }
  return require_answer(std::move(chat));
}

ChatExample open_chat(const Json& line) {
  ChatExample chat;
  add_messages(line["messages"], "messages", true, chat);
  if (const Json* const tools = member(line, "tools")) chat.tools = tools->dump();
  return require_answer(std::move(chat));
}

ExampleLine completion(const Json& line) {
  const Json *const prompt = member(line, "prompt"), *const answer = member(line, "completion");
  if (prompt != nullptr && prompt->is_array() && answer != nullptr && answer->is_array()) {
    ChatExample chat;
    add_messages(*prompt, "prompt", false, chat);
    add_messages(*answer, "completion", true, chat);
    if (const Json* const tools = member(line, "tools")) chat.tools = tools->dump();
    return require_answer(std::move(chat));
  }
  PromptAndAnswer made{text_of(line, "prompt"), text_of(line, "completion")};
  if (made.answer.empty()) throw UserError("has an empty answer, field \"completion\"");
  return made;
}

}  // namespace

ExampleLine parse_example_line(std::string_view text, const FieldTemplate& fields, bool only) {
  if (const auto fault = json_fault(text)) throw UserError("{}", *fault);
  const Json line = Json::parse(text);
  if (!line.is_object()) throw UserError("is not a JSON object");
  if (!only) {
    if (line.contains("messages")) return open_chat(line);
    if (line.contains("conversations")) return nemo_chat(line);
    if (line.contains("prompt") || line.contains("completion")) return completion(line);
  }
  PromptAndAnswer made =
      fields.fill([&](const std::string& field) { return text_of(line, field); });
  if (made.answer.empty())
    throw UserError("has an empty answer, field {:?}", fields.fields().back());
  return made;
}

}  // namespace megalith::tune
