// SPDX-License-Identifier: Apache-2.0
// megalith generate
#include <fmt/ranges.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/chat_text.h"
#include "apps/checkpoint_options.h"
#include "apps/command.h"
#include "apps/grammar/options.h"
#include "generate/bad_words.h"
#include "generate/generator.h"

namespace megalith::apps {
namespace {

struct GenerateOptions {
  CheckpointOptions checkpoint;
  std::optional<std::string> prompt, messages;  // one of them
  generate::GenerateOptions generate;
  GrammarOptions grammar;
  std::vector<std::string> bad_words;
  std::vector<std::string> biases;  // ID=VALUE
  bool stream = false;
};

/// All that the text depends on.
std::string text_of(const generate::GenerateOptions& o) {
  const generate::SamplingOptions& s = o.sampling;
  std::string text = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", o.max_new_tokens, o.min_tokens, o.ignore_eos,
      o.top_logprobs, o.prompt_logprobs, s.temperature, s.top_k, s.top_p, s.min_p, s.typical_p,
      s.seed, s.repetition_penalty, s.presence_penalty, s.frequency_penalty, s.no_repeat_ngram);
  for (const auto& [id, bias] : s.logit_bias) text += fmt::format(" {}={}", id, bias);
  for (const auto& run : s.bad_words) text += fmt::format(" ({})", fmt::join(run, " "));
  return fmt::format("{}\n{}", text, fmt::join(o.stop, "\n"));
}

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

using Json = nlohmann::ordered_json;

Json json_of(const std::vector<std::vector<generate::Choice>>& alternatives) {
  Json lists = Json::array();
  for (const std::vector<generate::Choice>& choices : alternatives) {
    Json& list = lists.emplace_back(Json::array());
    for (const auto& [id, logprob] : choices) list.push_back({{"id", id}, {"logprob", logprob}});
  }
  return lists;
}

Json json_of(const generate::Generated& result, const generate::GenerateOptions& options,
             double rate) {
  Json json = {{"text", result.text},
               {"ids", result.ids},
               {"logprobs", result.logprobs},
               {"finish_reason", result.finish_reason},
               {"tokens_per_second", rate}};
  if (options.top_logprobs > 0) json["top_logprobs"] = json_of(result.top_logprobs);
  if (options.prompt_logprobs) json["prompt_logprobs"] = result.prompt_logprobs;
  if (options.prompt_logprobs && options.top_logprobs > 0)
    json["prompt_top_logprobs"] = json_of(result.prompt_top_logprobs);
  return json;
}

int run(const GenerateOptions& o, bool json) {
  if (!o.prompt && !o.messages) throw UserError("--prompt is required, or --messages");
  if (!json && (o.generate.top_logprobs > 0 || o.generate.prompt_logprobs))
    throw UserError("--top-logprobs and --prompt-logprobs need --json to show them");
  const auto source = store::ModelSource::open(o.checkpoint.path);
  const text::Tokenizer& tokenizer = source.require_tokenizer();
  const GrammarSource grammar = o.grammar.read();
  generate::GenerateOptions options = o.generate;
  options.end_ids = source.end_ids();
  options.sampling.bad_words = generate::runs_of_words(tokenizer, o.bad_words);
  options.sampling.logit_bias = biases_of(o.biases, source.spec().vocab);
  const std::string prompt =
      o.prompt ? *o.prompt
               : chat_text(chat::ChatFolder::parse(source.texts(), o.checkpoint.path), *o.messages,
                           true);
  // A chat template has put the special tokens where they belong.
  std::vector<int32_t> ids = tokenizer.encode(prompt, o.prompt.has_value());
  if (ids.empty() && !options.end_ids.empty())
    ids.push_back(options.end_ids[0]);  // an empty prompt begins a document
  // A text that goes on from the prompt is shown with it; of a chat, or where an encoder reads the
  // prompt, there is the answer alone.
  const std::string shown = source.spec().is_encoder_decoder() ? "" : o.prompt.value_or("");
  std::optional<generate::Generated> leading;
  const std::string asked = fmt::format("{}\n{}\n{}", prompt, text_of(options), grammar.text());
  const auto matcher = grammar.matcher(tokenizer);
  const std::string before = source.spec().is_encoder_decoder() ? "" : tokenizer.decode(ids);
  on_model_ranks(o.checkpoint, source, asked, [&](const ModelRank& rank) {
    const bool streams = rank.is_rank_zero && o.stream && !json;
    std::function<void(std::string_view piece)> on_text;
    if (streams) {
      fmt::print("{}", shown);
      on_text = [](std::string_view piece) {
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
      };
    }
    auto mine = generate::generate(rank.engine, &tokenizer,
                                   {.prompt = ids,
                                    .options = options,
                                    .on_text = on_text,
                                    .allowed = constraint_of(matcher, before)});
    if (rank.is_rank_zero) leading = std::move(mine);
  });
  if (!leading) return 0;  // rank 0 is another process
  const generate::Generated& result = *leading;
  const double rate = result.decode_seconds > 0
                          ? static_cast<double>(result.ids.size()) / result.decode_seconds
                          : 0.0;
  if (json) {
    print_json(json_of(result, options, rate));
  } else {
    fmt::print("{}\n", o.stream ? "" : shown + result.text);
    if (isatty(STDERR_FILENO) == 1) {
      fmt::print(stderr, "{} tokens, {:.1f} tokens/s, {}\n", result.ids.size(), rate,
                 result.finish_reason);
    }
  }
  return 0;
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

void declare_more(CLI::App& c, GenerateOptions& o) {
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

}  // namespace

void add_generate(CLI::App& app, Invocation& invocation) {
  CLI::App& c =
      add_command(app, invocation, "generate",
                  "continue a prompt, or write what an encoder-decoder makes of it",
                  "  megalith generate --checkpoint runs/demo --prompt \"candle (noun):\" "
                  "--max-new-tokens 60 --stream\n"
                  "  megalith generate --checkpoint gpt2/ --prompt Hello --temperature 0 --json\n"
                  "  megalith generate --checkpoint chat/ --messages messages.json\n"
                  "  megalith generate --checkpoint chat/ --messages messages.json "
                  "--json-schema person.json\n");
  auto o = std::make_shared<GenerateOptions>();
  o->checkpoint.declare(c);
  o->checkpoint.declare_cache(c);
  auto* const prompt = c.add_option("--prompt", o->prompt, "the text to continue");
  c.add_option("--messages", o->messages,
               std::string("instead: a conversation to answer, by the model's chat template; ") +
                   kMessagesHelp)
      ->excludes(prompt);
  c.add_option("--max-new-tokens", o->generate.max_new_tokens, "at most so many")
      ->check(whole_number(0))
      ->capture_default_str();
  declare_sampling(c, o->generate.sampling);
  declare_more(c, *o);
  o->grammar.declare(c);
  c.add_flag("--stream", o->stream, "print text as it comes");
  c.callback(
      [=, &invocation] { invocation.run = [=, &invocation] { return run(*o, invocation.json); }; });
}

}  // namespace megalith::apps
