// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <numeric>

#include "characters/utf8.h"
#include "layers/virtual_tokens.h"
#include "protocols/completion.h"
#include "text/token_text.h"

namespace megalith::protocols {
namespace {

/// The arrays of a choice's "logprobs".
class LogprobArrays {
 public:
  explicit LogprobArrays(const text::TokenText& texts) : texts_(texts) {}

  /// `logprob` absent: of the first token of a prompt. `text`: what the token adds to the answer.
  void add(int32_t id, std::optional<double> logprob,
           const std::vector<generate::Choice>& alternatives, std::string_view text) {
    const std::string name = texts_.text(id);
    tokens_.push_back(name);
    offsets_.push_back(offset_);
    offset_ += characters::count_characters(text);
    if (!logprob) {
      logprobs_.push_back(nullptr);
      top_.push_back(nullptr);
      return;
    }
    logprobs_.push_back(json_of_logprob(*logprob));
    Json top = Json::object();
    const auto put = [&](const std::string& token, double value) {
      // Of ids that read alike the likelier counts; they come likeliest first.
      if (!top.contains(token)) top[token] = json_of_logprob(value);
    };
    for (const generate::Choice& other : alternatives) put(texts_.text(other.id), other.logprob);
    put(name, *logprob);
    top_.push_back(std::move(top));
  }
  void set_offset(int64_t characters) { offset_ = characters; }
  int64_t offset() const { return offset_; }
  Json json() const {
    return {{"tokens", tokens_},
            {"token_logprobs", logprobs_},
            {"top_logprobs", top_},
            {"text_offset", offsets_}};
  }

 private:
  const text::TokenText& texts_;
  int64_t offset_ = 0;
  Json tokens_ = Json::array(), logprobs_ = Json::array(), top_ = Json::array(),
       offsets_ = Json::array();
};

double mean_logprob(const generate::Generated& result) {
  const std::vector<double>& all = result.logprobs;
  if (all.empty()) return 0;
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

class CompletionReply final : public Reply {
 public:
  CompletionReply(const ServedModel& model, CompletionShape shape, bool stream)
      : name_(model.name),
        tokenizer_(model.tokenizer),
        shape_(std::move(shape)),
        texts_(model.tokenizer, shape_.tokens_as_ids),
        reads_(model.is_encoder_decoder),
        vocab_(model.vocab),
        states_(shape_.prompts.size() * static_cast<size_t>(shape_.sequences)) {
    streams = stream;
    for (const auto& prompt : shape_.prompts)
      prompt_tokens_ += counted_tokens(model, prompt.ids.size());
  }

  std::string begin() override {
    std::string events;
    for (size_t i = 0; i < states_.size() && shape_.echo; ++i) {
      states_[i].offset = characters::count_characters(prompt_of(i).text);
      events += chunk(i, prompt_of(i).text, nullptr, nullptr);
    }
    return events;
  }

  std::string on_token(size_t sequence, const Token& token) override {
    State& state = states_[sequence];
    state.sent += token.text.size();
    ++completion_tokens_;
    if (token.text.empty() && !shape_.logprobs) return "";  // within a character
    LogprobArrays arrays(texts_);
    arrays.set_offset(state.offset);
    if (shape_.logprobs)
      arrays.add(token.choice.id, token.choice.logprob, token.alternatives, token.text);
    state.offset += characters::count_characters(token.text);
    return chunk(sequence, token.text, shape_.logprobs ? arrays.json() : Json(), nullptr);
  }

  std::string on_end(size_t sequence, const Written& written) override {
    const std::string& text = written.result.text;
    const size_t sent = std::min(states_[sequence].sent, text.size());
    return chunk(sequence, text.substr(sent), nullptr, written.result.finish_reason);
  }

  Body finish(std::vector<Written> written) override {
    if (streams) {
      Body body;
      if (shape_.include_usage) {
        Json usage = head();
        usage["choices"] = Json::array();
        usage["usage"] = usage_of(prompt_tokens_, completion_tokens_);
        body.text = event_of(text_of_json(usage));
      }
      body.text += "data: [DONE]\n\n";
      return body;
    }
    Json choices = Json::array();
    int64_t completion = 0;
    const auto n = static_cast<size_t>(shape_.n);
    for (size_t p = 0; p < shape_.prompts.size(); ++p) {
      const std::vector<Written> texts = texts_of(p, written);
      for (const Written& one : texts) completion += std::ssize(one.result.ids);
      for (size_t j = 0; j < std::min(n, texts.size()); ++j)
        choices.push_back(choice(p * n + j, shape_.prompts[p], texts[j]));
    }
    Json body = head();
    body["choices"] = std::move(choices);
    body["usage"] = usage_of(prompt_tokens_, completion);
    return {.text = text_of_json(body)};
  }

 private:
  struct State {
    size_t sent = 0;     // bytes of text
    int64_t offset = 0;  // characters
  };

  const CompletionShape::Prompt& prompt_of(size_t sequence) const {
    return shape_.prompts[sequence / static_cast<size_t>(shape_.sequences)];
  }
  /// Of a prompt, the best first where some are left out.
  std::vector<Written> texts_of(size_t prompt, std::vector<Written>& written) const {
    const auto each = shape_.sequences;
    const auto first = written.begin() + static_cast<int64_t>(prompt) * each;
    std::vector<Written> texts;
    std::move(first, first + each, std::back_inserter(texts));
    if (shape_.searches) {
      std::vector<int32_t> before;
      if (!reads_) before = layers::without_virtual(vocab_, shape_.prompts[prompt].ids);
      return texts_of_search(std::move(texts.front()), tokenizer_, before);
    }
    if (each > shape_.n) {
      std::ranges::stable_sort(texts, std::ranges::greater{},
                               [](const Written& one) { return mean_logprob(one.result); });
    }
    return texts;
  }

  Json head() const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", name_},
            {"system_fingerprint", nullptr}};
  }

  std::string chunk(size_t sequence, const std::string& text, const Json& logprobs,
                    const Json& finish_reason) const {
    Json json = head();
    json["choices"] = Json::array({{{"index", sequence},
                                    {"text", text},
                                    {"logprobs", logprobs},
                                    {"finish_reason", finish_reason},
                                    {"stop_reason", nullptr}}});
    if (shape_.include_usage) json["usage"] = nullptr;
    return event_of(text_of_json(json));
  }

  void add_prompt(LogprobArrays& arrays, const CompletionShape::Prompt& prompt,
                  const Written& written) const {
    std::optional<text::StreamDecoder> decoder;
    if (tokenizer_ != nullptr) decoder.emplace(*tokenizer_);
    for (size_t i = 0; i < prompt.ids.size(); ++i) {
      const std::string text = decoder ? decoder->push(prompt.ids[i]) : "";
      if (i == 0) {
        arrays.add(prompt.ids[0], {}, {}, text);
        continue;
      }
      const auto& alternatives = written.result.prompt_top_logprobs;
      arrays.add(prompt.ids[i], written.result.prompt_logprobs.at(i - 1),
                 i <= alternatives.size() ? alternatives[i - 1] : std::vector<generate::Choice>(),
                 text);
    }
    arrays.set_offset(characters::count_characters(prompt.text));
  }

  Json choice(size_t index, const CompletionShape::Prompt& prompt, const Written& written) const {
    LogprobArrays arrays(texts_);
    if (shape_.logprobs && shape_.echo) add_prompt(arrays, prompt, written);
    for (const Token& token : written.tokens)
      if (shape_.logprobs)
        arrays.add(token.choice.id, token.choice.logprob, token.alternatives, token.text);
    // An end token that was asked for as the one token behind a prompt has no text.
    const auto& ids = written.result.ids;
    const bool is_end =
        ids.size() == 1 && std::ranges::find(shape_.end_ids, ids[0]) != shape_.end_ids.end();
    Json json{{"index", index},
              {"text", (shape_.echo ? prompt.text : "") + (is_end ? "" : written.result.text)},
              {"logprobs", shape_.logprobs ? arrays.json() : Json()},
              {"finish_reason", is_end ? "stop" : written.result.finish_reason},
              {"stop_reason", nullptr}};
    if (shape_.return_ids) {
      json["prompt_token_ids"] = prompt.ids;
      json["token_ids"] = written.result.ids;
    }
    return json;
  }

  std::string id_ = new_id("cmpl-");
  int64_t created_ = unix_seconds();
  std::string name_;
  const text::Tokenizer* tokenizer_;
  CompletionShape shape_;
  text::TokenText texts_;
  bool reads_;  // an encoder has the prompts
  int64_t vocab_;
  std::vector<State> states_;
  int64_t prompt_tokens_ = 0, completion_tokens_ = 0;
};

}  // namespace

std::unique_ptr<Reply> make_completion_reply(const ServedModel& model, CompletionShape shape,
                                             bool streams) {
  return std::make_unique<CompletionReply>(model, std::move(shape), streams);
}

}  // namespace megalith::protocols
