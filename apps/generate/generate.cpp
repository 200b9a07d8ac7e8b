// SPDX-License-Identifier: Apache-2.0
// megalith generate
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/chat_text.h"
#include "apps/generate/generate_options.h"
#include "generate/generator.h"

namespace megalith::apps {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::vector<std::vector<generate::Choice>>& alternatives) {
  Json lists = Json::array();
  for (const std::vector<generate::Choice>& choices : alternatives) {
    Json& list = lists.emplace_back(Json::array());
    for (const auto& [id, logprob] : choices) list.push_back({{"id", id}, {"logprob", logprob}});
  }
  return lists;
}

Json json_of(const generate::Generated& result, const generate::GenerateOptions& options) {
  Json json = {{"text", result.text},
               {"ids", result.ids},
               {"logprobs", result.logprobs},
               {"finish_reason", result.finish_reason}};
  if (options.top_logprobs > 0) json["top_logprobs"] = json_of(result.top_logprobs);
  if (options.beams > 1) json["score"] = result.score;
  return json;
}

void print(const generate::Generated& result, const generate::GenerateOptions& options,
           double rate) {
  Json json = json_of(result, options);
  json["tokens_per_second"] = rate;
  if (options.prompt_logprobs) json["prompt_logprobs"] = result.prompt_logprobs;
  if (options.prompt_logprobs && options.top_logprobs > 0)
    json["prompt_top_logprobs"] = json_of(result.prompt_top_logprobs);
  for (const generate::Generated& other : result.others)
    json["others"].push_back(json_of(other, options));
  if (options.lookup > 0 || options.draft > 0)
    json["guesses"] = {{"read", result.speculated.guesses}, {"right", result.speculated.right}};
  print_json(json);
}

std::string prompt_of(const GenerateOptions& o, const store::ModelSource& source) {
  if (o.prompt) return *o.prompt;
  return chat_text(chat::ChatFolder::parse(source.texts(), o.checkpoint.path), *o.messages, true);
}

int run(const GenerateOptions& o, bool json) {
  if (!o.prompt && !o.messages) throw UserError("--prompt is required, or --messages");
  const auto source = store::ModelSource::open(o.checkpoint.path);
  const std::optional<adapters::PromptMarks> marks = marks_of(o.checkpoint, source);
  const text::Tokenizer& tokenizer = source.require_tokenizer();
  const text::Tokenizer& of_prompt = marks ? marks->tokenizer() : tokenizer;
  const generate::GenerateOptions options = o.for_model(source, json);
  const GrammarSource grammar = o.grammar.read();
  std::optional<store::ModelSource> draft;
  if (o.draft) draft.emplace(store::ModelSource::open(*o.draft));
  const std::string prompt = prompt_of(o, source);
  // A chat template has put the special tokens where they belong.
  std::vector<int32_t> ids = of_prompt.encode(prompt, o.prompt.has_value());
  if (ids.empty() && !options.end_ids.empty())
    ids.push_back(options.end_ids[0]);  // an empty prompt begins a document
  // A text that goes on from the prompt is shown with it; of a chat, or where an encoder reads the
  // prompt, there is the answer alone.
  const std::string shown = source.spec().is_encoder_decoder() ? "" : o.prompt.value_or("");
  std::optional<generate::Generated> leading;
  const std::string asked = fmt::format("{}\n{}\n{}\n{}", prompt, text_of(options), grammar.text(),
                                        draft ? draft->weights().fingerprint() : "");
  const auto matcher = grammar.matcher(tokenizer);
  const std::string before = source.spec().is_encoder_decoder() ? "" : of_prompt.decode(ids);
  if (marks) marks->expand(ids);
  std::atomic<bool> is_broken_off = false;
  on_model_ranks(o.checkpoint, source, asked, [&](const ModelRank& rank) {
    const bool streams = rank.is_rank_zero && o.stream;
    generate::Request request{
        .prompt = ids, .options = options, .allowed = constraint_of(matcher, before)};
    if (streams) {
      fmt::print("{}", shown);
      request.on_text = [](std::string_view piece) {
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
      };
    }
    std::unique_ptr<inference::InferenceModel> guesser;
    if (draft) guesser = draft_beside(o.checkpoint, source, *draft, *o.draft, rank);
    auto mine = generate::generate(rank.engine, &tokenizer, std::move(request),
                                   guesser ? &guesser->engine() : nullptr);
    if (mine.finish_reason == "error") is_broken_off = true;
    if (rank.is_rank_zero) leading = std::move(mine);
  });
  if (!leading) return is_broken_off ? 2 : 0;  // rank 0, another process, tells
  const generate::Generated& result = *leading;
  if (result.finish_reason == "error") grammar.fail_stuck(matcher, before, result);
  const double rate = result.decode_seconds > 0
                          ? static_cast<double>(result.ids.size()) / result.decode_seconds
                          : 0.0;
  if (json) {
    print(result, options, rate);
  } else {
    fmt::print("{}\n", o.stream ? "" : shown + result.text);
    if (isatty(STDERR_FILENO) == 1) {
      fmt::print(stderr, "{} tokens, {:.1f} tokens/s, {}\n", result.ids.size(), rate,
                 result.finish_reason);
    }
  }
  return 0;
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
  o->declare(c);
  o->checkpoint.reads_marks = true;
  c.callback(
      [=, &invocation] { invocation.run = [=, &invocation] { return run(*o, invocation.json); }; });
}

}  // namespace megalith::apps
