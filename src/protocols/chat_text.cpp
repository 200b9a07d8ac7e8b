// SPDX-License-Identifier: Apache-2.0
#include "protocols/chat_text.h"

#include <array>
#include <ctime>

#include "base/one_line.h"
#include "protocols/api_error.h"
#include "protocols/tool_calls.h"

namespace megalith::protocols {
namespace {

constexpr size_t kMostMessages = 4096;
constexpr std::array kRoles{"system", "developer", "user", "assistant", "tool", "function"};

/// Content that is a list of texts is one text: that is what most templates take.
void check_message(Json& message, size_t index) {
  const std::string where = fmt::format("messages[{}]", index);
  if (!message.is_object()) throw ApiError(where, "{} is not an object", where);
  const auto role = message.find("role");
  const bool is_known =
      role != message.end() && role->is_string() &&
      std::ranges::any_of(kRoles, [&](const char* known) { return *role == known; });
  if (!is_known) {
    throw ApiError(where + ".role",
                   "{}.role must be one of system, developer, user, assistant, "
                   "tool",
                   where);
  }
  read_past_calls(message, where);
  const auto content = message.find("content");
  if (content == message.end() || content->is_null() || content->is_string()) return;
  if (!content->is_array())
    throw ApiError(where + ".content", "{}.content must be a string or a list of texts", where);
  std::string text;
  for (const Json& part : *content) {
    const bool is_text = part.is_object() && part.value("type", Json()) == "text" &&
                         part.value("text", Json()).is_string();
    if (!is_text)
      throw ApiError(where + ".content",
                     "{}.content has a part that is no text; this model reads "
                     "text alone",
                     where);
    text += part.at("text").get<std::string>();
  }
  *content = text;
}

std::string rendered(const ServedModel& model, const Json& conversation, bool prompts) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  const auto parsed = chat::Conversation::parse(text_of_json(conversation), "messages");
  return model.chat->render(parsed, prompts, parts);
}

}  // namespace

std::string read_chat(Fields& fields, const ServedModel& model, const Json* tools) {
  const Json* const messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty())
    throw ApiError("messages", "messages must be a list of at least one message");
  if (messages->size() > kMostMessages)
    throw ApiError("messages", "{} messages; at most {} are taken", messages->size(),
                   kMostMessages);
  Json conversation{{"messages", *messages}};
  size_t index = 0;
  for (Json& message : conversation["messages"]) check_message(message, index++);
  if (tools != nullptr) conversation["tools"] = *tools;
  if (const Json* const further = fields.find("chat_template_kwargs"))
    conversation["chat_template_kwargs"] = *further;
  const bool prompts = fields.flag("add_generation_prompt").value_or(true);
  fields.refuse("continue_final_message", "is not supported by this server");
  fields.refuse("chat_template", "is not taken from requests: the model's is used");
  if (model.chat == nullptr)
    throw ApiError("messages", "the model has no chat template: use /v1/completions");
  try {
    const std::string text = rendered(model, conversation, prompts);
    if (!conversation.contains("tools")) return text;
    Json without = conversation;
    without.erase("tools");
    if (rendered(model, without, prompts) == text)
      throw ApiError("tools", "this model's chat template takes no tools");
    return text;
  } catch (const ApiError&) {
    throw;
  } catch (const UserError& error) {
    throw ApiError("messages", "{}", one_line(error.what(), 1000));
  }
}

}  // namespace megalith::protocols
