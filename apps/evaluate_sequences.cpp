// SPDX-License-Identifier: Apache-2.0
#include "apps/evaluate_sequences.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/evaluate_lines.h"
#include "base/error.h"

namespace megalith::apps {
namespace {

using nlohmann::ordered_json;
using Readings = std::vector<inference::Reading>;

/// Lines whose results are printed together: progress for a reader of the output.
constexpr size_t kLinesAtOnce = 64;

/// What all ranks are to read alike.
std::string shown(const Readings& readings) {
  std::string text;
  for (const inference::Reading& reading : readings)
    text += fmt::format("{} {}\n", reading.ids, reading.types);
  return text;
}

/// Calls `read` with runs of the lines, in order.
void in_runs(const Readings& readings,
             FunctionRef<void(std::span<const inference::Reading>)> read) {
  const std::span<const inference::Reading> all = readings;
  for (size_t begin = 0; begin < all.size(); begin += kLinesAtOnce)
    read(all.subspan(begin, std::min(kLinesAtOnce, all.size() - begin)));
}

int32_t mask_of(const store::ModelSource& source, int64_t given) {
  if (given >= 0) {
    if (given < source.spec().vocab) return static_cast<int32_t>(given);
    throw UserError("--mask-id {} is outside the vocabulary of {}", given, source.spec().vocab);
  }
  if (source.tokenizer()) {
    for (const char* name : {"[MASK]", "<mask>"}) {
      const auto id = source.tokenizer()->id_of(name);
      if (id && *id < source.spec().vocab) return *id;
    }
  }
  throw UserError(
      "the model's tokenizer has no token [MASK] or <mask>; give its number: --mask-id");
}

void normalize(std::vector<double>& row) {
  const double norm = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
  // A row of zeros has no direction; others divide it by a small number too.
  for (double& x : row) x /= std::max(norm, 1e-12);
}

kernels::Pooling pooling_named(const std::string& name) {
  if (name == "cls") return kernels::Pooling::first;
  return name == "last" ? kernels::Pooling::last : kernels::Pooling::mean;
}

int embed(const CheckpointOptions& options, const std::string& input, const std::string& pooling,
          bool normalized) {
  const auto source = store::ModelSource::open(options.path);
  const Readings readings = readings_of(source, input);
  on_model_ranks(options, source, shown(readings), [&](const ModelRank& rank) {
    inference::SequenceReader reader(rank.engine.model());
    in_runs(readings, [&](std::span<const inference::Reading> run) {
      auto rows = reader.embed(run, pooling_named(pooling));
      if (!rank.is_rank_zero) return;
      for (size_t i = 0; i < rows.size(); ++i) {
        if (normalized) normalize(rows[i]);
        print_json({{"ids", run[i].ids}, {"embedding", rows[i]}});
      }
    });
  });
  return 0;
}

/// The name of the largest output, or of the only one.
std::string label_of(const layers::HeadSpec& head, const std::vector<double>& outputs) {
  const auto best = std::ranges::max_element(outputs) - outputs.begin();
  if (head.labels.empty()) return fmt::format("LABEL_{}", best);
  return head.labels[static_cast<size_t>(best)];
}

int classify(const CheckpointOptions& options, const std::string& input) {
  const store::ModelSource source = open_classifier(options);
  const layers::HeadSpec& head = source.spec().head;
  inference::require_outputs(source.spec());
  const bool of_tokens = layers::reads_each_token(head.kind);
  const Readings readings = readings_of(source, input);
  on_model_ranks(options, source, shown(readings), [&](const ModelRank& rank) {
    inference::SequenceReader reader(rank.engine.model());
    in_runs(readings, [&](std::span<const inference::Reading> run) {
      const auto all = reader.outputs(run);
      if (!rank.is_rank_zero) return;
      for (size_t i = 0; i < all.size(); ++i) {
        if (!of_tokens) {
          print_json({{"logits", all[i][0]}, {"label", label_of(head, all[i][0])}});
          continue;
        }
        ordered_json line = {{"ids", run[i].ids}, {"logits", all[i]}};
        const bool has_classes = head.kind == layers::HeadKind::token_classification;
        for (size_t t = 0; has_classes && t < all[i].size(); ++t)
          line["label"].push_back(label_of(head, all[i][t]));
        print_json(line);
      }
    });
  });
  return 0;
}

}  // namespace

int score_masked(const CheckpointOptions& options, const std::string& input, int64_t mask_id) {
  const auto source = store::ModelSource::open(options.path);
  inference::require_masked_head(source.spec());
  const int32_t mask = mask_of(source, mask_id);
  const Readings readings = readings_of(source, input);
  on_model_ranks(options, source, shown(readings), [&](const ModelRank& rank) {
    inference::SequenceReader reader(rank.engine.model());
    for (const inference::Reading& reading : readings) {
      const std::vector<double> logprobs = reader.masked_scores(reading, mask);
      if (!rank.is_rank_zero) continue;
      const double nll = -std::accumulate(logprobs.begin(), logprobs.end(), 0.0);
      print_json({{"ids", reading.ids}, {"logprobs", logprobs}, {"nll", nll + 0.0}});
    }
  });
  return 0;
}

void add_sequence_commands(CLI::App& parent, Invocation& invocation) {
  struct Options {
    CheckpointOptions checkpoint;
    std::string input;
    std::string pooling = "mean";
    bool normalize = false;
  };
  const auto add = [&](const std::string& name, const std::string& what,
                       const std::string& example) {
    CLI::App& c = add_command(parent, invocation, name, what, example);
    auto o = std::make_shared<Options>();
    o->checkpoint.declare(c);
    o->checkpoint.declare_adapter(c);
    c.add_option("--input", o->input, "the file to read: a line each {\"text\"} or {\"ids\"}")
        ->required();
    return std::pair(&c, o);
  };
  {
    auto [c, o] = add("embed", "a vector for every text; one JSON object per line, in and out",
                      "  megalith evaluate embed --checkpoint minilm --input lines.jsonl "
                      "--normalize\n");
    c->add_option("--pooling", o->pooling, "which rows of the last hidden state make the vector")
        ->check(CLI::IsMember({"mean", "cls", "last"}))
        ->capture_default_str();
    c->add_flag("--normalize", o->normalize, "vectors of length 1");
    c->callback([=, &invocation] {
      invocation.run = [=] { return embed(o->checkpoint, o->input, o->pooling, o->normalize); };
    });
  }
  {
    auto [c, o] =
        add("classify", "the class of every text, or of its tokens; JSON lines in and out",
            "  megalith evaluate classify --checkpoint classifier --input lines.jsonl\n");
    c->callback(
        [=, &invocation] { invocation.run = [=] { return classify(o->checkpoint, o->input); }; });
  }
}

}  // namespace megalith::apps
