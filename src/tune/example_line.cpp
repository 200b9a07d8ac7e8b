// SPDX-License-Identifier: Apache-2.0
#include "tune/example_line.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "tune/line_json.h"

namespace megalith::tune {
namespace {

using Json = LineJson;

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

/// The value of a template's field. Ids are read nowhere: those in place of texts are a mistake.
std::string value_of(const Json& line, const std::string& field) {
  if (member(line, field.c_str()) == nullptr && member(line, "ids") != nullptr)
    throw UserError("has no field {:?}; examples are texts, and its \"ids\" are not read", field);
  return text_of(line, field);
}

}  // namespace

ExampleLine parse_example_line(std::string_view line, const FieldTemplate& fields, bool only) {
  return parse_example_line(parse_line(line), fields, only);
}

ExampleLine parse_example_line(const Json& line, const FieldTemplate& fields, bool only) {
  if (!only) {
    if (line.contains("messages")) return open_chat(line);
    if (line.contains("conversations")) return nemo_chat(line);
    if (line.contains("prompt") || line.contains("completion")) return completion(line);
  }
  PromptAndAnswer made =
      fields.fill([&](const std::string& field) { return value_of(line, field); });
  if (made.answer.empty())
    throw UserError("has an empty answer, field {:?}", fields.fields().back());
  return made;
}

}  // namespace megalith::tune
