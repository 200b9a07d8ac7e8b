// SPDX-License-Identifier: Apache-2.0
// What fields must satisfy together, and the ranges of single ones for recipes that no parser saw.
// Each rule names the field to change and the value to set. Arithmetic is checked: a recipe may
// hold any number.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/integer.h"
#include "base/subtree.h"
#include "config/layouts.h"
#include "config/recipe.h"

namespace megalith::config {
namespace {

class RangeChecker : public FieldVisitor {
 public:
  RangeChecker(std::string path, std::vector<Fault>& faults)
      : path_(std::move(path)), faults_(faults) {}

 protected:
  void on_value(const FieldInfo& info, const ValueReference& value) override {
    double number = 0;
    if (const auto* integer = std::get_if<int64_t*>(&value)) {
      number = static_cast<double>(**integer);
    } else if (const auto* real = std::get_if<double*>(&value)) {
      number = **real;
    } else if (const auto* maybe = std::get_if<std::optional<double>*>(&value);
               maybe != nullptr && (*maybe)->has_value()) {
      number = ***maybe;
    } else {
      return;
    }
    const std::string range = info.constraint.text();
    if (!info.constraint.allows(number) || !std::isfinite(number))
      faults_.push_back(
          {join_path(path_, info.name),
           {},
           fmt::format("must be {}, not {}", range.empty() ? "finite" : range, value_text(value))});
  }
  void on_section(const FieldInfo& info, FunctionRef<void(FieldVisitor&)> visit) override {
    RangeChecker inner(join_path(path_, info.name), faults_);
    visit(inner);
  }
  void on_list(const FieldInfo& info, const ListReference& list) override {
    for (size_t i = 0; i < list.size(); ++i) {
      RangeChecker inner(fmt::format("{}.{}", join_path(path_, info.name), i), faults_);
      list.visit_item(i, inner);
    }
  }

 private:
  std::string path_;
  std::vector<Fault>& faults_;
};

using Faults = std::vector<Fault>;

void add(Faults& faults, std::string path, std::vector<std::string> involved, std::string message) {
  faults.push_back({std::move(path), {}, std::move(message), std::move(involved)});
}

/// Sum and product that stay "nothing" once they overflowed.
std::optional<int64_t> product(std::initializer_list<int64_t> factors) {
  std::optional<int64_t> out = 1;
  for (const int64_t factor : factors)
    if (out) out = checked_multiply(*out, factor);
  return out;
}

/// Parameters of the model, or nothing if 16 bytes for each (weight, gradient, two moments) cannot
/// be counted in 63 bits.
bool parameters_are_countable(const ModelSection& m) {
  int64_t sum = 0;
  for (const auto& part :
       {product({m.vocab, m.hidden, 2}), product({m.context, m.hidden}),
        product({m.layers, m.hidden, m.head_dim > 0 ? m.heads * m.head_dim : m.hidden, 4}),
        product({m.layers, m.hidden, m.ffn, 3}), product({m.layers, m.hidden, 16})}) {
    const auto next = part ? checked_add(sum, *part) : std::nullopt;
    if (!next) return false;
    sum = *next;
  }
  return checked_multiply(sum, 16).has_value();
}

void model_rules(const ModelSection& m, Faults& faults) {
  if (m.head_dim == 0 && !divides(m.heads, m.hidden))
    add(faults, "model.heads", {"model.hidden"},
        fmt::format("model.heads {} must divide model.hidden {}, or give model.head_dim", m.heads,
                    m.hidden));
  if (!divides(m.kv_heads, m.heads))
    add(faults, "model.kv_heads", {"model.heads"},
        fmt::format("model.kv_heads {} must divide model.heads {}", m.kv_heads, m.heads));
  if (!parameters_are_countable(m))
    add(faults, "model.hidden", {"model.layers", "model.ffn", "model.vocab", "model.context"},
        "the number of parameters does not fit 64 bits; make the model smaller");
}

int64_t sequence_length_of(const Recipe& r) {
  return r.train.sequence_length > 0 ? r.train.sequence_length : r.model.context;
}

void data_rules(const Recipe& r, Faults& faults) {
  if (r.data.tokenizer.empty() && r.model.vocab == 0)
    add(faults, "data.tokenizer", {"model.vocab"},
        "give data.tokenizer, or model.vocab to do without one");
  if (!r.data.validation.empty() && r.data.validation_fraction > 0)
    add(faults, "data.validation_fraction", {"data.validation"},
        "give data.validation or data.validation_fraction, not both");
  if (r.train.validate_every > 0 && r.data.validation.empty() && r.data.validation_fraction == 0)
    add(faults, "train.validate_every", {"data.validation", "data.validation_fraction"},
        "needs data.validation or data.validation_fraction above 0");
  for (const auto& [name, corpora] :
       {std::pair{"data.train", &r.data.train}, std::pair{"data.validation", &r.data.validation}})
    for (size_t i = 0; i < corpora->size(); ++i)
      if ((*corpora)[i].path.empty())
        add(faults, fmt::format("{}.{}.path", name, i), {},
            "is empty; give the prefix of a corpus");
}

void length_rules(const TrainSection& t, Faults& faults) {
  const int given = (t.steps >= 0) + (t.tokens >= 0) + (t.epochs >= 0) + (t.hours >= 0);
  if (given != 1)
    add(faults, "train.steps", {"train.tokens", "train.epochs", "train.hours"},
        fmt::format("give exactly one of train.steps, train.tokens, train.epochs, train.hours; {} "
                    "are given",
                    given));
  for (const auto& [name, value] :
       {std::pair{"train.epochs", t.epochs}, std::pair{"train.hours", t.hours}})
    if (value < 0 && value != -1)
      add(faults, name, {}, fmt::format("must be at least 0 (or -1: not given), not {}", value));
}

void batch_rules(const Recipe& r, Faults& faults) {
  const TrainSection& t = r.train;
  const auto sequences = checked_multiply(t.micro_batch, r.parallel.data_shards);
  if (!checked_multiply(t.global_batch, sequence_length_of(r)))
    add(faults, "train.global_batch", {"train.sequence_length", "model.context"},
        "too many tokens per step");
  if (t.sequence_length > r.model.context)
    add(faults, "train.sequence_length", {"model.context"},
        fmt::format("{} is more than model.context {}", t.sequence_length, r.model.context));
  const auto divided = [&](const char* name, int64_t value) {
    if (!sequences || !divides(*sequences, value))
      add(faults, name, {"train.micro_batch", "parallel.data_shards"},
          fmt::format("{} {} must be a multiple of train.micro_batch {} x parallel.data_shards {}",
                      name, value, t.micro_batch, r.parallel.data_shards));
  };
  divided("train.global_batch", t.global_batch);
  if (t.ramp_start == 0) {
    if (t.ramp_increment != 0 || t.ramp_samples != 0)
      add(faults, "train.ramp_start", {"train.ramp_increment", "train.ramp_samples"},
          "is 0 (no ramp-up); set it, or remove train.ramp_increment and train.ramp_samples");
    return;
  }
  if (t.ramp_increment == 0 || t.ramp_samples == 0) {
    add(faults, "train.ramp_start", {"train.ramp_increment", "train.ramp_samples"},
        "needs train.ramp_increment and train.ramp_samples of at least 1");
    return;
  }
  if (t.ramp_start > t.global_batch || !divides(t.ramp_increment, t.global_batch - t.ramp_start))
    add(faults, "train.ramp_increment", {"train.ramp_start", "train.global_batch"},
        fmt::format("steps of {} must lead from train.ramp_start {} to train.global_batch {}",
                    t.ramp_increment, t.ramp_start, t.global_batch));
  divided("train.ramp_start", t.ramp_start);
  divided("train.ramp_increment", t.ramp_increment);
}

void optimizer_rules(const Recipe& r, Faults& faults) {
  const OptimizerSection& o = r.optimizer;
  if (o.min_lr > o.lr)
    add(faults, "optimizer.min_lr", {"optimizer.lr"},
        fmt::format("{} is above optimizer.lr {}", o.min_lr, o.lr));
  const bool by_clock = r.train.hours >= 0;
  if (o.schedule == Schedule::hours && !by_clock)
    add(faults, "optimizer.schedule", {"train.hours"}, "hours needs train.hours");
  const bool needs_end =
      o.schedule == Schedule::wsd ||
      ((o.schedule == Schedule::linear || o.schedule == Schedule::cosine) && o.decay_steps == 0);
  if (by_clock && needs_end)
    add(faults, "optimizer.schedule", {"train.hours", "optimizer.decay_steps"},
        fmt::format("{} must know the last step, which train.hours does not give; set "
                    "optimizer.schedule: hours",
                    o.schedule));
  for (size_t i = 0; i < o.groups.size(); ++i)
    if (o.groups[i].match.empty())
      add(faults, fmt::format("optimizer.groups.{}.match", i), {},
          "is empty; give a pattern of parameter names");
}

void guard_rules(const Recipe& r, Faults& faults) {
  if (r.train.spike != Spike::rewind) return;
  if (r.checkpoint.every == 0)
    add(faults, "train.spike", {"checkpoint.every"},
        "rewind needs checkpoint.every of at least 1: there is nothing to go back to");
  // One for the way back, one for a stop between two regular ones.
  if (r.checkpoint.keep < 2)
    add(faults, "train.spike", {"checkpoint.keep"}, "rewind needs checkpoint.keep of at least 2");
}

void tensor_shard_rules(const Recipe& r, Faults& faults) {
  const ModelSection& m = r.model;
  const int64_t shards = r.parallel.tensor_shards;
  const auto fault = [&](const char* name, const std::string& what) {
    add(faults, "parallel.tensor_shards", {name, "model.heads", "model.kv_heads", "model.hidden"},
        fmt::format("{} must {}", shards, what));
  };
  for (const auto& [name, value] : {std::pair{"model.heads", m.heads}, {"model.ffn", m.ffn}})
    if (!divides(shards, value)) fault(name, fmt::format("divide {} {}", name, value));
  if (shards < 1 || m.kv_heads < 1 || m.heads < 1) return;
  const int64_t head_dim = m.head_dim > 0 ? m.head_dim : m.hidden / m.heads;
  if (!shares_of_heads(shards, m.kv_heads)) {
    fault("model.kv_heads", fmt::format("divide model.kv_heads {} or be a multiple", m.kv_heads));
  } else if (const auto rows = checked_multiply(2 * m.kv_heads, head_dim);
             rows && !divides(shards, *rows)) {
    fault("model.head_dim", fmt::format("divide the {} rows of keys and values", *rows));
  }
}

/// Whether `given`, a recipe that was not resolved, keeps the rules of a canonical split with this
/// change: no other value is advised.
bool keeps(Recipe given, void (*rules)(const Recipe&, Faults&), int64_t ParallelSection::*key,
           int64_t value) {
  given.parallel.*key = value;
  resolve(given);
  Faults faults;
  rules(given, faults);
  return faults.empty();
}

void split_rules(const Recipe& r, const Recipe& given, Faults& faults) {
  const ParallelSection& p = r.parallel;
  tensor_shard_rules(r, faults);
  const auto fits = [&](const char* axis, int64_t ranks, const char* key, int64_t canonical,
                        bool may_be_canonical, std::vector<std::string> involved) {
    if (blocks_are_subtrees(canonical, ranks)) return;
    int64_t fewer = std::min(ranks, canonical);
    while (!blocks_are_subtrees(canonical, fewer)) --fewer;
    const std::string other =
        may_be_canonical ? fmt::format("parallel.{}: {} (which changes the result) or ", key, ranks)
                         : "";
    add(faults, fmt::format("parallel.{}", axis), std::move(involved),
        fmt::format("{} ranks cannot share parallel.{} {} in whole subtrees; set {}parallel.{}: {}",
                    ranks, key, canonical, other, axis, fewer));
  };
  fits("tensor", p.tensor, "tensor_shards", p.tensor_shards,
       keeps(given, tensor_shard_rules, &ParallelSection::tensor_shards, p.tensor),
       {"parallel.tensor_shards", "model.heads", "model.kv_heads"});
  if (p.tensor >= 1 && r.model.kv_heads >= 1 && !shares_of_heads(p.tensor, r.model.kv_heads) &&
      blocks_are_subtrees(p.tensor_shards, p.tensor))
    add(faults, "parallel.tensor", {"parallel.tensor_shards", "model.heads", "model.kv_heads"},
        fmt::format("{} ranks hold neither whole key/value heads of {} nor a part of one each; set "
                    "parallel.tensor: {}",
                    p.tensor, r.model.kv_heads, std::gcd(p.tensor, r.model.kv_heads)));
  fits("data", p.data, "data_shards", p.data_shards,
       keeps(given, batch_rules, &ParallelSection::data_shards, p.data), {"parallel.data_shards"});
}

void pipeline_rules(const Recipe& r, Faults& faults) {
  const ParallelSection& p = r.parallel;
  const auto stages = checked_multiply(p.pipeline, p.chunks);
  if (!stages || *stages > r.model.layers)
    add(faults, "parallel.pipeline", {"parallel.chunks", "model.layers"},
        fmt::format("model.layers {} must be at least parallel.pipeline {} x parallel.chunks {}",
                    r.model.layers, p.pipeline, p.chunks));
  const bool interleaved = p.schedule == PipelineSchedule::interleaved;
  if (interleaved != (p.chunks > 1))
    add(faults, "parallel.chunks", {"parallel.schedule"},
        interleaved ? "must be at least 2 with parallel.schedule: interleaved"
                    : fmt::format("{} needs parallel.schedule: interleaved", p.chunks));
  if (p.chunks > 1 && p.pipeline == 1)
    add(faults, "parallel.chunks", {"parallel.pipeline"},
        fmt::format("{} needs parallel.pipeline of at least 2", p.chunks));
}

/// Whether another layout mends what `split_rules` and `pipeline_rules` have found.
bool a_layout_fits(Recipe r) {
  const auto nearest = nearest_layouts(r, num_ranks(r), 1);
  if (nearest.empty()) return false;
  r.parallel.tensor = nearest[0].tensor;
  r.parallel.pipeline = nearest[0].pipeline;
  r.parallel.data = nearest[0].data;
  Faults faults;
  split_rules(r, r, faults);
  pipeline_rules(r, faults);
  return faults.empty();
}

/// Outside of the layouts that other numbers of ranks could mend.
void sequence_rules(const Recipe& r, Faults& faults) {
  const ParallelSection& p = r.parallel;
  const int64_t length = sequence_length_of(r);
  const char* const key = length == r.model.context ? "model.context" : "train.sequence_length";
  if (p.sequence && p.tensor > 1 && !divides(p.tensor_shards, length))
    add(faults, "parallel.sequence",
        {"parallel.tensor_shards", "train.sequence_length", "model.context", "model.heads",
         "model.kv_heads"},
        fmt::format("needs parallel.tensor_shards {} to divide {} {}; set one of them so, or "
                    "parallel.sequence: false",
                    p.tensor_shards, key, length));
}

/// What people may look for and this program does not have.
void unbuilt_rules(const Recipe& r, Faults& faults) {
  const ParallelSection& p = r.parallel;
  if (p.zero > 1)
    add(faults, "parallel.zero", {},
        fmt::format(
            "{} ({} spread over data ranks) is not built; set 0, or 1 to spread masters and "
            "moments",
            p.zero, p.zero == 2 ? "gradients" : "weights"));
  if (p.context > 1)
    add(faults, "parallel.context", {},
        "context parallelism is not built; set 1, and parallel.tensor with parallel.sequence or "
        "memory.recompute for long sequences");
  if (p.expert > 1)
    add(faults, "parallel.expert", {},
        "expert parallelism is not built: no model.kind has experts; set 1");
  if (r.memory.offload != Offload::none)
    add(faults, "memory.offload", {},
        "activation offload is not built; set none, and memory.recompute to keep less");
}

void memory_rules(const Recipe& r, Faults& faults) {
  if (r.memory.recompute == Recompute::full && r.memory.recompute_layers > 0)
    add(faults, "memory.recompute_layers", {"memory.recompute"},
        "has no effect with memory.recompute: full; set it to 0, or memory.recompute to none or "
        "selective");
  if (r.memory.recompute_layers > r.model.layers)
    add(faults, "memory.recompute_layers", {"model.layers"},
        fmt::format("{} is more than model.layers {}", r.memory.recompute_layers, r.model.layers));
}

}  // namespace

std::vector<Fault> validate(const Recipe& recipe) {
  Recipe r = recipe;
  Faults faults;
  RangeChecker ranges("", faults);
  r.visit(ranges);
  if (!faults.empty()) return faults;  // the rules compute with these numbers
  resolve(r);
  model_rules(r.model, faults);
  data_rules(r, faults);
  length_rules(r.train, faults);
  batch_rules(r, faults);
  optimizer_rules(r, faults);
  guard_rules(r, faults);
  const size_t before = faults.size();
  split_rules(r, recipe, faults);
  pipeline_rules(r, faults);
  if (faults.size() > before && num_ranks(r) > 1 && a_layout_fits(r))
    add(faults, "parallel", {}, fmt::format("layouts that fit: {}", layouts_text(r, num_ranks(r))));
  sequence_rules(r, faults);
  memory_rules(r, faults);
  unbuilt_rules(r, faults);
  return faults;
}

}  // namespace megalith::config
