// SPDX-License-Identifier: Apache-2.0
#include "protocols/chat_completion.h"

#include "protocols/chat_text.h"
#include "protocols/token_text.h"

namespace megalith::protocols {
namespace {

class ChatReply final : public Reply {
 public:
  ChatReply(const ServedModel& model, const ChatShape& shape, bool stream)
      : name_(model.name),
        shape_(shape),
        texts_(model.tokenizer, shape.tokens_as_ids),
        sent_(static_cast<size_t>(shape.n)) {
    streams = stream;
  }

  std::string begin() override {
    std::string events;
    for (size_t i = 0; i < sent_.size(); ++i)
      events += chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
    return events;
  }

  std::string on_token(size_t sequence, const Token& token) override {
    sent_[sequence] += token.text.size();
    ++completion_tokens_;
    if (token.text.empty() && !shape_.logprobs) return "";  // within a character
    Json logprobs;
    if (shape_.logprobs) logprobs = {{"content", Json::array({entry(token)})}};
    return chunk(sequence, {{"content", token.text}}, logprobs, nullptr);
  }

  std::string on_end(size_t sequence, const Written& written) override {
    const std::string& text = written.result.text;
    const std::string rest = text.substr(std::min(sent_[sequence], text.size()));
    std::string events;
    if (!rest.empty()) events = chunk(sequence, {{"content", rest}}, nullptr, nullptr);
    return events + chunk(sequence, Json::object(), nullptr, written.result.finish_reason);
  }

  Body finish(std::vector<Written> written) override {
    if (streams) {
      Body body;
      if (shape_.include_usage) {
        Json usage = head("chat.completion.chunk");
        usage["choices"] = Json::array();
        usage["usage"] = usage_of(shape_.prompt_tokens, completion_tokens_);
        body.text = event_of(text_of_json(usage));
      }
      body.text += "data: [DONE]\n\n";
      return body;
    }
    Json choices = Json::array();
    int64_t completion = 0;
    for (const Written& one : written) {
      completion += std::ssize(one.result.ids);
      Json logprobs;
      if (shape_.logprobs) {
        logprobs = {{"content", Json::array()}};
        for (const Token& token : one.tokens) logprobs["content"].push_back(entry(token));
      }
      choices.push_back(
          {{"index", choices.size()},
           {"message", {{"role", "assistant"}, {"content", one.result.text}, {"refusal", nullptr}}},
           {"logprobs", logprobs},
           {"finish_reason", one.result.finish_reason}});
    }
    Json body = head("chat.completion");
    body["choices"] = std::move(choices);
    body["usage"] = usage_of(shape_.prompt_tokens, completion);
    return {.text = text_of_json(body)};
  }

 private:
  Json head(const char* object) const {
    return {{"id", id_},
            {"object", object},
            {"created", created_},
            {"model", name_},
            {"system_fingerprint", nullptr}};
  }

  std::string chunk(size_t sequence, const Json& delta, const Json& logprobs,
                    const Json& finish_reason) const {
    Json json = head("chat.completion.chunk");
    json["choices"] = Json::array({{{"index", sequence},
                                    {"delta", delta},
                                    {"logprobs", logprobs},
                                    {"finish_reason", finish_reason}}});
    if (shape_.include_usage) json["usage"] = nullptr;
    return event_of(text_of_json(json));
  }

  Json choice_entry(const generate::Choice& choice) const {
    Json bytes = Json::array();
    for (const char byte : texts_.bytes(choice.id))
      bytes.push_back(static_cast<unsigned char>(byte));
    return {{"token", texts_.text(choice.id)},
            {"logprob", json_of_logprob(choice.logprob)},
            {"bytes", bytes}};
  }
  Json entry(const Token& token) const {
    Json json = choice_entry(token.choice);
    json["top_logprobs"] = Json::array();
    for (const generate::Choice& other : token.alternatives)
      json["top_logprobs"].push_back(choice_entry(other));
    return json;
  }

  std::string id_ = new_id("chatcmpl-");
  int64_t created_ = unix_seconds();
  std::string name_;
  ChatShape shape_;
  TokenText texts_;
  std::vector<size_t> sent_;
  int64_t completion_tokens_ = 0;
};

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
  const GenerationFields made = read_generation(fields, model);
  if (made.best_of > made.n) throw ApiError("best_of", "best_of is not a field of chats");
  fields.refuse("functions", "is not supported: give tools");
  fields.refuse("modalities", "must be text alone", Json::array({"text"}));
  fields.refuse("return_token_ids", "is a field of /v1/completions");
  fields.find("parallel_tool_calls");  // no call is made here
  const std::optional<int64_t> logprobs = read_logprobs(fields);
  auto asked = fields.whole("max_completion_tokens", 1, INT32_MAX);
  const char* const param = asked ? "max_completion_tokens" : "max_tokens";
  const auto older = fields.whole("max_tokens", 1, INT32_MAX);
  if (!asked) asked = older;
  const std::string text = read_chat(fields, model);
  // The template has put the special tokens where they belong.
  const bool special = fields.flag("add_special_tokens").value_or(false);
  PreparedSequence sequence =
      sequence_of(encode_text(model, text, special, "messages"), made, model);
  sequence.options.top_logprobs = logprobs.value_or(0);
  sequence.options.max_new_tokens =
      new_tokens(model, sequence.prompt.size(), asked, model.context, param);
  Prepared prepared;
  const ChatShape shape{.prompt_tokens = std::ssize(sequence.prompt),
                        .n = made.n,
                        .logprobs = logprobs,
                        .include_usage = made.include_usage,
                        .tokens_as_ids = made.tokens_as_ids};
  require_places(model, static_cast<size_t>(made.n));
  add_sequences(prepared.sequences, sequence, made.n);
  prepared.user = made.user;
  prepared.unknown_fields = fields.unknown();
  prepared.reply = make_chat_reply(model, shape, made.stream);
  return prepared;
}

std::unique_ptr<Reply> make_chat_reply(const ServedModel& model, const ChatShape& shape,
                                       bool streams) {
  return std::make_unique<ChatReply>(model, shape, streams);
}

}  // namespace megalith::protocols
