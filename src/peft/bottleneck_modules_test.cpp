// SPDX-License-Identifier: Apache-2.0
#include "peft/bottleneck_modules.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "families/families.h"

namespace megalith::tune {
namespace {

TEST(BottleneckModules, StandBehindWhatEndsAttentionAndMlp) {
  const auto spec = [](std::string_view family) {
    return models::family_named(family, "test")
        .make({.layers = 2, .hidden = 32, .heads = 4, .ffn = 48, .context = 16, .vocab = 100},
              "test");
  };
  config::TuneSection tune;
  tune.adapter_dim = 5;
  const BottleneckModules made = bottleneck_modules(tune, spec("llama"), 1);
  ASSERT_EQ(made.modules.size(), 4U);
  EXPECT_EQ(made.hidden, 32);
  EXPECT_EQ(made.parameters, 4 * (2 * 5 * 32 + 5 + 32));
  int attentions = 0;
  for (const BottleneckModule& module : made.modules) {
    attentions += module.of_attention ? 1 : 0;
    EXPECT_TRUE(module.name.ends_with(module.of_attention ? ".self_attn.o_proj.weight"
                                                          : ".mlp.down_proj.weight"))
        << module.name;
  }
  EXPECT_EQ(attentions, 2);
  EXPECT_EQ(bottleneck_modules(tune, spec("gpt2"), 1).modules.size(), 4U);
  for (const char* const other : {"t5", "bert"})
    EXPECT_THROW(bottleneck_modules(tune, spec(other), 1), UserError) << other;
}

}  // namespace
}  // namespace megalith::tune
