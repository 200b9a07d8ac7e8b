// SPDX-License-Identifier: Apache-2.0
#include "config/resume.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/error.h"
#include "base/nearest.h"

namespace megalith::config {
namespace {

using enum OnResume;

constexpr std::string_view kShape = "the saved tensors have the old shape";
constexpr std::string_view kMeaning = "the saved tensors mean something else under it";
constexpr std::string_view kOther = "it changes the result from here on";
constexpr std::string_view kOrder = "it changes which samples come next";

constexpr auto kRules = std::to_array<ResumeRule>({
    {"run.out", allowed, {}},
    {"run.seed", needs_allow, "it changes which samples come next, and dropout"},
    {"run.name", allowed, {}},
    {"run.threads", allowed, {}},
    {"model.kind", refused, kShape},
    {"model.family", refused, kMeaning},
    {"model.layers", refused, kShape},
    {"model.decoder_layers", refused, kShape},
    {"model.decoder_start", refused, kMeaning},
    {"model.hidden", refused, kShape},
    {"model.heads", refused, kMeaning},
    {"model.kv_heads", refused, kShape},
    {"model.head_dim", refused, kShape},
    {"model.ffn", refused, kShape},
    {"model.context", refused, kShape},
    {"model.vocab", refused, kShape},
    {"model.dropout", needs_allow, kOther},
    {"model.attention", needs_allow, kOther},
    {"model.tied", refused, kShape},
    {"model.norm", refused, kShape},
    {"model.norm_place", refused, kMeaning},
    {"model.parallel_block", refused, kMeaning},
    {"model.mlp", refused, kShape},
    {"model.activation", needs_allow, kOther},
    {"model.bias", refused, kShape},
    {"model.position", refused, kShape},
    {"model.rope.base", needs_allow, kOther},
    {"model.rope.dim", needs_allow, kOther},
    {"model.rope.scaling", needs_allow, kOther},
    {"model.rope.factor", needs_allow, kOther},
    {"model.rope.original_context", needs_allow, kOther},
    {"model.rope.low_frequency_factor", needs_allow, kOther},
    {"model.rope.high_frequency_factor", needs_allow, kOther},
    {"model.rope.beta_fast", needs_allow, kOther},
    {"model.rope.beta_slow", needs_allow, kOther},
    {"model.rope.attention_factor", needs_allow, kOther},
    {"model.rope.short_factors", needs_allow, kOther},
    {"model.rope.long_factors", needs_allow, kOther},
    {"model.window", needs_allow, kOther},
    {"model.qk_norm", refused, kShape},
    {"model.norm_eps", needs_allow, kOther},
    {"model.init_std", refused, "the weights were drawn with the old value"},
    {"data.train[].path", by_content, kOrder},
    {"data.train[].weight", needs_allow, kOrder},
    {"data.validation[].path", allowed, {}},
    {"data.validation[].weight", allowed, {}},
    {"data.tokenizer", by_content, "the token ids mean something else"},
    {"data.validation_fraction", needs_allow, kOrder},
    {"data.sequences", needs_allow, kOrder},
    {"data.document_mask", needs_allow, kOther},
    {"data.reset_positions", needs_allow, kOther},
    {"data.end_of_document_loss", needs_allow, kOther},
    {"train.objective", needs_allow, kOther},
    {"train.sentence_pairs", refused, kShape},
    {"train.masking.rate", needs_allow, kOther},
    {"train.masking.mask_share", needs_allow, kOther},
    {"train.masking.random_share", needs_allow, kOther},
    {"train.masking.whole_words", needs_allow, kOther},
    {"train.fim.rate", needs_allow, kOther},
    {"train.fim.spm_rate", needs_allow, kOther},
    {"train.fim.prefix", needs_allow, kOther},
    {"train.fim.middle", needs_allow, kOther},
    {"train.fim.suffix", needs_allow, kOther},
    {"train.spans.rate", needs_allow, kOther},
    {"train.spans.mean_length", needs_allow, kOther},
    {"train.spans.sentinel", needs_allow, kOther},
    {"train.spans.start", needs_allow, kOther},
    {"train.steps", allowed, {}},
    {"train.tokens", allowed, {}},
    {"train.epochs", allowed, {}},
    {"train.hours", allowed, {}},
    {"train.sequence_length", needs_allow, kOrder},
    {"train.init", needs_allow, "the run has begun: its checkpoint has the weights"},
    {"train.global_batch", needs_allow, kOther},
    {"train.micro_batch", allowed, {}},
    {"train.ramp_start", needs_allow, kOther},
    {"train.ramp_increment", needs_allow, kOther},
    {"train.ramp_samples", needs_allow, kOther},
    {"train.z_loss", needs_allow, kOther},
    {"train.validate_every", allowed, {}},
    {"train.validate_samples", allowed, {}},
    {"train.early_stopping", allowed, {}},
    {"train.best_by", needs_allow, "the best validation so far was the best by the old one"},
    {"train.sample_every", allowed, {}},
    {"train.sample_prompts", allowed, {}},
    {"train.sample_tokens", allowed, {}},
    {"train.log_every", allowed, {}},
    {"train.not_finite", allowed, {}},
    {"train.not_finite_limit", allowed, {}},
    {"train.spike", allowed, {}},
    {"train.spike_factor", allowed, {}},
    {"train.spike_window", allowed, {}},
    {"train.spike_skip", allowed, {}},
    {"train.spike_limit", allowed, {}},
    {"optimizer.lr", needs_allow, kOther},
    {"optimizer.min_lr", needs_allow, kOther},
    {"optimizer.schedule", needs_allow, kOther},
    {"optimizer.warmup_steps", needs_allow, kOther},
    {"optimizer.decay_steps", needs_allow, kOther},
    {"optimizer.beta1", needs_allow, kOther},
    {"optimizer.beta2", needs_allow, kOther},
    {"optimizer.eps", needs_allow, kOther},
    {"optimizer.weight_decay", needs_allow, kOther},
    {"optimizer.clip", needs_allow, kOther},
    {"optimizer.layer_decay", needs_allow, kOther},
    {"optimizer.groups[].match", needs_allow, kOther},
    {"optimizer.groups[].lr_scale", needs_allow, kOther},
    {"optimizer.groups[].weight_decay", needs_allow, kOther},
    {"optimizer.frozen", needs_allow, "what was frozen has no optimizer state to train with"},
    {"precision.parameters", needs_allow, kOther},
    {"precision.compute", needs_allow, kOther},
    {"precision.loss_scale", needs_allow, kOther},
    {"precision.fp16.initial_scale", needs_allow, "the scale goes on from the checkpoint's"},
    {"precision.fp16.growth_interval", needs_allow, kOther},
    {"precision.fp16.hysteresis", needs_allow, kOther},
    {"precision.fp16.min_scale", needs_allow, kOther},
    {"precision.fp8.recipe", needs_allow, kOther},
    {"precision.fp8.format", needs_allow, kOther},
    {"precision.fp8.history", needs_allow, kOther},
    {"precision.fp8.amax", needs_allow, kOther},
    {"precision.fp8.margin", needs_allow, kOther},
    {"precision.fp8.weight_gradients", needs_allow, kOther},
    {"precision.fp8.first_layers", needs_allow, kOther},
    {"precision.fp8.last_layers", needs_allow, kOther},
    {"precision.fp8.guard.every", needs_allow, kOther},
    {"precision.fp8.guard.warn", needs_allow, kOther},
    {"precision.fp8.guard.trip", needs_allow, kOther},
    {"precision.fp8.guard.cosine", needs_allow, kOther},
    {"precision.fp8.guard.saturated", needs_allow, kOther},
    {"precision.fp8.guard.flushed", needs_allow, kOther},
    {"precision.fp8.guard.patience", needs_allow, kOther},
    {"precision.fp8.guard.quiet", needs_allow, kOther},
    {"precision.fp8.guard.fallback", needs_allow, kOther},
    {"numerics", needs_allow, kOther},
    {"checkpoint.every", allowed, {}},
    {"checkpoint.keep", allowed, {}},
    {"checkpoint.keep_best", allowed, {}},
    {"checkpoint.async", allowed, {}},
    {"memory.recompute", allowed, {}},
    {"memory.recompute_layers", allowed, {}},
    {"memory.offload", allowed, {}},
    {"parallel.tensor", allowed, {}},
    {"parallel.pipeline", allowed, {}},
    {"parallel.data", allowed, {}},
    {"parallel.sequence", allowed, {}},
    {"parallel.chunks", allowed, {}},
    {"parallel.zero", allowed, {}},
    {"parallel.schedule", allowed, {}},
    {"parallel.tensor_shards", needs_allow, "it changes the order of sums from here on"},
    {"parallel.data_shards", needs_allow, "it changes the order of sums from here on"},
    {"parallel.context", allowed, {}},
    {"parallel.expert", allowed, {}},
    {"parallel.deadline_seconds", allowed, {}},
    {"tune.method", refused, kShape},
    {"tune.objective", refused, kMeaning},
    {"tune.model", by_content, "the run has begun with its weights"},
    {"tune.data", by_content, kOrder},
    {"tune.validation", allowed, {}},
    {"tune.template", needs_allow, kOrder},
    {"tune.overlong", needs_allow, kOrder},
    {"tune.answer_length", needs_allow, kOrder},
    {"tune.quantize", needs_allow, kOther},
    {"tune.rank", refused, kShape},
    {"tune.alpha", needs_allow, kOther},
    {"tune.dropout", needs_allow, kOther},
    {"tune.rslora", needs_allow, kOther},
    {"tune.dora", refused, kShape},
    {"tune.targets", refused, kShape},
    {"tune.adapter_dim", refused, kShape},
    {"tune.task", refused, kShape},
    {"tune.labels", refused, kShape},
    {"tune.stride", needs_allow, kOrder},
    {"tune.virtual_tokens", refused, kShape},
    {"tune.virtual_token_splits", refused, kMeaning},
    {"tune.tasks[].name", refused, "the saved virtual tokens are those of the old tasks"},
    {"tune.tasks[].data", by_content, kOrder},
    {"tune.tasks[].validation", allowed, {}},
    {"tune.tasks[].template", needs_allow, kOrder},
    {"tune.tasks[].prompt_text", needs_allow, "the run has begun with what it says"},
    {"tune.prompt_init", needs_allow, "the run has begun with what it says"},
    {"tune.prompt_text", needs_allow, "the run has begun with what it says"},
    {"tune.encoder", refused, kShape},
    {"tune.encoder_hidden", refused, kShape},
    {"tune.encoder_layers", refused, kShape},
    {"tune.beta", needs_allow, kOther},
    {"tune.label_smoothing", needs_allow, kOther},
    {"tune.seeds", allowed, {}},
});

/// "data.train.0.path" is judged as "data.train[].path".
std::string key_of(std::string_view path) {
  std::string key;
  size_t at = 0;
  while (at <= path.size()) {
    const size_t dot = std::min(path.find('.', at), path.size());
    const std::string_view part = path.substr(at, dot - at);
    const bool number =
        !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (number) {
      key += "[]";
    } else {
      if (!key.empty()) key += '.';
      key += part;
    }
    at = dot + 1;
  }
  return key;
}

const ResumeRule* find_rule(std::string_view key) {
  const auto found = std::ranges::find(kRules, key, &ResumeRule::key);
  return found == kRules.end() ? nullptr : &*found;
}

/// "data.train" of "data.train[].path"; empty for a key that is in no list.
std::string_view list_of(std::string_view key) {
  const size_t bracket = key.find("[]");
  return bracket == std::string_view::npos ? std::string_view() : key.substr(0, bracket);
}

}  // namespace

std::span<const ResumeRule> resume_rules() { return kRules; }

const ResumeRule& resume_rule(std::string_view path) {
  const ResumeRule* rule = find_rule(key_of(path));
  MEGA_CHECK(rule != nullptr, "no rule says whether a resume may change {}", path);
  return *rule;
}

bool is_allowed(std::string_view path, std::span<const std::string> allow) {
  const std::string key = key_of(path);
  return std::ranges::any_of(allow, [&](const std::string& given) {
    return key_of(given) == key || (!given.empty() && given == list_of(key));
  });
}

void check_allow(std::span<const std::string> allow) {
  std::vector<std::string> known, faults;
  for (const ResumeRule& rule : kRules) {
    known.emplace_back(rule.key);
    if (const auto list = list_of(rule.key); !list.empty()) known.emplace_back(list);
  }
  for (const std::string& given : allow) {
    const std::string key = key_of(given);
    if (std::ranges::find(known, key) == known.end()) {
      faults.push_back(fmt::format("--allow {}: there is no such key; did you mean {}?", given,
                                   nearest(given, known)));
    } else if (const ResumeRule* rule = find_rule(key);
               rule != nullptr && rule->judgement == refused) {
      faults.push_back(
          fmt::format("--allow {}: a resume cannot change it ({})", given, rule->reason));
    }
  }
  if (!faults.empty()) throw UserError("{}", fmt::join(faults, "; "));
}

std::string forbidden_changes(const std::vector<Difference>& changes,
                              std::span<const std::string> allow) {
  std::vector<std::string> faults;
  for (const Difference& change : changes) {
    const ResumeRule& rule = resume_rule(change.path);
    const bool asks = rule.judgement == needs_allow && !is_allowed(change.path, allow);
    if (rule.judgement != refused && !asks) continue;
    const std::string_view list = list_of(rule.key);
    faults.push_back(fmt::format(
        "{} was {}, is {}: {}{}", change.path, change.before, change.after, rule.reason,
        asks ? fmt::format(" (--allow {} goes on with it)", list.empty() ? rule.key : list) : ""));
  }
  return fmt::format("{}", fmt::join(faults, "; "));
}

}  // namespace megalith::config
