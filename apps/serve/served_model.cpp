// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/served_model.h"

#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "inference/inference_engine.h"

namespace megalith::apps {
namespace {

/// The template in a folder's files, as it is told to clients.
std::string chat_template_of(const std::map<std::string, std::string>& files) {
  if (const auto own = files.find("chat_template.jinja"); own != files.end()) return own->second;
  const auto config = files.find("tokenizer_config.json");
  if (config == files.end()) return "";
  const auto json = nlohmann::json::parse(config->second, nullptr, false);
  const bool has =
      json.is_object() && json.contains("chat_template") && json.at("chat_template").is_string();
  return has ? json.at("chat_template").get<std::string>() : "";
}

}  // namespace

protocols::ServedModel served_model(const store::ModelSource& source, std::string name,
                                    int64_t context) {
  const models::ModelSpec& spec = source.spec();
  protocols::ServedModel model;
  model.name = std::move(name);
  model.created = static_cast<int64_t>(wall_seconds());
  model.vocab = spec.vocab;
  model.context = context > 0 ? context : spec.context;
  model.is_encoder_decoder = spec.is_encoder_decoder();
  model.embeds = !model.is_encoder_decoder;
  try {
    inference::check_generates(spec);
  } catch (const UserError&) {
    model.writes = false;
  }
  model.has_types = spec.embedding.token_types >= 2;
  model.end_ids = source.end_ids();
  model.begin_id = source.begin_id();
  model.pad_id = source.pad_id();
  model.tokenizer = source.tokenizer() ? &*source.tokenizer() : nullptr;
  if (model.tokenizer != nullptr)
    model.grammars = std::make_shared<grammars::MatcherCache>(*model.tokenizer);
  model.chat_template = chat_template_of(source.texts());
  return model;
}

}  // namespace megalith::apps
