// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/token_roles.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/json_fault.h"
#include "vocabularies/gguf_writing.h"
#include "vocabularies/stage_options.h"

namespace megalith::vocabularies {
namespace {

constexpr char kConfig[] = "tokenizer_config.json";
constexpr char kMap[] = "special_tokens_map.json";
constexpr std::string_view kNamed = "additional_chat_templates/", kJinja = ".jinja";
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

using Texts = std::map<std::string, std::string>;

Json object_of(const Texts& texts, const char* name) {
  const auto found = texts.find(name);
  if (found == texts.end()) return Json::object();
  if (const auto fault = json_fault(found->second)) throw UserError("{}: {}", name, *fault);
  Json json = Json::parse(found->second);
  if (!json.is_object()) throw UserError("{}: is not a JSON object", name);
  return json;
}

// A text, or an object with its content.
std::optional<std::string> content_of(const Json& config, const char* role) {
  auto found = config.find(role);
  if (found == config.end()) return std::nullopt;
  const Json& value =
      found->is_object() && found->contains("content") ? found->at("content") : *found;
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

// As llama.cpp's converter spells the names.
std::string spelled(std::string name) {
  for (char& letter : name) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9');
    if (!is_plain) letter = '_';
  }
  return name;
}

// By name, the main one under "default".
Texts templates_of(const Texts& texts) {
  Texts found;
  for (const auto& [name, text] : texts) {
    if (name == "chat_template.jinja") found["default"] = text;
    if (name.starts_with(kNamed) && name.ends_with(kJinja))
      found[spelled(name.substr(kNamed.size(), name.size() - kNamed.size() - kJinja.size()))] =
          text;
  }
  if (!found.empty()) return found;
  const Json config = object_of(texts, kConfig);
  const Json configured = config.value("chat_template", Json());
  if (configured.is_string()) found["default"] = configured.get<std::string>();
  if (!configured.is_array()) return found;
  for (const Json& item : configured) {
    const auto name = content_of(item, "name"), text = content_of(item, "template");
    if (name && text) found[spelled(*name)] = *text;
  }
  return found;
}

}  // namespace

TokenRoles token_roles(const Texts& texts, const text::TokenizerData& data) {
  const Json config = object_of(texts, kConfig), map = object_of(texts, kMap);
  TokenRoles roles;
  for (const auto& [name, key] : kTokenRoles) {
    auto content = content_of(config, name);
    if (!content) content = content_of(map, name);
    const auto token = std::ranges::find_if(
        data.added_tokens, [&](const text::AddedToken& each) { return each.content == content; });
    if (token != data.added_tokens.end()) roles[key] = token->id;
  }
  return roles;
}

gguf::OrderedMetadata gguf_template_keys(const Texts& texts) {
  gguf::OrderedMetadata keys;
  std::vector<std::string> names;
  for (const auto& [name, text] : templates_of(texts)) {
    const bool is_main = name == "default";
    keys.emplace_back(std::string(kTemplateKey) + (is_main ? "" : "." + name),
                      gguf::Value::text(text));
    if (!is_main) names.push_back(name);
  }
  if (!names.empty()) keys.emplace_back("tokenizer.chat_templates", gguf::Value::texts(names));
  return keys;
}

}  // namespace megalith::vocabularies
