// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <iterator>

#include "layers/virtual_tokens.h"
#include "protocols/chat_completion.h"
#include "text/token_text.h"

namespace megalith::protocols {
namespace {

class ChatReply final : public Reply {
 public:
  ChatReply(const ServedModel& model, const ChatShape& shape, const ToolFields& tools, bool stream)
      : name_(model.name),
        shape_(shape),
        tokenizer_(model.tokenizer),
        prompt_tokens_(counted_tokens(model, shape.prompt.size())),
        texts_(model.tokenizer, shape.tokens_as_ids),
        sent_(static_cast<size_t>(shape.n)) {
    streams = stream;
    if (!model.is_encoder_decoder) before_ = layers::without_virtual(model.vocab, shape.prompt);
    forced_ = tools.forces;
    new_reader_ = [tools] { return tools.reader(); };
    for (size_t i = 0; i < sent_.size(); ++i) calls_.push_back(new_reader_());
  }

  std::string begin() override {
    std::string events;
    const Json content = forced_ ? Json() : Json("");
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
    const auto add = [&](const Json& delta) {
      if (!delta.empty()) events += chunk(sequence, delta, nullptr, nullptr);
    };
    if (!rest.empty()) add(delta_of(sequence, rest));
    const auto& reader = calls_[sequence];
    if (reader) add(delta_of(reader->finish()));
    return events + chunk(sequence, Json::object(), nullptr,
                          reason_of(reader.get(), written.result.finish_reason));
  }

  Body finish(std::vector<Written> written) override {
    if (streams) {
      Body body;
      if (shape_.include_usage) {
        Json usage = head("chat.completion.chunk");
        usage["choices"] = Json::array();
        usage["usage"] = usage_of(prompt_tokens_, completion_tokens_);
        body.text = event_of(text_of_json(usage));
      }
      body.text += "data: [DONE]\n\n";
      return body;
    }
    std::vector<Written> texts;
    for (Written& one : written)
      std::ranges::move(texts_of_search(std::move(one), tokenizer_, before_),
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
    body["usage"] = usage_of(prompt_tokens_, completion);
    return {.text = text_of_json(body)};
  }

 private:
  std::string reason_of(const chat::CallReader* reader, const std::string& reason) const {
    // A text that is calls alone is whole with the last of them; another may go on.
    const bool ends = reader != nullptr && reader->has_called() && (forced_ || reason == "stop");
    return ends ? "tool_calls" : reason;
  }

  /// The message and why it ends.
  std::pair<Json, std::string> message_of(const generate::Generated& result) const {
    Json message{{"role", "assistant"}, {"content", result.text}, {"refusal", nullptr}};
    const auto reader = new_reader_();
    if (reader == nullptr) return {message, result.finish_reason};
    chat::MessagePiece whole = reader->push(result.text);
    whole.content += reader->finish().content;
    const Json calls = json_of(whole.calls, false);
    const bool has_content = !whole.content.empty() || (calls.empty() && !forced_);
    message["content"] = has_content ? Json(whole.content) : Json();
    if (!calls.empty() || forced_) message["tool_calls"] = calls;
    return {message, reason_of(reader.get(), result.finish_reason)};
  }

  /// What a piece of text adds to the message.
  Json delta_of(size_t sequence, const std::string& text) {
    if (calls_[sequence] == nullptr) return {{"content", text}};
    return delta_of(calls_[sequence]->push(text));
  }
  static Json delta_of(const chat::MessagePiece& piece) {
    Json delta = Json::object();
    if (!piece.content.empty()) delta["content"] = piece.content;
    if (!piece.calls.empty()) delta["tool_calls"] = json_of(piece.calls, true);
    return delta;
  }
  static Json json_of(const std::vector<chat::MessagePiece::Call>& calls, bool has_index) {
    Json list = Json::array();
    for (const auto& [index, name, arguments] : calls) {
      Json& call = list.emplace_back(Json::object());
      if (has_index) call["index"] = index;
      if (!name.empty() || !has_index) {
        call["id"] = new_id("call_");
        call["type"] = "function";
        call["function"]["name"] = name;
      }
      call["function"]["arguments"] = arguments;
    }
    return list;
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
  int64_t prompt_tokens_;
  std::vector<int32_t> before_;  // what texts go on from; empty where an encoder has the prompt
  text::TokenText texts_;
  std::vector<size_t> sent_;
  bool forced_ = false;
  std::function<std::unique_ptr<chat::CallReader>()> new_reader_;
  std::vector<std::unique_ptr<chat::CallReader>> calls_;  // of what was sent
  int64_t completion_tokens_ = 0;
};

}  // namespace

std::unique_ptr<Reply> make_chat_reply(const ServedModel& model, const ChatShape& shape,
                                       const ToolFields& tools, bool streams) {
  return std::make_unique<ChatReply>(model, shape, tools, streams);
}

}  // namespace megalith::protocols
