// SPDX-License-Identifier: Apache-2.0
// megalith generate
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/chat_text.h"
#include "apps/checkpoint_options.h"
#include "apps/command.h"
#include "generate/generator.h"

namespace megalith::apps {
namespace {

struct GenerateOptions {
  CheckpointOptions checkpoint;
  std::optional<std::string> prompt, messages;  // one of them
  generate::GenerateOptions generate;
  bool stream = false;
};

/// All that the draws depend on.
std::string text_of(const generate::SamplingOptions& s) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {}", s.temperature, s.top_k, s.top_p, s.min_p,
                     s.typical_p, s.seed, s.repetition_penalty, s.presence_penalty,
                     s.frequency_penalty, s.no_repeat_ngram);
}

int run(const GenerateOptions& o, bool json) {
  if (!o.prompt && !o.messages) throw UserError("--prompt is required, or --messages");
  const auto source = store::ModelSource::open(o.checkpoint.path);
  const text::Tokenizer& tokenizer = source.require_tokenizer();
  generate::GenerateOptions options = o.generate;
  options.end_ids = source.end_ids();
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
  const std::string asked = fmt::format("{}\n{} {}\n{}", prompt, options.max_new_tokens,
                                        text_of(options.sampling), fmt::join(options.stop, "\n"));
  on_model_ranks(o.checkpoint, source, asked, [&](const ModelRank& rank) {
    const bool streams = rank.is_rank_zero && o.stream && !json;
    generate::OnText on_text;
    if (streams) {
      fmt::print("{}", shown);
      on_text = [](std::string_view piece) {
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
      };
    }
    auto mine = generate::generate(rank.engine, &tokenizer, ids, options, on_text);
    if (rank.is_rank_zero) leading = std::move(mine);
  });
  if (!leading) return 0;  // rank 0 is another process
  const generate::Generated& result = *leading;
  const double rate = result.decode_seconds > 0
                          ? static_cast<double>(result.ids.size()) / result.decode_seconds
                          : 0.0;
  if (json) {
    print_json({{"text", result.text},
                {"ids", result.ids},
                {"logprobs", result.logprobs},
                {"finish_reason", result.finish_reason},
                {"tokens_per_second", rate}});
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

}  // namespace

void add_generate(CLI::App& app, Invocation& invocation) {
  CLI::App& c =
      add_command(app, invocation, "generate",
                  "continue a prompt, or write what an encoder-decoder makes of it",
                  "  megalith generate --checkpoint runs/demo --prompt \"candle (noun):\" "
                  "--max-new-tokens 60 --stream\n"
                  "  megalith generate --checkpoint gpt2/ --prompt Hello --temperature 0 --json\n"
                  "  megalith generate --checkpoint chat/ --messages messages.json\n");
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
  c.add_option("--stop", o->generate.stop, "stop before this text (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  c.add_flag("--stream", o->stream, "print text as it comes");
  c.callback(
      [=, &invocation] { invocation.run = [=, &invocation] { return run(*o, invocation.json); }; });
}

}  // namespace megalith::apps
