// SPDX-License-Identifier: Apache-2.0
#include "protocols/tokens.h"

#include <algorithm>

#include "protocols/chat_text.h"
#include "protocols/tool_calls.h"
#include "text/token_text.h"

namespace megalith::protocols {
namespace {

constexpr size_t kMostText = 8 << 20;

void check_named_model(Fields& fields, const ServedModel& model) {
  if (const auto name = fields.text("model", 256)) require_model(model, *name);
}

}  // namespace

Body tokenize(const Json& body, const ServedModel& model) {
  Fields fields(body);
  check_named_model(fields, model);
  const text::Tokenizer& tokenizer = require_tokenizer(model, "prompt");
  const text::TokenText texts(&tokenizer), numbers(nullptr, true);
  // Rows are shown as numbers, whatever a tokenizer with more tokens than the model has there.
  const auto shown = [&](int32_t id) { return (id < model.vocab ? texts : numbers).text(id); };
  if (const auto content = fields.text("content", kMostText)) {
    fields.refuse("parse_special", "must be true", true);
    const auto ids =
        tokens_of(model, *content, fields.flag("add_special").value_or(false), "content");
    if (!fields.flag("with_pieces").value_or(false))
      return {.text = text_of_json({{"tokens", ids}})};
    Json pieces = Json::array();
    for (const int32_t id : ids) pieces.push_back({{"id", id}, {"piece", shown(id)}});
    return {.text = text_of_json({{"tokens", pieces}})};
  }
  const bool is_chat = fields.find("messages") != nullptr;
  const auto prompt = is_chat ? read_chat(fields, model, read_tools(fields, model).tools)
                              : fields.text("prompt", kMostText);
  if (!prompt) throw ApiError("prompt", "prompt is missing: a string").with_reason("missing_field");
  const auto ids = tokens_of(model, *prompt, fields.flag("add_special_tokens").value_or(!is_chat),
                             is_chat ? "messages" : "prompt");
  Json answer{{"count", counted_tokens(model, ids.size())},
              {"max_model_len", model.context},
              {"tokens", ids}};
  if (fields.flag("return_token_strs").value_or(false)) {
    answer["token_strs"] = Json::array();
    for (const int32_t id : ids) answer["token_strs"].push_back(shown(id));
  }
  return {.text = text_of_json(answer)};
}

Body detokenize(const Json& body, const ServedModel& model) {
  Fields fields(body);
  check_named_model(fields, model);
  const text::Tokenizer& tokenizer = require_tokenizer(model, "tokens");
  const Json* const tokens = fields.find("tokens");
  if (tokens == nullptr) throw ApiError("tokens", "tokens is missing: a list of ids");
  const int64_t vocab = std::min(model.vocab, tokenizer.vocab_size());
  const auto ids = token_ids(*tokens, vocab, 1'000'000, "tokens");
  const std::string text = tokenizer.decode(ids, true);
  return {.text = text_of_json({{"prompt", text}, {"content", text}})};
}

}  // namespace megalith::protocols
