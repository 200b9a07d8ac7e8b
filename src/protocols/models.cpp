// SPDX-License-Identifier: Apache-2.0
#include "protocols/models.h"

#include "protocols/api_error.h"
#include "protocols/json_body.h"

namespace megalith::protocols {
namespace {

Json model_entry(const ServedModel& model) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "megalith"},
          {"root", model.parent.empty() ? model.name : model.parent},
          {"parent", model.parent.empty() ? Json() : Json(model.parent)},
          {"max_model_len", model.context}};
}

}  // namespace

std::string models_json(const ServedModel& model, std::span<const std::string> adapters) {
  Json entries = Json::array({model_entry(model)});
  for (const std::string& name : adapters) entries.push_back(model_entry(model_named(model, name)));
  return text_of_json({{"object", "list"}, {"data", entries}});
}

std::string model_json(const ServedModel& model) { return text_of_json(model_entry(model)); }

std::string tokenizer_info_json(const ServedModel& model) {
  if (model.tokenizer == nullptr) throw ApiError("", "the model has no tokenizer").with_status(404);
  const auto spelled = [&](const std::optional<int32_t>& id) {
    const bool is_known = id && *id < model.tokenizer->vocab_size();
    return is_known ? Json(model.tokenizer->token_text(*id)) : Json();
  };
  std::optional<int32_t> end;
  if (!model.end_ids.empty()) end = model.end_ids[0];
  if (!end) end = model.tokenizer->end_of_document();
  return text_of_json(
      {{"tokenizer_class", "PreTrainedTokenizerFast"},
       {"vocab_size", model.tokenizer->vocab_size()},
       {"model_max_length", model.context},
       {"bos_token", spelled(model.begin_id)},
       {"eos_token", spelled(end)},
       {"pad_token", spelled(model.pad_id ? model.pad_id : end)},
       {"chat_template", model.chat_template.empty() ? Json() : Json(model.chat_template)}});
}

}  // namespace megalith::protocols
