// SPDX-License-Identifier: Apache-2.0
#include "apps/generate/generate_options.h"

#include <fmt/ranges.h>

#include <charconv>

#include "apps/chat_text.h"
#include "generate/bad_words.h"

namespace megalith::apps {
namespace {

template <typename Number>
bool parse_all(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end;
}

std::map<int32_t, double> biases_of(std::span<const std::string> texts, int64_t vocab) {
  std::map<int32_t, double> biases;
  for (const std::string& text : texts) {
    const size_t sign = std::min(text.find('='), text.size());
    int32_t id = 0;
    double bias = 0;
    if (!parse_all(std::string_view(text).substr(0, sign), id) || sign == text.size() ||
        !parse_all(std::string_view(text).substr(sign + 1), bias)) {
      throw UserError("--logit-bias {}: give a token's id and a number, as in 262=-5", text);
    }
    if (id < 0 || id >= vocab)
      throw UserError("--logit-bias {}: the ids of this model are 0 to {}", text, vocab - 1);
    biases[id] += bias;
  }
  return biases;
}

void declare_sampling(CLI::App& c, generate::SamplingOptions& s) {
  const auto number = [&](const char* name, double& value, const char* what) {
    c.add_option(name, value, what)->capture_default_str();
  };
  const auto whole = [&](const char* name, auto& value, const char* what) {
    c.add_option(name, value, what)->check(whole_number(0))->capture_default_str();
  };
  number("--temperature", s.temperature, "0: always the most likely");
  whole("--top-k", s.top_k, "draw from the k most likely; 0: all");
  number("--top-p", s.top_p, "draw from the smallest set of this probability");
  number("--min-p", s.min_p, "and from those at least so probable, beside the most likely one");
  number("--typical-p", s.typical_p,
         "and from those as surprising as is usual, of this probability");
  whole("--seed", s.seed, "of the draws");
  number("--repetition-penalty", s.repetition_penalty,
         "divides the logit of a token of prompt or text; 1: none");
  number("--presence-penalty", s.presence_penalty,
         "taken from the logit of a token of the text; 0: none");
  number("--frequency-penalty", s.frequency_penalty, "and this for each time it is there");
  whole("--no-repeat-ngram", s.no_repeat_ngram, "no run of n tokens comes twice; 0: any may");
}

void declare_text(CLI::App& c, GenerateOptions& o) {
  const auto texts = [&](const char* name, std::vector<std::string>& values, const char* what) {
    c.add_option(name, values, what)->take_all()->allow_extra_args(false);
  };
  texts("--logit-bias", o.biases, "ID=VALUE: added to the logit of a token (repeatable)");
  texts("--bad-words", o.bad_words, "this text is not written (repeatable)");
  texts("--stop", o.generate.stop, "stop before this text (repeatable)");
  c.add_option("--min-tokens", o.generate.min_tokens, "nothing ends the text before so many")
      ->check(whole_number(0))
      ->capture_default_str();
  c.add_flag("--ignore-eos", o.generate.ignore_eos, "end tokens are tokens like others");
  c.add_option("--top-logprobs", o.generate.top_logprobs,
               "with --json: so many alternatives of each token")
      ->check(whole_number(0, generate::kMostLogprobs))
      ->capture_default_str();
  c.add_flag("--prompt-logprobs", o.generate.prompt_logprobs,
             "with --json: log-probabilities of the prompt's tokens too");
}

void declare_beams(CLI::App& c, GenerateOptions& all) {
  generate::GenerateOptions& o = all.generate;
  auto* const beams =
      c.add_option("--beams", o.beams, "search for the likeliest text along so many; 1: draw it");
  beams->check(whole_number(1, generate::kMostBeams))->capture_default_str();
  c.add_option("--length-penalty", o.length_penalty,
               "of --beams: a text's score is its log-probability / (tokens ^ this)")
      ->needs(beams)
      ->capture_default_str();
  c.add_option("--early-stopping", all.early_stopping,
               "of --beams, once as many texts have ended: stop (true), or when no better one is "
               "likely (false) or possible (never)")
      ->check(CLI::IsMember({"true", "false", "never"}))
      ->needs(beams)
      ->capture_default_str();
  c.add_option("--best", o.best, "of --beams, with --json: so many texts")
      ->check(whole_number(1, generate::kMostBeams))
      ->needs(beams)
      ->capture_default_str();
}

void declare_guesses(CLI::App& c, GenerateOptions& o) {
  auto* const lookup = c.add_option("--lookup", o.generate.lookup,
                                    "guess so many tokens at a time from what followed the same "
                                    "ones before: the text is the same, sooner; 0: none");
  lookup->check(whole_number(0, generate::kMostGuesses))->capture_default_str();
  auto* const draft = c.add_option("--draft", o.draft,
                                   "checkpoint of a smaller model with the same tokenizer, which "
                                   "guesses tokens: the text is the "
                                   "same, sooner");
  draft->excludes(lookup);
  c.add_option("--draft-tokens", o.draft_tokens, "that it guesses at a time")
      ->check(whole_number(1, generate::kMostGuesses))
      ->needs(draft)
      ->capture_default_str();
}

}  // namespace

/// All that the text depends on.
std::string text_of(const generate::GenerateOptions& o) {
  const generate::SamplingOptions& s = o.sampling;
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}",
                  o.max_new_tokens, o.min_tokens, o.ignore_eos, o.top_logprobs, o.prompt_logprobs,
                  o.lookup, o.draft, o.beams, o.length_penalty, static_cast<int>(o.early_stopping),
                  o.best, s.temperature, s.top_k, s.top_p, s.min_p, s.typical_p, s.seed,
                  s.repetition_penalty, s.presence_penalty, s.frequency_penalty, s.no_repeat_ngram);
  for (const auto& [id, bias] : s.logit_bias) text += fmt::format(" {}={}", id, bias);
  for (const auto& run : s.bad_words) text += fmt::format(" ({})", fmt::join(run, " "));
  return fmt::format("{}\n{}", text, fmt::join(o.stop, "\n"));
}

void GenerateOptions::declare(CLI::App& c) {
  checkpoint.declare(c);
  checkpoint.declare_cache(c);
  checkpoint.declare_adapter(c);
  auto* const given = c.add_option("--prompt", prompt, "the text to continue");
  c.add_option("--messages", messages,
               std::string("instead: a conversation to answer, by the model's chat template; ") +
                   kMessagesHelp)
      ->excludes(given);
  c.add_option("--max-new-tokens", generate.max_new_tokens, "at most so many")
      ->check(whole_number(0))
      ->capture_default_str();
  declare_sampling(c, generate.sampling);
  declare_text(c, *this);
  declare_beams(c, *this);
  declare_guesses(c, *this);
  grammar.declare(c);
  c.add_flag("--stream", stream, "print text as it comes");
}

megalith::generate::GenerateOptions GenerateOptions::for_model(const store::ModelSource& source,
                                                               bool json) const {
  if (!json && (generate.top_logprobs > 0 || generate.prompt_logprobs || generate.best > 1))
    throw UserError("--top-logprobs, --prompt-logprobs and --best need --json to show them");
  if (json && stream)
    throw UserError(
        "--stream prints text as it comes, and --json one result: leave one of them out");
  megalith::generate::GenerateOptions options = generate;
  options.end_ids = source.end_ids();
  options.sampling.bad_words =
      megalith::generate::runs_of_words(source.require_tokenizer(), bad_words);
  options.sampling.logit_bias = biases_of(biases, source.spec().vocab);
  if (draft) options.draft = draft_tokens;
  using megalith::generate::EarlyStopping;
  options.early_stopping = early_stopping == "true"    ? EarlyStopping::at_once
                           : early_stopping == "never" ? EarlyStopping::never
                                                       : EarlyStopping::likely;
  check(options);
  return options;
}

}  // namespace megalith::apps
