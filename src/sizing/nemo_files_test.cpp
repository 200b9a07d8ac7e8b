// SPDX-License-Identifier: Apache-2.0
#include "sizing/nemo_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace megalith::sizing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

NemoSearch gpt() {
  NemoSearch search;
  search.model = {175, 96, 96, 2048, 2048, 1024};
  search.shape = {96, 12288, 96, 0, 0, 0};
  search.vocab = 51200;
  search.nodes = 128;
  search.gpus_per_node = 8;
  return search;
}

NemoSearch t5() {
  NemoSearch search;
  search.model = {11, 24, 64, 512, 1920, 160, 80, NemoFamily::t5, true};
  search.shape = {24, 4096, 64, 10240, 64, 0};
  search.vocab = 29184;
  search.target = 128;
  search.nodes = 20;
  search.gpus_per_node = 8;
  return search;
}

constexpr std::string_view kBoth =
    "Model Name,Model Size,Seq Length,TP,PP,MBS,Act Ckpt Layers,Act Ckpt Micro Bathes,"
    "Act Ckpt Layers per Pipeline,Num Layers,Hidden Size,FFN Hidden Size,GBS,Nodes,GPUs per Node";

/// Step times rounded to four digits, everything else from the rounded ones, as the tool's own
/// functions gave it for these times.
TEST(NemoFiles, TheTableOfResults) {
  const NemoResult results[] = {{{8, 8, 2, 12}, 18.56789}, {{8, 16, 1, 6}, 14}};
  EXPECT_EQ(summary_csv(gpt(), results),
            std::string(kBoth) +
                ",Time per Step,Samples per Second,Model TFLOPS / GPU,Model TFLOPS Aggregate,"
                "Config Name\n"
                "gpt3,175,2048,8,16,1,,,,96,12288,,2048,128,8,14.0,146.29,314.94,322494.93,"
                "tp8_pp16_mbs1_act_None_num_mbs_act_None_act_per_pipe_None\n"
                "gpt3,175,2048,8,8,2,,,,96,12288,,2048,128,8,18.5679,110.3,237.46,243157.76,"
                "tp8_pp8_mbs2_act_None_num_mbs_act_None_act_per_pipe_None\n");
}

TEST(NemoFiles, TheTableOfFailedRuns) {
  const NemoCandidate failed[] = {{8, 4, 4, 24}};
  EXPECT_EQ(failed_csv(gpt(), failed),
            std::string(kBoth) +
                ",Error Message\n"
                "gpt3,175,2048,8,4,4,,,,96,12288,,2048,128,8,CUDA out of memory\n");
  EXPECT_EQ(failed_csv(gpt(), {}), std::string(kBoth) + ",Error Message\n");
}

/// An empty cell among numbers makes them floats.
TEST(NemoFiles, AColumnWithGapsHasFloats) {
  const NemoCandidate failed[] = {{4, 1, 1, 1, 8}, {4, 2, 1, 1, 8, 2, 0}};
  const std::string text = failed_csv(gpt(), failed);
  EXPECT_THAT(text, HasSubstr("gpt3,175,2048,4,1,1,8,,,96"));
  EXPECT_THAT(text, HasSubstr("gpt3,175,2048,4,2,1,8,2.0,0.0,96"));
}

TEST(NemoFiles, OfTwoStacksEachHasHalf) {
  const NemoResult results[] = {{{4, 1, 8, 1, 9}, 10}};
  EXPECT_THAT(summary_csv(t5(), results),
              HasSubstr("\nt5,11,512,4,1,8,8,,,48,4096,10240,1920,20,8,"
                        "10.0,192.0,25.65,4103.27,tp4_pp1_mbs8_act_8_"));
  const std::string yaml = config_yaml(t5(), results[0].candidate);
  EXPECT_THAT(yaml, HasSubstr("  encoder:\n    num_layers: 24\n"));
  EXPECT_THAT(yaml, HasSubstr("activations_checkpoint_num_layers: 4\n"));
  EXPECT_THAT(yaml, HasSubstr("    seq_length_dec: 128\n"));
}

TEST(NemoFiles, ACandidateAsItsLauncherHasIt) {
  const std::string yaml = config_yaml(gpt(), {8, 8, 2, 12});
  for (const char* line :
       {"  name: gpt3_175b_128nodes_tp_8_pp_8_mbs_2_act_ckpt_None_num_mbs_act_None_"
        "act_per_pipe_None\n",
        "  num_nodes: 128\n", "  devices: 8\n", "  max_steps: 50\n", "  micro_batch_size: 2\n",
        "  tensor_model_parallel_size: 8\n", "  pipeline_model_parallel_size: 8\n",
        "  virtual_pipeline_model_parallel_size: 12\n", "  activations_checkpoint_method: null\n",
        "  sequence_parallel: true\n", "    seq_length: 2048\n"})
    EXPECT_THAT(yaml, HasSubstr(line));
  const std::string block = config_yaml(gpt(), {8, 2, 2, 1, 16, 2, 32});
  for (const char* line :
       {"  virtual_pipeline_model_parallel_size: null\n",
        "  activations_checkpoint_method: block\n", "  activations_checkpoint_num_layers: 16\n",
        "  num_micro_batches_with_partial_activation_checkpoints: 2\n",
        "  activations_checkpoint_layers_per_pipeline: 32\n"})
    EXPECT_THAT(block, HasSubstr(line));
}

}  // namespace
}  // namespace megalith::sizing
