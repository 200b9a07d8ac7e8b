// SPDX-License-Identifier: Apache-2.0
#include "protocols/served_model.h"

#include <algorithm>

#include "base/one_line.h"
#include "protocols/api_error.h"

namespace megalith::protocols {

const ServedModel& model_named(const ServedModel& model, std::string_view name) {
  const auto found = std::ranges::find(model.adapters, name, &ServedModel::name);
  return found == model.adapters.end() ? model : *found;
}

const ServedModel& model_asked(const ServedModel& model, const Json& body) {
  const auto name = body.find("model");
  const bool is_text = name != body.end() && name->is_string();
  return is_text ? model_named(model, name->get_ref<const std::string&>()) : model;
}

void add_adapters(ServedModel& model, std::span<const std::string> names) {
  ServedModel like = model;
  like.parent = model.name;
  for (const std::string& name : names) {
    like.name = name;
    model.adapters.push_back(like);
  }
}

void require_model(const ServedModel& model, std::string_view name) {
  if (name == model.name) return;
  throw ApiError("model", "there is no model '{}' here; '{}' is served", one_line(name, 100),
                 model.name)
      .with_status(404)
      .with_reason("model_not_found");
}

const text::Tokenizer& require_tokenizer(const ServedModel& model, const std::string& param) {
  if (model.tokenizer == nullptr)
    throw ApiError(param, "the model has no tokenizer: give lists of token ids");
  return *model.tokenizer;
}

std::vector<int32_t> tokens_of(const ServedModel& model, std::string_view text, bool special,
                               const std::string& param) {
  const text::Tokenizer& tokenizer = require_tokenizer(model, param);
  if (model.marks == nullptr) return tokenizer.encode(text, special);
  std::vector<int32_t> ids = model.marks->tokenizer().encode(text, special);
  try {
    model.marks->expand(ids);
  } catch (const UserError& error) {
    throw ApiError(param, "{}", error.what());
  }
  return ids;
}

std::vector<int32_t> encode_text(const ServedModel& model, std::string_view text, bool special,
                                 const std::string& param) {
  std::vector<int32_t> ids = tokens_of(model, text, special, param);
  if (ids.empty() && !model.end_ids.empty()) ids.push_back(model.end_ids[0]);
  if (ids.empty()) throw ApiError(param, "{} is empty", param);
  for (const int32_t id : ids) {
    if (id >= prompt_vocab(model))
      throw ApiError(param, "{} has a token, {}, that the model does not have", param, id);
  }
  return ids;
}

int64_t prompt_vocab(const ServedModel& model) {
  return model.vocab + (model.marks != nullptr ? model.marks->tokens() : 0);
}

void check_virtual(const ServedModel& model, std::span<const int32_t> ids,
                   const std::string& param) {
  if (model.marks == nullptr) return;
  try {
    model.marks->check_rows(ids);
  } catch (const UserError& error) {
    throw ApiError(param, "{}", error.what());
  }
}

int64_t counted_tokens(const ServedModel& model, size_t prompt) {
  return static_cast<int64_t>(prompt) - (model.marks != nullptr ? model.marks->tokens() : 0);
}

int64_t new_tokens(const ServedModel& model, size_t prompt, std::optional<int64_t> asked,
                   int64_t otherwise, const std::string& param) {
  const int64_t read = counted_tokens(model, prompt);
  // An encoder-decoder reads the prompt elsewhere.
  const int64_t before = model.is_encoder_decoder ? 0 : read;
  const int64_t room = model.context - before;
  const bool is_within = asked ? *asked <= room : room > 0;
  if (read <= model.context && is_within) return asked ? *asked : std::min(otherwise, room);
  const int64_t wanted = asked ? *asked : std::min<int64_t>(otherwise, 1);
  throw ApiError(param,
                 "This model's maximum context length is {} tokens. However, you requested {} "
                 "tokens ({} in the prompt, {} for the completion).",
                 model.context, read + wanted, read, wanted)
      .with_reason("context_length_exceeded");
}

}  // namespace megalith::protocols
