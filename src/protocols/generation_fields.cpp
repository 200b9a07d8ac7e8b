// SPDX-License-Identifier: Apache-2.0
#include "protocols/generation_fields.h"

#include <algorithm>
#include <charconv>
#include <random>

#include "base/clock.h"
#include "base/one_line.h"
#include "generate/bad_words.h"

namespace megalith::protocols {
namespace {

uint64_t random_bits() {
  std::random_device source;
  return (uint64_t{source()} << 32) | source();
}

std::vector<std::string> read_texts(Fields& fields, std::string_view name, bool may_be_one) {
  const Json* const json = fields.find(name);
  if (json == nullptr) return {};
  const std::string path = fields.path(name);
  std::vector<std::string> texts;
  const auto add = [&](const Json& text) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty())
      throw ApiError(path, "{} must hold strings that are not empty", path);
    if (text.get_ref<const std::string&>().size() > kMostStopBytes)
      throw ApiError(path, "a string of {} has more than {} bytes", path, kMostStopBytes);
    texts.push_back(text.get<std::string>());
  };
  if (may_be_one && json->is_string()) {
    add(*json);
  } else if (json->is_array()) {
    if (json->size() > kMostStops)
      throw ApiError(path, "{} has {} strings; at most {} are taken", path, json->size(),
                     kMostStops);
    for (const Json& text : *json) add(text);
  } else {
    throw ApiError(path, "{} must be a list of strings", path);
  }
  return texts;
}

void read_biases(Fields& fields, const ServedModel& model, generate::SamplingOptions& sampling) {
  const Json* const json = fields.find("logit_bias");
  if (json == nullptr) return;
  const std::string path = fields.path("logit_bias");
  if (!json->is_object())
    throw ApiError(path, "{} must be an object of token ids and biases", path);
  if (json->size() > kMostBiases)
    throw ApiError(path, "{} has {} entries; at most {} are taken", path, json->size(),
                   kMostBiases);
  for (const auto& [key, bias] : json->items()) {
    int32_t id = -1;
    const char* const end = key.data() + key.size();
    const auto [stopped, error] = std::from_chars(key.data(), end, id);
    if (error != std::errc() || stopped != end || id < 0 || id >= model.vocab) {
      throw ApiError(path, "{}: '{}' is no token of the vocabulary of {}", path, one_line(key, 40),
                     model.vocab);
    }
    if (!bias.is_number() || !(std::abs(bias.get<double>()) <= 100))
      throw ApiError(path, "{}: the bias of {} must be from -100 to 100", path, key);
    sampling.logit_bias[id] = bias.get<double>();
  }
}

void read_bad_words(Fields& fields, const ServedModel& model, generate::SamplingOptions& sampling) {
  const std::vector<std::string> words = read_texts(fields, "bad_words", false);
  if (words.empty()) return;
  const std::string path = fields.path("bad_words");
  try {
    sampling.bad_words = generate::runs_of_words(require_tokenizer(model, path), words);
  } catch (const ApiError&) {
    throw;
  } catch (const UserError& error) {
    throw ApiError(path, "{}", error.what());
  }
}

void read_sampling(Fields& fields, const ServedModel& model, generate::SamplingOptions& sampling) {
  sampling.temperature = fields.number("temperature", 0, 2).value_or(1);
  sampling.top_p = fields.number("top_p", 0, 1).value_or(1);
  if (sampling.top_p == 0) {  // the most likely token is always in the set
    sampling.top_p = 1;
    sampling.top_k = 1;
  }
  // -1 is how some clients say "all".
  const int64_t top_k = std::max<int64_t>(fields.whole("top_k", -1, INT32_MAX).value_or(0), 0);
  if (sampling.top_k == 0) sampling.top_k = top_k;
  sampling.min_p = fields.number("min_p", 0, 1).value_or(0);
  sampling.typical_p = fields.number("typical_p", 1e-6, 1).value_or(1);
  sampling.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  sampling.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  sampling.repetition_penalty = fields.number("repetition_penalty", 1e-3, 100).value_or(1);
  sampling.no_repeat_ngram = fields.whole("no_repeat_ngram_size", 0, INT32_MAX).value_or(0);
  const auto seed = fields.whole("seed", INT64_MIN, INT64_MAX);
  sampling.seed = seed ? static_cast<uint64_t>(*seed) : random_bits();
  read_biases(fields, model, sampling);
  read_bad_words(fields, model, sampling);
}

void read_ends(Fields& fields, const ServedModel& model, generate::GenerateOptions& options) {
  options.stop = read_texts(fields, "stop", true);
  if (!options.stop.empty()) require_tokenizer(model, fields.path("stop"));
  if (!fields.flag("ignore_eos").value_or(false)) options.end_ids = model.end_ids;
  options.min_tokens = fields.whole("min_tokens", 0, INT32_MAX).value_or(0);
  if (const Json* const ids = fields.find("stop_token_ids")) {
    for (const int32_t id : token_ids(*ids, model.vocab, 128, fields.path("stop_token_ids")))
      options.end_ids.push_back(id);
  }
}

/// A search looks for the likeliest texts: nothing is drawn, and no text ends it.
void check_search(const GenerationFields& made) {
  const generate::SamplingOptions& sampling = made.options.sampling;
  const auto refuse_unless = [](bool fine, const char* name, const char* must) {
    if (!fine) throw ApiError(name, "{} must be {} with use_beam_search", name, must);
  };
  refuse_unless(sampling.temperature == 0 || sampling.temperature == 1, "temperature", "0 or 1");
  refuse_unless(sampling.top_p == 1, "top_p", "1");
  refuse_unless(sampling.top_k == 0, "top_k", "-1, and top_p 1,");
  refuse_unless(sampling.min_p == 0, "min_p", "0");
  refuse_unless(sampling.typical_p == 1, "typical_p", "1");
  refuse_unless(made.options.stop.empty(), "stop", "absent");
  refuse_unless(!made.stream, "stream", "false");
}

/// vLLM's beam search: best_of beams (n, if it is not given), of which the n best are told.
void read_search(Fields& fields, const ServedModel& model, GenerationFields& made) {
  const auto length_penalty = fields.number("length_penalty", -100, 100);
  const Json* const early = fields.find("early_stopping");
  if (early != nullptr && !early->is_boolean() && *early != "never")
    throw ApiError("early_stopping", "early_stopping must be true, false or never");
  if (!fields.flag("use_beam_search").value_or(false)) {
    for (const char* name : {"length_penalty", "early_stopping"})
      fields.refuse(name, "is for requests with use_beam_search", 1.0);
    return;
  }
  if (made.best_of < 2)
    throw ApiError("best_of", "best_of (or n) must be at least 2 with use_beam_search");
  if (made.best_of > model.most_beams) {
    throw ApiError("best_of", "{} beams are more than the {} texts that are written at once here",
                   made.best_of, model.most_beams);
  }
  check_search(made);
  generate::GenerateOptions& options = made.options;
  options.beams = made.best_of;
  options.best = made.n;
  options.length_penalty = length_penalty.value_or(1);
  using generate::EarlyStopping;
  if (early != nullptr)
    options.early_stopping = early->is_string()   ? EarlyStopping::never
                             : early->get<bool>() ? EarlyStopping::at_once
                                                  : EarlyStopping::likely;
}

void read_stream(Fields& fields, GenerationFields& made) {
  made.stream = fields.flag("stream").value_or(false);
  const Json* const options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!made.stream)
    throw ApiError("stream_options", "stream_options is for requests with stream: true");
  made.include_usage = Fields(*options, "stream_options.").flag("include_usage").value_or(false);
}

}  // namespace

GenerationFields read_generation(Fields& fields, const ServedModel& model) {
  if (!model.writes)
    throw ApiError("model", "'{}' is a model that reads; it does not write", model.name);
  GenerationFields made;
  read_sampling(fields, model, made.options.sampling);
  read_ends(fields, model, made.options);
  read_stream(fields, made);
  made.n = fields.whole("n", 1, kMostChoices).value_or(1);
  const bool searches = fields.flag("use_beam_search").value_or(false);
  const int64_t most = searches ? generate::kMostBeams : kMostChoices;
  made.best_of = fields.whole("best_of", 1, most).value_or(made.n);
  if (made.best_of < made.n)
    throw ApiError("best_of", "best_of {} is less than n {}", made.best_of, made.n);
  if (made.stream && made.best_of > made.n && !searches)
    throw ApiError("best_of", "best_of {} cannot be streamed: give best_of {} or no stream",
                   made.best_of, made.n);
  made.user = fields.text("user", kMostUserBytes).value_or("");
  made.truncate_prompt = fields.whole("truncate_prompt_tokens", 1, model.context);
  made.tokens_as_ids = fields.flag("return_tokens_as_token_ids").value_or(false);
  made.return_ids = fields.flag("return_token_ids").value_or(false);
  constexpr const char* kLater = "is not supported by this server";
  fields.refuse("allowed_token_ids", kLater);
  fields.refuse("include_stop_str_in_output", kLater);
  fields.refuse("skip_special_tokens", "must be true: texts are without special tokens", true);
  fields.refuse("prompt_logprobs", "is not supported: use echo with logprobs");
  fields.refuse("priority", "must be 0: clients take turns");
  fields.refuse("store", "must be false: nothing is kept here");
  for (const char* name : {"spaces_between_special_tokens", "service_tier", "metadata"})
    fields.find(name);  // known, and of no effect here
  read_search(fields, model, made);
  made.form = read_text_form(fields, model);
  return made;
}

void truncate(std::vector<int32_t>& prompt, const GenerationFields& fields,
              const ServedModel& model) {
  if (!fields.truncate_prompt) return;
  const int64_t left_out = counted_tokens(model, prompt.size()) - *fields.truncate_prompt;
  if (left_out <= 0) return;
  const auto end = prompt.begin() + left_out;
  if (std::any_of(prompt.begin(), end, [&](int32_t id) { return id >= model.vocab; })) {
    throw ApiError("truncate_prompt_tokens",
                   "the last {} tokens of the prompt are without some of its virtual tokens",
                   *fields.truncate_prompt);
  }
  prompt.erase(prompt.begin(), end);
}

PreparedSequence sequence_of(std::vector<int32_t> prompt, const GenerationFields& fields,
                             const ServedModel& model) {
  truncate(prompt, fields, model);
  auto allowed = beginning_of(fields.form, prompt, model);
  return {std::move(prompt), fields.options, std::move(allowed)};
}

void add_sequences(std::vector<PreparedSequence>& sequences, const PreparedSequence& sequence,
                   int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    sequences.push_back(sequence);
    sequences.back().options.sampling.seed += static_cast<uint64_t>(i);
  }
}

void require_places(const ServedModel& model, size_t sequences) {
  if (static_cast<int64_t>(sequences) > model.most_sequences) {
    throw ApiError("n", "{} texts are more than this server takes at once, which is {}", sequences,
                   model.most_sequences);
  }
}

Json usage_of(int64_t prompt, int64_t completion) {
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion}};
}

std::string new_id(std::string_view prefix) {
  return fmt::format("{}{:016x}{:016x}", prefix, random_bits(), random_bits());
}

int64_t unix_seconds() { return static_cast<int64_t>(wall_seconds()); }

}  // namespace megalith::protocols
