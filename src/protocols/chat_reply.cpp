// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "protocols/chat_completion.h"
#include "protocols/token_text.h"
#include "protocols/tool_calls.h"

namespace megalith::protocols {
namespace {

class ChatReply final : public Reply {
 public:
  ChatReply(const ServedModel& model, const ChatShape& shape, bool stream)
      : name_(model.name),
        shape_(shape),
        tokenizer_(model.tokenizer),
        reads_(model.is_encoder_decoder),
        texts_(model.tokenizer, shape.tokens_as_ids),
        sent_(static_cast<size_t>(shape.n)) {
    streams = stream;
    if (shape.forced) calls_.resize(sent_.size(), CallReader(*shape.forced));
  }

  std::string begin() override {
    std::string events;
    const Json content = shape_.forced ? Json() : Json("");
    for (size_t i = 0; i < sent_.size(); ++i)
      events += chunk(i, {{"role", "assistant"}, {"content", content}}, nullptr, nullptr);
    return events;
  }

  std::string on_token(size_t sequence, const Token& token) override {
    sent_[sequence] += token.text.size();
    ++completion_tokens_;
    if (token.text.empty() && !shape_.logprobs) return "";  // within a character
    Json logprobs;
    if (shape_.logprobs) logprobs = {{"content", Json::array({entry(token)})}};
    const Json delta = delta_of(sequence, token.text);
    return delta.empty() && !shape_.logprobs ? "" : chunk(sequence, delta, logprobs, nullptr);
  }

  std::string on_end(size_t sequence, const Written& written) override {
    const std::string& text = written.result.text;
    const std::string rest = text.substr(std::min(sent_[sequence], text.size()));
    std::string events;
    const Json delta = rest.empty() ? Json::object() : delta_of(sequence, rest);
    if (!delta.empty()) events = chunk(sequence, delta, nullptr, nullptr);
    const bool calls = shape_.forced && calls_[sequence].is_whole();
    return events + chunk(sequence, Json::object(), nullptr,
                          calls ? "tool_calls" : written.result.finish_reason);
  }

  Body finish(std::vector<Written> written) override {
    if (streams) {
      Body body;
      if (shape_.include_usage) {
        Json usage = head("chat.completion.chunk");
        usage["choices"] = Json::array();
        usage["usage"] = usage_of(std::ssize(shape_.prompt), completion_tokens_);
        body.text = event_of(text_of_json(usage));
      }
      body.text += "data: [DONE]\n\n";
      return body;
    }
    const std::span<const int32_t> before =
        reads_ ? std::span<const int32_t>() : std::span<const int32_t>(shape_.prompt);
    std::vector<Written> texts;
    for (Written& one : written)
      std::ranges::move(texts_of_search(std::move(one), tokenizer_, before),
                        std::back_inserter(texts));
    Json choices = Json::array();
    int64_t completion = 0;
    for (const Written& one : texts) {
      completion += std::ssize(one.result.ids);
      Json logprobs;
      if (shape_.logprobs) {
        logprobs = {{"content", Json::array()}};
        for (const Token& token : one.tokens) logprobs["content"].push_back(entry(token));
      }
      auto [message, reason] = message_of(one.result);
      choices.push_back({{"index", choices.size()},
                         {"message", message},
                         {"logprobs", logprobs},
                         {"finish_reason", reason}});
    }
    Json body = head("chat.completion");
    body["choices"] = std::move(choices);
    body["usage"] = usage_of(std::ssize(shape_.prompt), completion);
    return {.text = text_of_json(body)};
  }

 private:
  /// The message and why it ends.
  std::pair<Json, std::string> message_of(const generate::Generated& result) const {
    Json message{{"role", "assistant"}, {"content", result.text}, {"refusal", nullptr}};
    if (!shape_.forced) return {message, result.finish_reason};
    CallReader reader(*shape_.forced);
    Json calls = Json::array();
    for (CallReader::Piece& piece : reader.push(result.text)) {
      calls.push_back({{"id", new_id("call_")},
                       {"type", "function"},
                       {"function", {{"name", piece.name}, {"arguments", piece.arguments}}}});
    }
    message["content"] = nullptr;
    message["tool_calls"] = calls;
    return {message, reader.is_whole() ? "tool_calls" : result.finish_reason};
  }

  /// What a piece of text adds to the message.
  Json delta_of(size_t sequence, const std::string& text) {
    if (!shape_.forced) return {{"content", text}};
    Json calls = Json::array();
    for (CallReader::Piece& piece : calls_[sequence].push(text)) {
      Json call{{"index", piece.call}};
      if (!piece.name.empty()) {
        call["id"] = new_id("call_");
        call["type"] = "function";
        call["function"]["name"] = piece.name;
      }
      call["function"]["arguments"] = piece.arguments;
      calls.push_back(std::move(call));
    }
    return calls.empty() ? Json::object() : Json{{"tool_calls", std::move(calls)}};
  }

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
  const text::Tokenizer* tokenizer_;
  bool reads_;  // an encoder has the prompt
  TokenText texts_;
  std::vector<size_t> sent_;
  std::vector<CallReader> calls_;  // of what was sent, if they are forced
  int64_t completion_tokens_ = 0;
};

}  // namespace

std::unique_ptr<Reply> make_chat_reply(const ServedModel& model, const ChatShape& shape,
                                       bool streams) {
  return std::make_unique<ChatReply>(model, shape, streams);
}

}  // namespace megalith::protocols
