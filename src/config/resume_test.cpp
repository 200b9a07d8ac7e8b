// SPDX-License-Identifier: Apache-2.0
// The table of what a resume may change is complete and is what decides.
#include "config/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"

namespace megalith::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string forbidden(const std::function<void(Recipe&)>& change,
                      const std::vector<std::string>& allow = {}) {
  Recipe before;
  before.data.train = {{"a", 1}, {"b", 2}};
  before.optimizer.groups = {{"*.bias", 1, 0.0}};
  Recipe after = before;
  change(after);
  return forbidden_changes(differences(before, after), allow);
}

std::string allow_fault(const std::vector<std::string>& allow) {
  try {
    check_allow(allow);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Resume, EveryKeyIsJudgedOnceAndWithAReason) {
  std::vector<std::string> judged;
  for (const ResumeRule& rule : resume_rules()) {
    judged.emplace_back(rule.key);
    EXPECT_EQ(rule.reason.empty(), rule.judgement == OnResume::allowed) << rule.key;
  }
  // A list's own key has no value: only its items' fields are compared.
  std::vector<std::string> wanted = keys();
  std::erase_if(wanted, [&](const std::string& key) {
    return std::ranges::any_of(
        wanted, [&](const std::string& other) { return other.starts_with(key + "[]"); });
  });
  EXPECT_EQ(judged, wanted);
}

/// Written a second time, so that no key is judged otherwise by a slip: whoever changes a judgement
/// changes it here too, and says why.
const std::map<OnResume, std::set<std::string>> kJudgements = {
    {OnResume::allowed,
     {"run.out",
      "run.name",
      "run.threads",
      "tune.seeds",
      "data.validation[].path",
      "data.validation[].weight",
      "train.steps",
      "train.tokens",
      "train.epochs",
      "train.hours",
      "train.micro_batch",
      "train.validate_every",
      "train.validate_samples",
      "train.early_stopping",
      "train.sample_every",
      "train.sample_prompts",
      "train.sample_tokens",
      "train.log_every",
      "train.not_finite",
      "train.not_finite_limit",
      "train.spike",
      "train.spike_factor",
      "train.spike_window",
      "train.spike_skip",
      "train.spike_limit",
      "checkpoint.every",
      "checkpoint.keep",
      "checkpoint.keep_best",
      "checkpoint.async",
      "memory.offload",
      "memory.recompute",
      "memory.recompute_layers",
      "parallel.tensor",
      "parallel.expert",
      "parallel.pipeline",
      "parallel.context",
      "parallel.data",
      "parallel.sequence",
      "parallel.chunks",
      "parallel.zero",
      "parallel.schedule",
      "parallel.deadline_seconds",
      "tune.validation",
      "tune.tasks[].validation"}},
    {OnResume::by_content,
     {"data.train[].path", "data.tokenizer", "tune.model", "tune.data", "tune.tasks[].data"}},
    {OnResume::needs_allow,
     {"train.best_by",
      "tune.template",
      "tune.tasks[].template",
      "tune.tasks[].prompt_text",
      "tune.overlong",
      "tune.quantize",
      "tune.alpha",
      "tune.dropout",
      "tune.rslora",
      "tune.stride",
      "run.seed",
      "model.dropout",
      "model.attention",
      "model.norm_eps",
      "model.activation",
      "model.rope.base",
      "model.rope.dim",
      "model.rope.scaling",
      "model.rope.factor",
      "model.rope.original_context",
      "model.rope.low_frequency_factor",
      "model.rope.high_frequency_factor",
      "model.rope.beta_fast",
      "model.rope.beta_slow",
      "model.rope.attention_factor",
      "model.rope.short_factors",
      "model.rope.long_factors",
      "model.window",
      "train.objective",
      "train.masking.rate",
      "train.masking.mask_share",
      "train.masking.random_share",
      "train.masking.whole_words",
      "train.fim.rate",
      "train.fim.spm_rate",
      "train.fim.prefix",
      "train.fim.middle",
      "train.fim.suffix",
      "train.spans.rate",
      "train.spans.mean_length",
      "train.spans.sentinel",
      "train.spans.start",
      "train.sequence_length",
      "train.init",
      "data.train[].weight",
      "data.validation_fraction",
      "data.sequences",
      "data.document_mask",
      "data.reset_positions",
      "data.end_of_document_loss",
      "train.global_batch",
      "train.ramp_start",
      "train.ramp_increment",
      "train.ramp_samples",
      "train.z_loss",
      "optimizer.lr",
      "optimizer.min_lr",
      "optimizer.schedule",
      "optimizer.warmup_steps",
      "optimizer.decay_steps",
      "optimizer.beta1",
      "optimizer.beta2",
      "optimizer.eps",
      "optimizer.weight_decay",
      "optimizer.clip",
      "optimizer.layer_decay",
      "optimizer.groups[].match",
      "optimizer.groups[].lr_scale",
      "optimizer.groups[].weight_decay",
      "optimizer.frozen",
      "precision.parameters",
      "precision.compute",
      "precision.loss_scale",
      "precision.fp16.initial_scale",
      "precision.fp16.growth_interval",
      "precision.fp16.hysteresis",
      "precision.fp16.min_scale",
      "precision.fp8.recipe",
      "precision.fp8.format",
      "precision.fp8.history",
      "precision.fp8.amax",
      "precision.fp8.margin",
      "precision.fp8.weight_gradients",
      "precision.fp8.first_layers",
      "precision.fp8.last_layers",
      "precision.fp8.guard.every",
      "precision.fp8.guard.warn",
      "precision.fp8.guard.trip",
      "precision.fp8.guard.cosine",
      "precision.fp8.guard.saturated",
      "precision.fp8.guard.flushed",
      "precision.fp8.guard.patience",
      "precision.fp8.guard.quiet",
      "precision.fp8.guard.fallback",
      "numerics",
      "parallel.tensor_shards",
      "parallel.data_shards",
      "tune.answer_length",
      "tune.prompt_init",
      "tune.prompt_text",
      "tune.beta",
      "tune.label_smoothing"}},
    {OnResume::refused, {"tune.tasks[].name",   "tune.virtual_token_splits",
                         "tune.objective",      "tune.method",
                         "tune.rank",           "tune.dora",
                         "tune.adapter_dim",    "tune.targets",
                         "tune.task",           "tune.labels",
                         "tune.encoder",        "tune.encoder_hidden",
                         "tune.encoder_layers", "tune.virtual_tokens",
                         "model.kind",          "model.family",
                         "model.head_dim",      "model.norm",
                         "model.norm_place",    "model.parallel_block",
                         "model.mlp",           "model.bias",
                         "model.position",      "model.qk_norm",
                         "model.layers",        "model.decoder_layers",
                         "model.decoder_start", "model.hidden",
                         "model.heads",         "model.kv_heads",
                         "model.ffn",           "model.context",
                         "model.vocab",         "model.tied",
                         "model.init_std",      "train.sentence_pairs"}},
};

TEST(Resume, EveryKeyIsJudgedAsWrittenHere) {
  std::map<OnResume, std::set<std::string>> judged;
  for (const ResumeRule& rule : resume_rules()) judged[rule.judgement].emplace(rule.key);
  EXPECT_EQ(judged, kJudgements);
}

TEST(Resume, WhatCannotChangeTheResultIsAllowed) {
  EXPECT_EQ(forbidden([](Recipe& r) {
              r.run.out = "x";
              r.run.threads = 7;
              r.train.steps = 99;
              r.train.micro_batch = 1;
              r.memory.recompute = Recompute::full;
              r.parallel.tensor = 2;
              r.checkpoint.every = 3;
              r.data.train[1].path = "moved";  // its content is compared elsewhere
            }),
            "");
}

TEST(Resume, WhatChangesTheResultNeedsTheWordOfAPerson) {
  const auto change = [](Recipe& r) {
    r.optimizer.lr = 0.5;
    r.optimizer.groups[0].lr_scale = 3;
    r.data.train[1].weight = 5;
  };
  EXPECT_THAT(forbidden(change),
              AllOf(HasSubstr("optimizer.lr was 0.0003, is 0.5"), HasSubstr("--allow optimizer.lr"),
                    HasSubstr("--allow optimizer.groups"), HasSubstr("--allow data.train ")));
  EXPECT_THAT(forbidden(change, {"optimizer.lr", "data.train"}),
              AllOf(Not(HasSubstr("optimizer.lr was")), HasSubstr("optimizer.groups.0.lr_scale")));
  EXPECT_EQ(forbidden(change, {"optimizer.lr", "data.train", "optimizer.groups[].lr_scale"}), "");
}

TEST(Resume, WhatDoesNotFitIsRefusedWhateverIsAllowed) {
  EXPECT_THAT(forbidden([](Recipe& r) { r.model.layers = 13; }, {"model.layers"}),
              AllOf(HasSubstr("model.layers was 12, is 13"), Not(HasSubstr("--allow"))));
  EXPECT_THAT(forbidden([](Recipe& r) { r.model.hidden = 1536; }), HasSubstr("model.ffn"));
}

TEST(Resume, AllowNamesRealKeys) {
  EXPECT_EQ(allow_fault({"optimizer.lr", "data.train", "data.train.0.weight", "run.out"}), "");
  EXPECT_THAT(allow_fault({"optimizer.rl"}), HasSubstr("did you mean optimizer.lr?"));
  EXPECT_THAT(allow_fault({"model.hidden", ""}),
              AllOf(HasSubstr("model.hidden: a resume cannot change it"), HasSubstr("--allow :")));
}

}  // namespace
}  // namespace megalith::config
