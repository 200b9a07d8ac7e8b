// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "characters/utf8.h"
#include "vocabularies/gguf_keys.h"
#include "vocabularies/gguf_vocabulary.h"
#include "vocabularies/post_processor.h"
#include "vocabularies/token_roles.h"

namespace megalith::vocabularies {
namespace {

constexpr std::string_view kTemplate = "tokenizer.chat_template";
constexpr size_t kMostNameBytes = 64;

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostNameBytes &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
             std::string_view::npos;
}

bool is_utf8(std::string_view text) {
  return characters::find_invalid_utf8(text) == std::string_view::npos;
}

std::string config_of(const gguf::Metadata& metadata) {
  const GgufKeys keys(metadata, "");
  Json config = Json::object();
  const gguf::Value* const tokens = keys.find("tokens");
  const auto texts = tokens != nullptr ? tokens->texts() : std::nullopt;
  for (const auto& [name, key] : kTokenRoles) {
    const gguf::Value* const value = keys.find(key);
    const auto id = value != nullptr ? value->integer() : std::nullopt;
    if (!texts || !id || *id < 0 || static_cast<uint64_t>(*id) >= texts->size()) continue;
    const std::string& text = (*texts)[static_cast<size_t>(*id)];
    if (is_utf8(text)) config[name] = text;
  }
  if (config.empty()) return "";
  config["clean_up_tokenization_spaces"] = false;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  return config.dump(2) + "\n";
}

}  // namespace

std::map<std::string, std::string> gguf_texts(const gguf::Metadata& metadata) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : metadata) {
    const auto text = key.starts_with(kTemplate) ? value.text() : std::nullopt;
    if (!text || !is_utf8(*text)) continue;
    const std::string_view name = std::string_view(key).substr(kTemplate.size());
    if (name.empty()) texts["chat_template.jinja"] = *text;
    if (name.starts_with('.') && is_file_name(name.substr(1)))
      texts["additional_chat_templates/" + std::string(name.substr(1)) + ".jinja"] = *text;
  }
  if (std::string config = config_of(metadata); !config.empty())
    texts["tokenizer_config.json"] = std::move(config);
  return texts;
}

}  // namespace megalith::vocabularies
