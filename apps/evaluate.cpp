// SPDX-License-Identifier: Apache-2.0
// megalith evaluate score | perplexity; evaluate_sequences.h has the others
#include <fmt/ranges.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "apps/checkpoint_options.h"
#include "apps/command.h"
#include "apps/evaluate_lines.h"
#include "apps/evaluate_marks.h"
#include "apps/evaluate_sequences.h"
#include "apps/tasks/tasks.h"
#include "base/error.h"
#include "base/file.h"
#include "evaluate/perplexity.h"

namespace megalith::apps {
namespace {

/// A text lies in memory whole.
constexpr int64_t kMostTextBytes = int64_t{1} << 30;

/// The ids of every line.
std::vector<std::vector<int32_t>> score_lines(const CheckpointOptions& options,
                                              const store::ModelSource& source,
                                              const std::string& input) {
  const int64_t virtual_tokens = virtual_tokens_of(options, source);
  const std::optional<adapters::PromptMarks> marks = marks_of(options, source);
  std::vector<std::vector<int32_t>> lines;
  for_each_line(input, [&](std::string_view line) {
    inference::Reading reading = reading_of_line(line, source, marks ? &*marks : nullptr);
    if (!reading.types.empty() && source.spec().is_causal())
      throw UserError("\"type_ids\" are of encoders, and this model has no types of tokens");
    inference::check_scorable(source.spec(), reading.ids, virtual_tokens,
                              marks ? marks->tokens() : 0);
    lines.push_back(std::move(reading.ids));
  });
  return lines;
}

void print_score(std::span<const int32_t> ids, const std::vector<double>& logprobs) {
  const double nll = -std::accumulate(logprobs.begin(), logprobs.end(), 0.0);
  print_json({{"ids", ids}, {"logprobs", logprobs}, {"nll", nll + 0.0}});
}

/// Of an encoder-decoder.
int score_targets(const CheckpointOptions& options, const store::ModelSource& source,
                  const std::string& input) {
  const int64_t virtual_tokens = virtual_tokens_of(options, source);
  const std::optional<adapters::PromptMarks> marks = marks_of(options, source);
  std::vector<TargetReading> lines;
  std::string asked;
  for_each_line(input, [&](std::string_view line) {
    lines.push_back(target_of_line(line, source, marks ? &*marks : nullptr));
    inference::check_target(source.spec(), lines.back().ids, lines.back().target, virtual_tokens,
                            marks ? marks->tokens() : 0);
    asked += fmt::format("{} {}\n", lines.back().ids, lines.back().target);
  });
  on_model_ranks(options, source, asked, [&](const ModelRank& rank) {
    for (const auto& [ids, target] : lines) {
      const std::vector<double> logprobs = rank.engine.score_target(ids, target);
      if (rank.is_rank_zero) print_score(target, logprobs);
    }
  });
  return 0;
}

int score(const CheckpointOptions& options, const std::string& input) {
  const auto source = store::ModelSource::open(options.path);
  if (source.spec().is_encoder_decoder()) return score_targets(options, source, input);
  const auto lines = score_lines(options, source, input);
  on_model_ranks(options, source, fmt::format("{}", lines), [&](const ModelRank& rank) {
    for (const std::vector<int32_t>& ids : lines) {
      const std::vector<double> logprobs = rank.engine.score(ids);
      if (rank.is_rank_zero)
        print_score(layers::without_virtual(source.spec().vocab, ids), logprobs);
    }
  });
  return 0;
}

/// The ids of a text; `where` names the file in messages.
std::vector<int32_t> encode(const text::Tokenizer& tokenizer, std::string_view text,
                            const std::string& where, bool special) {
  try {
    return tokenizer.encode(text, special);
  } catch (const UserError& error) {
    throw UserError("{}: {}", where, error.what());
  }
}

/// Each line of a text as a document.
std::vector<std::vector<int32_t>> line_documents(const store::ModelSource& source,
                                                 const std::string& input,
                                                 const std::string& text) {
  if (source.end_ids().empty())
    throw UserError("--document line needs a tokenizer with an end-of-document token");
  std::vector<std::vector<int32_t>> documents;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    documents.push_back(encode(*source.tokenizer(), line, input, false));
  return documents;
}

void print_perplexity(const evaluate::Perplexity& p, bool json) {
  if (!json) {
    fmt::print(
        "{} tokens, {} words: perplexity {:.3f} per token, {:.3f} per word, {:.4f} bits per byte\n",
        p.tokens, p.words, p.perplexity(), p.word_perplexity(), p.bits_per_byte());
    return;
  }
  print_json({{"tokens", p.tokens},
              {"words", p.words},
              {"nll", p.nll},
              {"perplexity", p.perplexity()},
              {"word_perplexity", p.word_perplexity()},
              {"bits_per_byte", p.bits_per_byte()}});
}

int perplexity(const CheckpointOptions& options, const std::string& input, bool by_line,
               bool json) {
  const auto source = store::ModelSource::open(options.path);
  inference::require_one_stack(source.spec(), "perplexity");
  const text::Tokenizer& tokenizer = source.require_tokenizer();
  const std::string text = read_file(input, kMostTextBytes);
  // By line, or the whole text as the only one.
  const auto documents =
      by_line ? line_documents(source, input, text)
              : std::vector<std::vector<int32_t>>{encode(tokenizer, text, input, true)};
  const bool shows = !json && !by_line && isatty(STDERR_FILENO) == 1;
  on_model_ranks(options, source, fmt::format("{} {}", by_line, text), [&](const ModelRank& rank) {
    evaluate::OnProgress progress;
    if (shows && rank.is_rank_zero)
      progress = [](int64_t done) { fmt::print(stderr, "\r{} tokens", done); };
    const evaluate::Perplexity result =
        by_line ? evaluate::document_perplexity(rank.engine, documents, source.end_ids()[0], text)
                : evaluate::perplexity(rank.engine, documents[0], text, progress);
    if (rank.is_rank_zero) print_perplexity(result, json);
  });
  return 0;
}

}  // namespace

void add_evaluate(CLI::App& app, Invocation& invocation) {
  CLI::App& parent = *app.add_subcommand("evaluate", "how well a model predicts text");
  parent.require_subcommand(1);
  struct Options {
    CheckpointOptions checkpoint;
    std::string input;
    std::string document = "file";
    bool masked = false;
    int64_t mask_id = -1;
  };
  const auto add = [&](const std::string& name, const std::string& what,
                       const std::string& example) {
    CLI::App& c = add_command(parent, invocation, name, what, example);
    auto o = std::make_shared<Options>();
    o->checkpoint.declare(c);
    o->checkpoint.declare_adapter(c);
    c.add_option("--input", o->input, "the file to read")->required();
    return std::pair(&c, o);
  };
  {
    auto [c, o] =
        add("score", "log-probability of every token; one JSON object per line, in and out",
            "  megalith evaluate score --checkpoint runs/demo --input lines.jsonl\n"
            "  megalith evaluate score --checkpoint bert --input lines.jsonl --masked\n");
    CLI::Option* const masked = c->add_flag(
        "--masked", o->masked, "of an encoder: each token from all others, itself masked");
    c->add_option("--mask-id", o->mask_id, "the mask token's number; default: the tokenizer's")
        ->check(whole_number(0))
        ->needs(masked);
    c->callback([=, &invocation] {
      invocation.run = [=] {
        if (o->masked) return score_masked(o->checkpoint, o->input, o->mask_id);
        o->checkpoint.reads_marks = true;
        return score(o->checkpoint, o->input);
      };
    });
  }
  add_sequence_commands(parent, invocation);
  add_tags(parent, invocation);
  add_answers(parent, invocation);
  add_tasks(parent, invocation);
  add_glue(parent, invocation);
  add_compare(parent, invocation);
  {
    auto [c, o] =
        add("perplexity", "perplexity and bits per byte of a text file",
            "  megalith evaluate perplexity --checkpoint runs/demo --input heldout.txt --json\n");
    c->add_option("--document", o->document,
                  "what one document is; lines are scored apart from each other")
        ->check(CLI::IsMember({"file", "line"}))
        ->capture_default_str();
    c->callback([=, &invocation] {
      invocation.run = [=, &invocation] {
        return perplexity(o->checkpoint, o->input, o->document == "line", invocation.json);
      };
    });
  }
}

}  // namespace megalith::apps
