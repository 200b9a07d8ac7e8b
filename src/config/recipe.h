// SPDX-License-Identifier: Apache-2.0
// The description of a run: plain structs with defaults, one section per concern. Each field is
// named once, with its meaning and range, in recipe_fields.cpp; what several fields must satisfy
// together is in rules.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/choices.h"
#include "config/model_section.h"
#include "config/precision_section.h"
#include "config/tune_section.h"
#include "settings/fault.h"

namespace megalith::config {

using settings::Fault;
using settings::Override;

struct RunSection {
  std::string out = "runs/run";
  int64_t seed = 1234;
  std::string name;
  int64_t threads = 0;  // 0: all cores the process may use
  void visit(FieldVisitor& v);
};

/// A part of the training data: the prefix of a .bin/.idx pair and its share.
struct Corpus {
  std::string path;
  std::optional<double> weight;  // all corpora have one or none has; without, shares are by size
  void visit(FieldVisitor& v);
};

struct DataSection {
  std::vector<Corpus> train;
  std::vector<Corpus> validation;
  std::string tokenizer;
  double validation_fraction = 0.0;
  Sequences sequences = Sequences::tokens;
  bool document_mask = false;
  bool reset_positions = false;
  bool end_of_document_loss = true;
  void visit(FieldVisitor& v);
};

/// Of the masked objective.
struct MaskingSection {
  double rate = 0.15;
  double mask_share = 0.8;
  double random_share = 0.1;
  bool whole_words = false;
  void visit(FieldVisitor& v);
  friend bool operator==(const MaskingSection&, const MaskingSection&) = default;
};

/// Of the causal objective: fill-in-the-middle.
struct FimSection {
  double rate = 0;  // 0: none
  double spm_rate = 0.5;
  std::string prefix, middle, suffix;  // empty: the tokenizer's
  void visit(FieldVisitor& v);
  friend bool operator==(const FimSection&, const FimSection&) = default;
};

/// Of the objective spans.
struct SpansSection {
  double rate = 0.15;
  double mean_length = 3;
  std::string sentinel = "<extra_id_{}>";
  std::string start = "<pad>";
  void visit(FieldVisitor& v);
  friend bool operator==(const SpansSection&, const SpansSection&) = default;
};

struct TrainSection {
  Objective objective = Objective::causal;
  SentencePairs sentence_pairs = SentencePairs::none;
  MaskingSection masking;
  FimSection fim;
  SpansSection spans;
  // Exactly one of the four is given; -1: not given.
  int64_t steps = -1;
  int64_t tokens = -1;
  double epochs = -1;
  double hours = -1;
  int64_t sequence_length = 0;  // 0: model.context
  std::string init;             // weights to begin with; empty: from the seed
  int64_t global_batch = 8;
  int64_t micro_batch = 0;  // 0: the largest that the batch sizes allow
  int64_t ramp_start = 0;   // 0: no ramp
  int64_t ramp_increment = 0;
  int64_t ramp_samples = 0;
  double z_loss = 0.0;
  int64_t validate_every = 0;  // 0: never
  int64_t validate_samples = 64;
  int64_t early_stopping = 0;  // 0: never
  BestBy best_by = BestBy::loss;
  int64_t sample_every = 0;  // 0: never
  std::vector<std::string> sample_prompts;
  int64_t sample_tokens = 64;
  int64_t log_every = 1;
  NotFinite not_finite = NotFinite::stop;
  int64_t not_finite_limit = 10;
  Spike spike = Spike::warn;
  double spike_factor = 8;
  int64_t spike_window = 64;
  int64_t spike_skip = 0;
  int64_t spike_limit = 3;
  void visit(FieldVisitor& v);

 private:
  void visit_objective(FieldVisitor& v);
};

/// Parameters whose name matches have their own rate and decay.
struct ParameterGroup {
  std::string match;
  double lr_scale = 1.0;
  std::optional<double> weight_decay;  // absent: optimizer.weight_decay
  void visit(FieldVisitor& v);
};

struct OptimizerSection {
  double lr = 3e-4;
  double min_lr = 0.0;
  Schedule schedule = Schedule::cosine;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;  // 0: off
  double layer_decay = 1.0;
  std::vector<ParameterGroup> groups;
  std::vector<std::string> frozen;
  void visit(FieldVisitor& v);
};

struct CheckpointSection {
  int64_t every = 0;  // 0: only the last step
  int64_t keep = 2;
  bool keep_best = false;
  bool async = true;
  void visit(FieldVisitor& v);
};

struct MemorySection {
  Recompute recompute = Recompute::none;
  int64_t recompute_layers = 0;
  Offload offload = Offload::none;
  void visit(FieldVisitor& v);
};

struct ParallelSection {
  int64_t tensor = 1;
  int64_t pipeline = 1;
  int64_t data = 1;
  bool sequence = false;
  int64_t chunks = 1;
  int64_t zero = 0;
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int64_t tensor_shards = 0;  // 0: gcd(8, heads, kv_heads)
  int64_t data_shards = 1;
  int64_t context = 1;
  int64_t expert = 1;
  double deadline_seconds = 0;  // 0: fitted to the steps
  void visit(FieldVisitor& v);
};

struct Recipe {
  RunSection run;
  ModelSection model;
  DataSection data;
  TrainSection train;
  OptimizerSection optimizer;
  PrecisionSection precision;
  Numerics numerics = Numerics::exact;
  CheckpointSection checkpoint;
  MemorySection memory;
  ParallelSection parallel;
  TuneSection tune;
  void visit(FieldVisitor& v);
  /// Whether it tunes a model that is there: what it says of models is then that one's.
  bool tunes() const { return !tune.model.empty(); }
  /// Whether what it tunes learns from pairs of answers.
  bool compares() const { return tunes() && tune.objective == TuneObjective::dpo; }
  /// Whether what it tunes becomes a classifier.
  bool classifies() const { return tunes() && tune.objective == TuneObjective::classify; }
  /// Whether that is a model for extractive question answering.
  bool answers_questions() const {
    return classifies() && tune.task == ClassifyTask::question_answering;
  }
};

/// Replaces each 0 that means "derive it": model.kv_heads, model.ffn (4 hidden), train.micro_batch
/// and parallel.tensor_shards. model.vocab stays 0, since it needs the tokenizer; model.head_dim
/// and train.sequence_length become 0 where they equal what 0 stands for. Idempotent. The functions
/// that read recipes return them resolved.
void resolve(Recipe& recipe);

/// Fills in what a model section leaves to its family, which this room does not know. UserError.
using CompleteModel = std::function<void(ModelSection&)>;

/// Reads a YAML file (at most 1 MiB, 32 levels, no aliases), applies overrides, checks and
/// resolves. An override of one of train.steps, train.tokens, train.epochs and train.hours replaces
/// whichever the file gives. UserError with every fault in one line, each with file:line:column and
/// path.
Recipe load_recipe(const std::filesystem::path& path, const std::vector<Override>& overrides = {},
                   const CompleteModel& complete = {});
/// The same from a text; `name` stands for the file in messages.
Recipe parse_recipe(std::string_view text, std::string_view name,
                    const std::vector<Override>& overrides, const CompleteModel& complete = {});
/// The same, with the texts of `--set`.
Recipe parse_recipe(std::string_view text, std::string_view name,
                    std::span<const std::string> overrides = {},
                    const CompleteModel& complete = {});

/// The rules between fields and the ranges of all of them; these faults have no position.
std::vector<Fault> validate(const Recipe& recipe);

/// All fields, in order. parse_recipe of it gives the same recipe, to the bit.
std::string to_yaml(const Recipe& recipe);
/// The same as one line of JSON.
std::string to_json(const Recipe& recipe);

/// Paths of all leaf fields in order; fields of list items as "data.train[].path".
std::vector<std::string> keys();
/// A Markdown page: one table per section of key, type, default, meaning.
std::string documentation();

struct Difference {
  std::string path;    // items of lists by number: "data.train.0.path"
  std::string before;  // values as YAML; "absent" for an item that one side lacks
  std::string after;
};
/// The fields in which two recipes differ (both resolved first).
std::vector<Difference> differences(const Recipe& before, const Recipe& after);

/// SHA-256 over the fields that can change the result of a run (in exact numerics) and differ from
/// `standard`, so that a new key leaves old fingerprints alone. Resolves first.
std::string fingerprint(const Recipe& recipe, const Recipe& standard = {});

}  // namespace megalith::config
