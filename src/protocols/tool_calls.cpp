// SPDX-License-Identifier: Apache-2.0
#include "protocols/tool_calls.h"

#include <algorithm>
#include <set>

#include "base/one_line.h"
#include "protocols/api_error.h"

namespace megalith::protocols {
namespace {

std::string parameters_path(size_t tool) {
  return fmt::format("tools[{}].function.parameters", tool);
}

bool is_name(const std::string& name) {
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, is_fine);
}

/// The names of the functions, in their order.
std::vector<std::string> check_tools(const Json& tools) {
  if (!tools.is_array() || tools.size() > kMostTools)
    throw ApiError("tools", "tools must be a list of at most {}", kMostTools);
  std::vector<std::string> names;
  for (const Json& tool : tools) {
    const std::string where = fmt::format("tools[{}].", names.size());
    Fields fields(tool, where);
    if (fields.text("type", 64).value_or("function") != "function")
      throw ApiError(where + "type", "{}type must be function", where);
    const Json* const function = fields.find("function");
    if (function == nullptr) throw ApiError(where + "function", "{}function is missing", where);
    Fields inner(*function, where + "function.");
    names.push_back(inner.text("name", 64).value_or(""));
    if (!is_name(names.back())) {
      throw ApiError(inner.path("name"), "{} must be up to 64 of a-z, A-Z, 0-9, '_', '-' and '.'",
                     inner.path("name"));
    }
    if (std::ranges::count(names, names.back()) > 1)
      throw ApiError(inner.path("name"), "there are two functions '{}'", names.back());
    const Json* const parameters = inner.find("parameters");
    if (parameters != nullptr && !parameters->is_object())
      throw ApiError(inner.path("parameters"), "{} must be an object", inner.path("parameters"));
  }
  return names;
}

/// The schema of a function's arguments, which are an object; without parameters there are none.
Json arguments_schema(const Json& tools, size_t tool) {
  const Json& function = tools[tool].at("function");
  const auto given = function.find("parameters");
  if (given == function.end() || given->is_null())
    return {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  Json schema = *given;
  if (!schema.contains("type")) schema["type"] = "object";
  if (schema["type"] != "object") {
    throw ApiError(parameters_path(tool), "{} must be of type object, as arguments are",
                   parameters_path(tool));
  }
  return schema;
}

/// Of a schema that has moved to `place`, a pointer: its references to itself.
void move_references(Json& schema, const std::string& place) {
  if (schema.is_array())
    for (Json& one : schema) move_references(one, place);
  if (!schema.is_object()) return;
  static const std::set<std::string> values{"const", "enum", "default", "examples"};
  static const std::set<std::string> named{"properties", "$defs", "definitions"};
  for (auto& [keyword, value] : schema.items()) {
    if (keyword == "$ref" && value.is_string() && value.get_ref<const std::string&>()[0] == '#') {
      value = place + value.get<std::string>().substr(1);
    } else if (named.contains(keyword) && value.is_object()) {
      for (auto& [name, one] : value.items()) move_references(one, place);
    } else if (!values.contains(keyword)) {
      move_references(value, place);
    }
  }
}

TextForm form_of_tools(const Json& tools, const std::vector<std::string>& names, int64_t most,
                       const ServedModel& model) {
  Json calls = Json::array(), definitions = Json::object();
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string number = std::to_string(i);
    definitions[number] = arguments_schema(tools, i);
    move_references(definitions[number], "#/$defs/" + number);
    calls.push_back(
        {{"type", "object"},
         {"properties",
          {{"name", {{"const", names[i]}}}, {"arguments", {{"$ref", "#/$defs/" + number}}}}},
         {"required", {"name", "arguments"}}});
  }
  const Json schema{{"type", "array"},
                    {"items", {{"anyOf", calls}}},
                    {"minItems", 1},
                    {"maxItems", most},
                    {"$defs", definitions}};
  try {
    return form_of_calls(schema, "tools", model);
  } catch (const ApiError&) {  // the one that is wrong by its own place
    for (size_t i = 0; i < names.size(); ++i)
      form_of_calls(arguments_schema(tools, i), parameters_path(i), model);
    throw;
  }
}

bool has_tags(const std::string& chat_template) {
  return chat_template.find(chat::TaggedCalls::kBegin) != std::string::npos &&
         chat_template.find(chat::TaggedCalls::kEnd) != std::string::npos;
}

/// The function that tool_choice names; "" where it is a word.
std::string named_function(const Json& choice) {
  if (choice.is_string()) return "";
  Fields fields(choice, "tool_choice.");
  const Json* const function = fields.find("function");
  if (fields.text("type", 64) != "function" || function == nullptr) {
    throw ApiError("tool_choice",
                   "tool_choice must be none, auto, required, or "
                   "{{\"type\": \"function\", \"function\": {{\"name\": ...}}}}");
  }
  return Fields(*function, "tool_choice.function.").text("name", 64).value_or("");
}

}  // namespace

ToolFields read_tools(Fields& fields, const ServedModel& model) {
  ToolFields made;
  const Json* const tools = fields.find("tools");
  const Json* const choice = fields.find("tool_choice");
  const bool several = fields.flag("parallel_tool_calls").value_or(true);
  const std::vector<std::string> names =
      tools == nullptr ? std::vector<std::string>() : check_tools(*tools);
  const std::string word =
      choice != nullptr && choice->is_string() ? choice->get<std::string>() : "";
  if (!names.empty() && word != "none") made.tools = tools;
  made.functions = names;
  made.finds = made.tools != nullptr && has_tags(model.chat_template);
  if (choice == nullptr || word == "none" || word == "auto") return made;
  made.function = named_function(*choice);
  if (word != "required" && made.function.empty())
    throw ApiError("tool_choice", "tool_choice must be none, auto, required, or name a function");
  if (names.empty()) throw ApiError("tool_choice", "tool_choice is for requests with tools");
  made.forces = true;
  if (word == "required") {
    made.form = form_of_tools(*tools, names, several ? kMostCalls : 1, model);
    return made;
  }
  const auto at = std::ranges::find(names, made.function);
  if (at == names.end())
    throw ApiError("tool_choice", "there is no function '{}'", one_line(made.function, 64));
  const auto tool = static_cast<size_t>(at - names.begin());
  made.form = form_of_calls(arguments_schema(*tools, tool), parameters_path(tool), model);
  return made;
}

void read_past_calls(Json& message, const std::string& where) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  size_t index = 0;
  for (Json& call : *calls) {
    const std::string path = fmt::format("{}.tool_calls[{}].function", where, index++);
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
      throw ApiError(path, "{} is not an object", path);
    Json& function = call["function"];
    const auto arguments = function.find("arguments");
    if (arguments == function.end() || !arguments->is_string()) continue;
    try {
      *arguments = parse_body(arguments->get<std::string>());
    } catch (const ApiError&) {
      throw ApiError(path + ".arguments", "{}.arguments must be the text of a JSON object", path);
    }
  }
}

std::unique_ptr<chat::CallReader> ToolFields::reader() const {
  if (forces) return std::make_unique<chat::ForcedCalls>(function);
  if (finds) return std::make_unique<chat::TaggedCalls>(functions);
  return nullptr;
}

}  // namespace megalith::protocols
