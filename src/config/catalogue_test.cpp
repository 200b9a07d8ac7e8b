// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/file.h"
#include "config/recipe.h"

namespace megalith::config {
namespace {

// Others' recipes use these names: a key may be added, never renamed or removed.
constexpr std::string_view kFrozenKeys = R"(
run.out run.seed run.name run.threads
model.kind model.family model.layers model.decoder_layers model.decoder_start model.hidden
model.heads model.kv_heads model.head_dim
model.ffn model.context model.vocab model.dropout model.attention model.tied model.norm
model.norm_place model.parallel_block model.mlp model.activation model.bias model.position
model.rope.base model.rope.dim model.rope.scaling model.rope.factor model.rope.original_context
model.rope.low_frequency_factor model.rope.high_frequency_factor model.rope.beta_fast
model.rope.beta_slow model.rope.attention_factor model.rope.short_factors model.rope.long_factors
model.window model.qk_norm model.norm_eps model.init_std
data.train data.train[].path data.train[].weight
data.validation data.validation[].path data.validation[].weight
data.tokenizer data.validation_fraction data.sequences data.document_mask data.reset_positions
data.end_of_document_loss
train.objective train.sentence_pairs
train.masking.rate train.masking.mask_share train.masking.random_share
train.masking.whole_words train.fim.rate train.fim.spm_rate train.fim.prefix train.fim.middle
train.fim.suffix train.spans.rate train.spans.mean_length train.spans.sentinel train.spans.start
train.steps train.tokens train.epochs train.hours train.sequence_length train.init
train.global_batch train.micro_batch
train.ramp_start train.ramp_increment train.ramp_samples train.z_loss
train.validate_every train.validate_samples train.early_stopping train.best_by train.sample_every
train.sample_prompts train.sample_tokens train.log_every
train.not_finite train.not_finite_limit train.spike train.spike_factor train.spike_window
train.spike_skip train.spike_limit
optimizer.lr optimizer.min_lr optimizer.schedule optimizer.warmup_steps optimizer.decay_steps
optimizer.beta1 optimizer.beta2 optimizer.eps optimizer.weight_decay optimizer.clip
optimizer.layer_decay optimizer.groups optimizer.groups[].match optimizer.groups[].lr_scale
optimizer.groups[].weight_decay optimizer.frozen
precision.parameters precision.compute precision.loss_scale precision.fp16.initial_scale
precision.fp16.growth_interval precision.fp16.hysteresis precision.fp16.min_scale
precision.fp8.recipe precision.fp8.format
precision.fp8.history precision.fp8.amax precision.fp8.margin precision.fp8.weight_gradients
precision.fp8.first_layers precision.fp8.last_layers precision.fp8.guard.every
precision.fp8.guard.warn precision.fp8.guard.trip precision.fp8.guard.cosine
precision.fp8.guard.saturated precision.fp8.guard.flushed precision.fp8.guard.patience
precision.fp8.guard.quiet
precision.fp8.guard.fallback numerics
checkpoint.every checkpoint.keep checkpoint.keep_best checkpoint.async memory.recompute
memory.recompute_layers memory.offload
parallel.tensor parallel.pipeline parallel.data parallel.sequence parallel.chunks parallel.zero
parallel.schedule parallel.tensor_shards parallel.data_shards parallel.context parallel.expert
parallel.deadline_seconds
tune.method tune.objective tune.model tune.data tune.validation tune.template tune.overlong
tune.answer_length tune.quantize tune.rank tune.alpha tune.dropout tune.rslora tune.dora
tune.targets tune.adapter_dim tune.task tune.labels tune.stride tune.virtual_tokens
tune.virtual_token_splits tune.tasks tune.tasks[].name tune.tasks[].data tune.tasks[].validation
tune.tasks[].template tune.tasks[].prompt_text tune.prompt_init tune.prompt_text tune.encoder
tune.encoder_hidden tune.encoder_layers tune.beta tune.label_smoothing tune.seeds
)";

TEST(Catalogue, KeysAreFrozen) {
  std::istringstream words{std::string(kFrozenKeys)};
  std::vector<std::string> frozen;
  for (std::string word; words >> word;) frozen.push_back(word);
  EXPECT_EQ(keys(), frozen);
}

TEST(Catalogue, KeysAreUnique) {
  const std::vector<std::string> all = keys();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
}

TEST(Catalogue, EveryKeyIsDocumentedWithTypeDefaultAndMeaning) {
  const std::string page = documentation();
  for (const std::string& key : keys())
    EXPECT_THAT(page, testing::HasSubstr("| `" + key + "` | ")) << key;
  EXPECT_THAT(page, testing::HasSubstr(
                        "| `optimizer.lr` | number, from 0 to 1000 | `0.0003` | peak learning"));
  EXPECT_THAT(
      page, testing::HasSubstr("| `memory.recompute` | one of none, selective, full | `none` | "));
  EXPECT_THAT(page, testing::HasSubstr("## parallel"));
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("| `", 0) == 0) {
      size_t bars = 0;
      for (size_t i = 0; i < line.size(); ++i)
        bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
      EXPECT_EQ(bars, 5u) << line;
      EXPECT_THAT(line, testing::Not(testing::HasSubstr("|  |"))) << line;
    }
}

// docs/recipe.md is this text; after a change of the fields, write it anew.
TEST(Catalogue, TheDocumentationPageIsCurrent) {
  EXPECT_EQ(read_file(std::filesystem::path(MEGA_SOURCE_DIR) / "docs" / "recipe.md"),
            documentation());
}

TEST(Catalogue, EnumNamesFollowTheirValues) {
  EXPECT_EQ(name_of(Schedule::constant), "constant");
  EXPECT_EQ(name_of(Schedule::inverse_sqrt), "inverse_sqrt");
  EXPECT_EQ(name_of(Schedule::hours), "hours");
  EXPECT_EQ(name_of(PipelineSchedule::one_forward_one_backward), "1f1b");
  EXPECT_EQ(name_of(PipelineSchedule::interleaved), "interleaved");
  EXPECT_EQ(name_of(Recompute::selective), "selective");
  EXPECT_EQ(name_of(Precision::bf16), "bf16");
  EXPECT_EQ(name_of(Attention::materialised), "materialised");
  EXPECT_EQ(name_of(Numerics::fast), "fast");
  EXPECT_EQ(fmt::format("{}", Schedule::wsd), "wsd");
}

}  // namespace
}  // namespace megalith::config
