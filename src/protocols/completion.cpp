// SPDX-License-Identifier: Apache-2.0
#include "protocols/completion.h"

#include <algorithm>

#include "layers/virtual_tokens.h"

namespace megalith::protocols {
namespace {

/// A prompt as text or ids, or several: a string, a list of ids, a list of either.
std::vector<CompletionShape::Prompt> read_prompts(Fields& fields, const ServedModel& model) {
  const Json* const json = fields.find("prompt");
  if (json == nullptr) throw ApiError("prompt", "prompt is missing").with_reason("missing_field");
  const bool special = fields.flag("add_special_tokens").value_or(true);
  std::vector<CompletionShape::Prompt> prompts;
  // Before truncation a prompt may be longer than the context.
  constexpr size_t kMostIds = 1'000'000;
  const auto add = [&](const Json& prompt) {
    if (prompt.is_string()) {
      const auto& text = prompt.get_ref<const std::string&>();
      prompts.push_back({text, encode_text(model, text, special, "prompt")});
      return;
    }
    std::vector<int32_t> ids = token_ids(prompt, prompt_vocab(model), kMostIds, "prompt");
    if (ids.empty()) throw ApiError("prompt", "prompt is an empty list of tokens");
    check_virtual(model, ids, "prompt");
    prompts.push_back({"", std::move(ids)});
  };
  const bool is_one =
      json->is_string() || (json->is_array() && !json->empty() && json->front().is_number());
  if (is_one) {
    add(*json);
  } else if (json->is_array() && !json->empty() && json->size() <= kMostPrompts) {
    for (const Json& prompt : *json) {
      if (!prompt.is_string() && !prompt.is_array())
        throw ApiError("prompt", "prompt is a list of neither strings nor lists of tokens");
      add(prompt);
    }
  } else if (json->is_array() && !json->empty()) {
    throw ApiError("prompt", "{} prompts; at most {} are taken", json->size(), kMostPrompts);
  } else {
    throw ApiError("prompt", "prompt must be a string, a list of tokens, or a list of either");
  }
  return prompts;
}

void check_streams(const CompletionShape& shape, const GenerationFields& made) {
  if (made.stream && shape.return_ids)
    throw ApiError("return_token_ids", "return_token_ids cannot be streamed");
}

void check_echo(const CompletionShape& shape, const GenerationFields& made,
                const ServedModel& model) {
  if (!shape.echo) return;
  if (model.is_encoder_decoder)
    throw ApiError("echo", "echo is for models whose text goes on from the prompt");
  if (made.stream && shape.logprobs)
    throw ApiError("echo", "echo with logprobs cannot be streamed");
  if (shape.logprobs && model.marks != nullptr) {
    throw ApiError("echo",
                   "echo with logprobs is not supported with virtual tokens inside the prompt");
  }
}

}  // namespace

Prepared prepare_completion(const Json& body, const ServedModel& model) {
  Fields fields(body);
  const auto name = fields.text("model", 256);
  if (!name) throw ApiError("model", "model is missing").with_reason("missing_field");
  require_model(model, *name);
  GenerationFields made = read_generation(fields, model);
  fields.refuse("suffix", "is not supported: text is only written at the end");
  CompletionShape shape{.n = made.n,
                        .sequences = made.sequences(),
                        .searches = made.options.beams > 1,
                        .echo = fields.flag("echo").value_or(false),
                        .logprobs = fields.whole("logprobs", 0, kMostTopLogprobs),
                        .end_ids = made.options.end_ids,
                        .include_usage = made.include_usage,
                        .tokens_as_ids = made.tokens_as_ids,
                        .return_ids = made.return_ids};
  check_echo(shape, made, model);
  check_streams(shape, made);
  const auto asked = fields.whole("max_tokens", 0, INT32_MAX);
  if (asked == 0 && !shape.echo)
    throw ApiError("max_tokens", "max_tokens must be at least 1, or 0 with echo");
  shape.prompts = read_prompts(fields, model);
  Prepared prepared;
  require_places(model, shape.prompts.size() * static_cast<size_t>(shape.sequences));
  for (CompletionShape::Prompt& prompt : shape.prompts) {
    truncate(prompt.ids, made, model);
    if (prompt.text.empty() && model.tokenizer != nullptr && shape.echo)
      prompt.text = model.tokenizer->decode(layers::without_virtual(model.vocab, prompt.ids));
    PreparedSequence sequence = sequence_of(prompt.ids, made, model);
    sequence.options.top_logprobs = shape.logprobs.value_or(0);
    sequence.options.prompt_logprobs = shape.echo && shape.logprobs;
    // Who has prompts scored counts on the one token behind each, though it may be the end.
    sequence.options.ignore_eos = sequence.options.prompt_logprobs && asked == 1;
    sequence.options.max_new_tokens = new_tokens(model, prompt.ids.size(), asked, 16, "max_tokens");
    add_sequences(prepared.sequences, sequence, shape.sequences);
  }
  prepared.user = made.user;
  prepared.unknown_fields = fields.unknown();
  prepared.reply = make_completion_reply(model, std::move(shape), made.stream);
  return prepared;
}

}  // namespace megalith::protocols
