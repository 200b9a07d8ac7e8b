// SPDX-License-Identifier: Apache-2.0
#include "protocols/chat_completion.h"

#include "protocols/chat_text.h"

namespace megalith::protocols {
namespace {

std::optional<int64_t> read_logprobs(Fields& fields) {
  const bool wanted = fields.flag("logprobs").value_or(false);
  const auto top = fields.whole("top_logprobs", 0, kMostTopLogprobs);
  if (top.value_or(0) > 0 && !wanted)
    throw ApiError("top_logprobs", "top_logprobs is for requests with logprobs: true");
  return wanted ? std::optional(top.value_or(0)) : std::nullopt;
}

}  // namespace

Prepared prepare_chat_completion(const Json& body, const ServedModel& model) {
  Fields fields(body);
  const auto name = fields.text("model", 256);
  if (!name) throw ApiError("model", "model is missing").with_reason("missing_field");
  require_model(model, *name);
  GenerationFields made = read_generation(fields, model);
  if (made.best_of > made.n && made.options.beams == 1)
    throw ApiError("best_of", "best_of is not a field of chats");
  fields.refuse("functions", "is not supported: give tools");
  fields.refuse("modalities", "must be text alone", Json::array({"text"}));
  fields.refuse("return_token_ids", "is a field of /v1/completions");
  const std::optional<int64_t> logprobs = read_logprobs(fields);
  auto asked = fields.whole("max_completion_tokens", 1, INT32_MAX);
  const char* const param = asked ? "max_completion_tokens" : "max_tokens";
  const auto older = fields.whole("max_tokens", 1, INT32_MAX);
  if (!asked) asked = older;
  const ToolFields tools = read_tools(fields, model);
  if (tools.forces && made.form != nullptr)
    throw ApiError("tool_choice", "a call that is forced has a form of its own");
  if (tools.forces) made.form = tools.form;
  const std::string text = read_chat(fields, model, tools.tools);
  // The template has put the special tokens where they belong.
  const bool special = fields.flag("add_special_tokens").value_or(false);
  PreparedSequence sequence =
      sequence_of(encode_text(model, text, special, "messages"), made, model);
  sequence.options.top_logprobs = logprobs.value_or(0);
  sequence.options.max_new_tokens =
      new_tokens(model, sequence.prompt.size(), asked, model.context, param);
  Prepared prepared;
  const ChatShape shape{.prompt = sequence.prompt,
                        .n = made.n,
                        .logprobs = logprobs,
                        .include_usage = made.include_usage,
                        .tokens_as_ids = made.tokens_as_ids};
  require_places(model, static_cast<size_t>(made.sequences()));
  add_sequences(prepared.sequences, sequence, made.sequences());
  prepared.user = made.user;
  prepared.unknown_fields = fields.unknown();
  prepared.reply = make_chat_reply(model, shape, tools, made.stream);
  return prepared;
}

}  // namespace megalith::protocols
