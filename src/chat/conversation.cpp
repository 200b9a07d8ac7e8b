// SPDX-License-Identifier: Apache-2.0
#include "chat/conversation.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_fault.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

using Json = nlohmann::ordered_json;

// Messages are read before a template counts what it does.
Limits reading_limits() {
  Limits limits;
  limits.steps = INT64_MAX / 2;
  limits.memory_bytes = SIZE_MAX / 4;
  return limits;
}

/// At least the number of values in a document: of its commas, brackets and colons.
size_t count_values(std::string_view json) {
  size_t count = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"') in_text = !in_text;
    if (in_text && json[i] == '\\') ++i;
    if (!in_text && std::string_view(",:[{").find(json[i]) != std::string_view::npos) ++count;
  }
  return count;
}

// The names a message's reasoning goes under; the first is the one that templates read.
constexpr const char* kReasoning[] = {"reasoning_content", "thinking", "reasoning"};

/// A message as transformers hands it on.
Value message_of(const Json& message, Budget& budget) {
  Dict made;
  const auto set = [&](const std::string& key, const Json& value) {
    made.set(Value::text(key, budget), value_of(value, budget), budget);
  };
  const Json* reasoning = nullptr;
  for (const char* name : kReasoning) {
    const auto found = message.find(name);
    if (!reasoning && found != message.end() && !found->is_null()) reasoning = &*found;
  }
  if (reasoning) set("thinking", *reasoning);
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) set(key, value);
  if (reasoning) set("reasoning_content", *reasoning);
  return make_dict(std::move(made), budget);
}

Value messages_of(const Json& list, std::string_view where, Budget& budget) {
  if (!list.is_array() || list.empty())
    throw UserError("{}: the messages are no list with at least one message", where);
  Items messages;
  for (const Json& message : list) {
    if (!message.is_object())
      throw UserError("{}: message {} is not an object like {{\"role\": ..., \"content\": ...}}",
                      where, messages.size());
    if (message.find("role") == message.end() || !message.at("role").is_string())
      throw UserError("{}: message {} has no \"role\" that is a text", where, messages.size());
    messages.push_back(message_of(message, budget));
  }
  return make_list(std::move(messages), budget);
}

Value objects_of(const Json& json, std::string_view key, std::string_view where, Budget& budget) {
  if (json.is_null()) return Value::none();
  bool good = json.is_array();
  if (good)
    for (const Json& item : json) good = good && item.is_object();
  if (!good) throw UserError("{}: \"{}\" is not a list of objects", where, key);
  return value_of(json, budget);
}

}  // namespace

Value value_of(const Json& json, Budget& budget) {
  if (json.is_null()) return Value::none();
  if (json.is_boolean()) return Value::boolean(json.get<bool>());
  if (json.is_string()) return Value::text(json.get<std::string>(), budget);
  if (json.is_number_float()) {
    const double real = json.get<double>();
    // The parser makes such of whole numbers that are too large, which Python prints in full.
    if (std::abs(real) >= 0x1p63) throw Fault("the number {} is beyond 64 bits", real);
    return Value::real(real);
  }
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    throw Fault("the number {} is beyond 64 bits", json.get<uint64_t>());
  if (json.is_number()) return Value::integer(json.get<int64_t>());
  if (json.is_array()) {
    Items items;
    for (const Json& item : json) items.push_back(value_of(item, budget));
    return make_list(std::move(items), budget);
  }
  Dict dict;
  for (const auto& [key, value] : json.items())
    dict.set(Value::text(key, budget), value_of(value, budget), budget);
  return make_dict(std::move(dict), budget);
}

Conversation Conversation::parse(std::string_view json, std::string_view where) {
  if (count_values(json) > kMostMessageValues)
    throw UserError("{}: more than {} values", where, kMostMessageValues);
  if (const auto fault = json_fault(json)) throw UserError("{}: {}", where, *fault);
  const Json document = Json::parse(json);
  Budget budget(reading_limits());
  Conversation made;
  const auto member = [&](const char* key) {
    return document.is_object() && document.contains(key) ? document.at(key) : Json();
  };
  if (document.is_object()) {
    for (const auto& [key, unused] : document.items())
      if (key != "messages" && key != "tools" && key != "documents" &&
          key != "chat_template_kwargs")
        throw UserError(
            "{}: the key \"{}\" is not known; messages, tools, documents and "
            "chat_template_kwargs are",
            where, key);
  } else if (!document.is_array()) {
    throw UserError("{}: is neither a list of messages nor an object with \"messages\"", where);
  }
  try {
    const Json further = member("chat_template_kwargs");
    if (!further.is_null() && !further.is_object())
      throw UserError("{}: \"chat_template_kwargs\" is not an object", where);
    made.messages_ =
        messages_of(document.is_array() ? document : member("messages"), where, budget);
    made.tools_ = objects_of(member("tools"), "tools", where, budget);
    made.documents_ = objects_of(member("documents"), "documents", where, budget);
    if (further.is_object())
      for (const auto& [key, value] : further.items())
        made.further_.set(Value::text(key, budget), value_of(value, budget), budget);
  } catch (const Fault& fault) {
    throw UserError("{}: {}", where, fault.what());
  }
  made.has_tools_ = !made.tools_.is_none();
  return made;
}

Dict Conversation::variables(const std::vector<std::pair<std::string, std::string>>& special_tokens,
                             bool add_generation_prompt, Budget& budget) const {
  Dict variables;
  const auto set = [&](const std::string& name, const Value& value) {
    variables.set(Value::text(name, budget), value, budget);
  };
  for (const auto& [name, token] : special_tokens) set(name, Value::text(token, budget));
  for (const auto& [name, value] : further_.entries) variables.set(name, value, budget);
  set("messages", messages_);
  set("tools", tools_);
  set("documents", documents_);
  set("add_generation_prompt", Value::boolean(add_generation_prompt));
  return variables;
}

}  // namespace megalith::chat
