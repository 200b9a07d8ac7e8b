// SPDX-License-Identifier: Apache-2.0
// What fields must satisfy together, and the ranges of single ones for recipes that no parser saw.
// Each rule names the field to change and the value to set. Arithmetic is checked: a recipe may
// hold any number.
#include <fmt/format.h>

#include <cmath>

#include "base/integer.h"
#include "base/subtree.h"
#include "config/recipe.h"
#include "config/rules.h"

namespace megalith::config {

using settings::FieldInfo;
using settings::join_path;
using settings::ListReference;
using settings::value_text;
using settings::ValueReference;
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

void data_rules(const Recipe& r, Faults& faults) {
  if (r.data.tokenizer.empty() && r.model.vocab == 0 && !r.tunes())
    add(faults, "data.tokenizer", {"model.vocab"},
        "give data.tokenizer, or model.vocab to do without one");
  if (!r.data.validation.empty() && r.data.validation_fraction > 0)
    add(faults, "data.validation_fraction", {"data.validation"},
        "give data.validation or data.validation_fraction, not both");
  if (r.train.validate_every > 0 && r.data.validation.empty() && r.data.validation_fraction == 0 &&
      !r.tunes())
    add(faults, "train.validate_every", {"data.validation", "data.validation_fraction"},
        "needs data.validation or data.validation_fraction above 0");
  for (const auto& [name, given] : {std::pair{"train.early_stopping", r.train.early_stopping > 0},
                                    std::pair{"train.best_by", r.train.best_by != BestBy::loss},
                                    std::pair{"checkpoint.keep_best", r.checkpoint.keep_best}})
    if (given && r.train.validate_every == 0)
      add(faults, name, {"train.validate_every"},
          "is about validations; give train.validate_every");
  if (r.train.best_by != BestBy::loss && !r.tunes())
    add(faults, "train.best_by", {"tune.model"},
        "names a score, and validations of a model that is trained give the loss alone; set it to "
        "loss");
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
  if (r.memory.recompute_layers > r.model.layers && !r.tunes())
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
  precision_rules(r, faults);
  length_rules(r.train, faults);
  batch_rules(r, faults);
  optimizer_rules(r, faults);
  objective_rules(r, faults);
  guard_rules(r, faults);
  if (!r.tunes()) layout_rules(r, recipe, faults);  // else of another model: inference::check
  memory_rules(r, faults);
  unbuilt_rules(r, faults);
  return faults;
}

}  // namespace megalith::config
