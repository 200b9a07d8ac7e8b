// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "config/rules_fixture.h"

namespace megalith::config {
namespace {

using testing::HasSubstr;

TEST_P(Rules, NameTheFieldAndTheWayOut) {
  Recipe r = sound();
  ASSERT_TRUE(validate(r).empty());
  GetParam().change(r);
  bool found = false;
  std::string all;
  for (const Fault& fault : validate(r)) {
    all += fault.text() + "\n";
    found |= fault.path == GetParam().path &&
             fault.message.find(GetParam().message) != std::string::npos;
  }
  EXPECT_TRUE(found) << all;
}

constexpr int64_t kHuge = int64_t{1} << 24;

INSTANTIATE_TEST_SUITE_P(
    All, Rules,
    testing::Values(
        Case{"heads_divide_hidden", [](Recipe& r) { r.model.heads = 7; }, "model.heads",
             "7 must divide model.hidden 768"},
        Case{"kv_heads_divide_heads", [](Recipe& r) { r.model.kv_heads = 5; }, "model.kv_heads",
             "5 must divide model.heads 12"},
        Case{"parameters_fit",
             [](Recipe& r) {
               r.model.layers = 100000;
               r.model.hidden = kHuge;
               r.model.heads = 1;
             },
             "model.hidden", "does not fit 64 bits"},
        Case{"not_a_number",
             [](Recipe& r) { r.optimizer.lr = std::numeric_limits<double>::quiet_NaN(); },
             "optimizer.lr", "must be"},
        Case{"range", [](Recipe& r) { r.model.dropout = 1; }, "model.dropout", "to below 1"},
        Case{"group_range",
             [](Recipe& r) {
               r.optimizer.groups = {{"*", -1.0, {}}};
             },
             "optimizer.groups.0.lr_scale", "from 0"},
        Case{"vocab_or_tokenizer", [](Recipe& r) { r.model.vocab = 0; }, "data.tokenizer",
             "or model.vocab"},
        Case{"one_validation",
             [](Recipe& r) {
               r.data.validation = {{"a", 1}};
               r.data.validation_fraction = 0.1;
             },
             "data.validation_fraction", "not both"},
        Case{"early_stopping_needs_validation", [](Recipe& r) { r.train.early_stopping = 2; },
             "train.early_stopping", "give train.validate_every"},
        Case{"best_by_needs_validation", [](Recipe& r) { r.train.best_by = BestBy::f1; },
             "train.best_by", "give train.validate_every"},
        Case{"best_by_needs_scores",
             [](Recipe& r) {
               r.train.best_by = BestBy::f1;
               r.train.validate_every = 1;
               r.data.validation_fraction = 0.1;
             },
             "train.best_by", "give the loss alone"},
        Case{"best_checkpoint_needs_validation", [](Recipe& r) { r.checkpoint.keep_best = true; },
             "checkpoint.keep_best", "give train.validate_every"},
        Case{"validation_needs_data", [](Recipe& r) { r.train.validate_every = 5; },
             "train.validate_every", "needs data.validation"},
        Case{"empty_corpus",
             [](Recipe& r) {
               r.data.train = {{"a", 1}, {"", 1}};
             },
             "data.train.1.path", "is empty"},
        Case{"no_length", [](Recipe& r) { r.train.steps = -1; }, "train.steps", "0 are given"},
        Case{"two_lengths", [](Recipe& r) { r.train.hours = 1; }, "train.steps", "2 are given"},
        Case{"negative_epochs",
             [](Recipe& r) {
               r.train.steps = -1;
               r.train.epochs = -0.5;
             },
             "train.epochs", "at least 0"},
        Case{"batch_divides",
             [](Recipe& r) {
               r.train.global_batch = 12;
               r.train.micro_batch = 4;
               r.parallel.data_shards = 2;
             },
             "train.global_batch",
             "12 must be a multiple of train.micro_batch 4 x "
             "parallel.data_shards 2"},
        Case{"shards_divide_batch", [](Recipe& r) { r.parallel.data_shards = 3; },
             "train.global_batch", "8 must be a multiple"},
        Case{"ramp_incomplete", [](Recipe& r) { r.train.ramp_start = 2; }, "train.ramp_start",
             "needs train.ramp_increment"},
        Case{"ramp_without_start", [](Recipe& r) { r.train.ramp_samples = 2; }, "train.ramp_start",
             "is 0"},
        Case{"ramp_misses",
             [](Recipe& r) {
               r.train.ramp_start = 2;
               r.train.ramp_increment = 4;
               r.train.ramp_samples = 100;
             },
             "train.ramp_increment", "must lead from train.ramp_start 2 to train.global_batch 8"},
        Case{"ramp_of_whole_micro_batches",
             [](Recipe& r) {
               r.train.micro_batch = 2;
               r.train.ramp_start = 5;
               r.train.ramp_increment = 1;
               r.train.ramp_samples = 100;
             },
             "train.ramp_start", "5 must be a multiple"},
        Case{"min_lr", [](Recipe& r) { r.optimizer.min_lr = 1; }, "optimizer.min_lr",
             "above optimizer.lr"},
        Case{"hours_schedule", [](Recipe& r) { r.optimizer.schedule = Schedule::hours; },
             "optimizer.schedule", "needs train.hours"},
        Case{"cosine_by_the_clock",
             [](Recipe& r) {
               r.train.steps = -1;
               r.train.hours = 1;
             },
             "optimizer.schedule", "set optimizer.schedule: hours"},
        Case{"empty_pattern",
             [](Recipe& r) {
               r.optimizer.groups = {{"", 1, {}}};
             },
             "optimizer.groups.0.match", "is empty"},
        Case{"shards_are_whole_heads_or_parts_of_one",
             [](Recipe& r) {
               r.model.kv_heads = 4;
               r.parallel.tensor_shards = 6;
             },
             "parallel.tensor_shards", "6 must divide model.kv_heads 4 or be a multiple"},
        Case{"shards_cut_keys_and_values_evenly",
             [](Recipe& r) {
               r.model.kv_heads = 1;
               r.parallel.tensor_shards = 3;
             },
             "parallel.tensor_shards", "3 must divide the 128 rows of keys and values"},
        Case{"ranks_are_whole_heads_or_parts_of_one",
             [](Recipe& r) {
               r.model.kv_heads = 3;
               r.parallel.tensor_shards = 6;
               r.parallel.tensor = 2;
             },
             "parallel.tensor", "nor a part of one each; set parallel.tensor: 1"},
        Case{"shards_divide_heads", [](Recipe& r) { r.parallel.tensor_shards = 8; },
             "parallel.tensor_shards", "8 must divide model.heads 12"},
        Case{"shards_divide_ffn", [](Recipe& r) { r.model.ffn = 1001; }, "parallel.tensor_shards",
             "4 must divide model.ffn 1001"},
        Case{"tensor_names_the_value",
             [](Recipe& r) {
               r.parallel.tensor_shards = 2;
               r.parallel.tensor = 4;
             },
             "parallel.tensor",
             "set parallel.tensor_shards: 4 (which changes the result) or "
             "parallel.tensor: 2"},
        Case{"tensor_shards_that_heads_forbid_are_not_advised",
             [](Recipe& r) { r.parallel.tensor = 8; }, "parallel.tensor",
             "subtrees; set parallel.tensor: 4"},
        Case{"data_names_the_value", [](Recipe& r) { r.parallel.data = 2; }, "parallel.data",
             "set parallel.data_shards: 2"},
        Case{"data_shards_that_the_micro_batch_forbids_are_not_advised",
             [](Recipe& r) {
               r.train.micro_batch = 4;
               r.parallel.data = 8;
             },
             "parallel.data", "subtrees; set parallel.data: 1"},
        Case{"data_shards_that_the_ramp_forbids_are_not_advised",
             [](Recipe& r) {
               r.train.ramp_start = 2;
               r.train.ramp_increment = 6;
               r.train.ramp_samples = 100;
               r.parallel.data = 4;
             },
             "parallel.data", "subtrees; set parallel.data: 1"},
        Case{"a_layer_per_stage", [](Recipe& r) { r.parallel.pipeline = 13; }, "parallel.pipeline",
             "model.layers 12 must be at least parallel.pipeline 13"},
        Case{"data_ranks_are_subtrees",
             [](Recipe& r) {
               r.train.global_batch = 12;
               r.parallel.data_shards = 6;
               r.parallel.data = 3;
             },
             "parallel.data", "3 ranks cannot share parallel.data_shards 6"},
        Case{"layouts_that_fit_are_named",
             [](Recipe& r) {
               r.parallel.tensor = 4;
               r.parallel.pipeline = 3;
               r.parallel.data = 2;
             },
             "parallel", "parallel.tensor 4 x parallel.pipeline 6 x parallel.data 1 (24 ranks)"},
        Case{"chunks_need_interleaving",
             [](Recipe& r) {
               r.parallel.pipeline = 2;
               r.parallel.chunks = 2;
             },
             "parallel.chunks", "needs parallel.schedule: interleaved"},
        Case{"tokens_are_shared_in_whole_shards",
             [](Recipe& r) {
               r.model.context = 18;
               r.parallel.tensor = 2;
               r.parallel.sequence = true;
             },
             "parallel.sequence", "parallel.tensor_shards 4 to divide model.context 18"},
        Case{"gradients_are_not_spread", [](Recipe& r) { r.parallel.zero = 2; }, "parallel.zero",
             "2 (gradients spread over data ranks) is not built"},
        Case{"weights_are_not_spread", [](Recipe& r) { r.parallel.zero = 3; }, "parallel.zero",
             "3 (weights spread over data ranks) is not built"},
        Case{"context_parallelism", [](Recipe& r) { r.parallel.context = 2; }, "parallel.context",
             "context parallelism is not built; set 1"},
        Case{"expert_parallelism", [](Recipe& r) { r.parallel.expert = 8; }, "parallel.expert",
             "expert parallelism is not built"},
        Case{"activation_offload", [](Recipe& r) { r.memory.offload = Offload::activations; },
             "memory.offload", "activation offload is not built; set none"},
        Case{"loss_scale_of_nothing", [](Recipe& r) { r.precision.loss_scale = "1024"; },
             "precision.loss_scale", "has no effect with precision.compute: f32"},
        Case{"fp16_of_nothing", [](Recipe& r) { r.precision.fp16.hysteresis = 2; },
             "precision.fp16", "set precision.compute: f16"},
        Case{"loss_scale_no_number",
             [](Recipe& r) { r.precision.compute = Compute::f16, r.precision.loss_scale = "2x"; },
             "precision.loss_scale", "must be dynamic, or a power of two"},
        Case{"loss_scale_negative",
             [](Recipe& r) { r.precision.compute = Compute::f16, r.precision.loss_scale = "-2"; },
             "precision.loss_scale", "must be dynamic, or a power of two"},
        Case{"loss_scale_rounds",
             [](Recipe& r) { r.precision.compute = Compute::f16, r.precision.loss_scale = "1000"; },
             "precision.loss_scale", "set 512 or 1024"},
        Case{"initial_scale_rounds",
             [](Recipe& r) {
               r.precision.compute = Compute::f16, r.precision.fp16.initial_scale = 3;
             },
             "precision.fp16.initial_scale", "set 2 or 4"},
        Case{"initial_scale_below_the_least",
             [](Recipe& r) {
               r.precision.compute = Compute::f16, r.precision.fp16.min_scale = 131072;
             },
             "precision.fp16.initial_scale", "65536 is below min_scale 131072"},
        Case{"fixed_and_dynamic",
             [](Recipe& r) {
               r.precision.compute = Compute::f16, r.precision.loss_scale = "1024";
               r.precision.fp16.growth_interval = 100;
             },
             "precision.fp16", "has no effect with precision.loss_scale: 1024"},
        Case{"two_formats_of_16_bits",
             [](Recipe& r) {
               r.precision.compute = Compute::f16, r.precision.parameters = Precision::bf16;
             },
             "precision.parameters", "set f16 or f32"},
        Case{"weights_in_f16_beside_bf16",
             [](Recipe& r) {
               r.precision.compute = Compute::bf16, r.precision.parameters = Precision::f16;
             },
             "precision.parameters", "set bf16 or f32"},
        Case{"fp8_without_products", [](Recipe& r) { r.precision.fp8.recipe = Fp8Recipe::block; },
             "precision.fp8", "set precision.compute: fp8"},
        Case{"a_history_of_blocks",
             [](Recipe& r) {
               r.precision.compute = Compute::fp8;
               r.precision.fp8.recipe = Fp8Recipe::mx;
               r.precision.fp8.history = 16;
             },
             "precision.fp8.history", "has no effect with precision.fp8.recipe: mx"},
        Case{"no_layer_in_8_bits",
             [](Recipe& r) {
               r.precision.compute = Compute::fp8;
               r.precision.fp8.first_layers = r.precision.fp8.last_layers = r.model.layers;
             },
             "precision.fp8.first_layers", "leave no layer in 8 bits"},
        Case{"interleaving_needs_chunks",
             [](Recipe& r) { r.parallel.schedule = PipelineSchedule::interleaved; },
             "parallel.chunks", "at least 2"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Recipe, EveryFieldAtItsBoundsNeverOverflows) {
  Recipe r = sound();
  r.model.layers = 100000;
  r.model.hidden = kHuge;
  r.model.context = 1 << 28;
  r.model.vocab = 2147483647;
  r.model.ffn = 1 << 26;
  r.train.global_batch = 1 << 30;
  r.train.micro_batch = 1 << 30;
  r.parallel.data_shards = 1 << 20;
  r.parallel.pipeline = 100000;
  r.parallel.chunks = 100000;
  r.train.ramp_start = r.train.ramp_increment = 1 << 30;
  EXPECT_FALSE(validate(r).empty());
}

TEST(Recipe, NoLayoutIsAdvisedWhereNoneMends) {
  Recipe r = sound();
  r.parallel.pipeline = 2;
  r.parallel.schedule = PipelineSchedule::interleaved;  // one chunk
  const auto faults = validate(r);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].path, "parallel.chunks");
}

TEST(Recipe, TokensAreNotSharedByOneTensorRank) {
  Recipe r = sound();
  r.model.context = 18;
  r.parallel.sequence = true;
  EXPECT_TRUE(validate(r).empty());
}

TEST(Recipe, WhatIsNotBuiltComesWithAllOtherFaults) {
  Recipe r = sound();
  r.parallel.zero = 3;
  r.parallel.context = r.parallel.expert = 2;
  r.memory.offload = Offload::activations;
  r.parallel.tensor = 3;
  r.model.heads = 7;
  std::string paths;
  for (const Fault& fault : validate(r)) paths += fault.path + " ";
  for (const char* path : {"parallel.zero ", "parallel.context ", "parallel.expert ",
                           "memory.offload ", "parallel.tensor ", "model.heads "})
    EXPECT_THAT(paths, HasSubstr(path));
}

TEST(Recipe, LayoutsThatDivideTheSplitAreFine) {
  Recipe r = sound();
  r.parallel.tensor = 4;
  r.parallel.data_shards = 4;
  r.parallel.data = 2;
  r.parallel.pipeline = 3;
  r.parallel.chunks = 2;
  r.parallel.schedule = PipelineSchedule::interleaved;
  EXPECT_TRUE(validate(r).empty());
  r.parallel.pipeline = 5;  // uneven pieces
  EXPECT_TRUE(validate(r).empty());
}

TEST(Recipe, ZeroStepsAndTheHourScheduleAreFine) {
  Recipe r = sound();
  r.train.steps = 0;
  EXPECT_TRUE(validate(r).empty());
  r.train.steps = -1;
  r.train.hours = 0.5;
  r.optimizer.schedule = Schedule::hours;
  EXPECT_TRUE(validate(r).empty());
}

TEST(Recipe, AMethodDpoIsAnObjectiveOfAllWeights) {
  Recipe r;
  r.tune.method = TuneMethod::dpo;
  resolve(r);
  EXPECT_EQ(r.tune.method, TuneMethod::full);
  EXPECT_EQ(r.tune.objective, TuneObjective::dpo);
  EXPECT_FALSE(r.compares());
  r.tune.model = "model";
  EXPECT_TRUE(r.compares());
}

TEST(Recipe, AMethodClassifyIsAnObjectiveOfAllWeights) {
  Recipe r;
  r.tune.model = "model";
  r.tune.method = TuneMethod::classify;
  resolve(r);
  EXPECT_EQ(r.tune.method, TuneMethod::full);
  EXPECT_TRUE(r.classifies());
  EXPECT_FALSE(r.compares());
  // What says two things stays as it is, to be refused.
  r.tune.method = TuneMethod::dpo;
  resolve(r);
  EXPECT_EQ(r.tune.method, TuneMethod::dpo);
  EXPECT_TRUE(r.classifies());
}

TEST(Recipe, ResolveIsIdempotentAndMicroBatchFitsTheRamp) {
  Recipe r = sound();
  r.train.global_batch = 32;
  r.train.ramp_start = 8;
  r.train.ramp_increment = 12;
  r.train.ramp_samples = 100;
  r.parallel.data_shards = 2;
  EXPECT_TRUE(validate(r).empty());
  resolve(r);
  EXPECT_EQ(r.train.micro_batch, 2);
  const std::string once = to_yaml(r);
  resolve(r);
  EXPECT_EQ(to_yaml(r), once);
}

}  // namespace
}  // namespace megalith::config
