// SPDX-License-Identifier: Apache-2.0
// Scalings of rotary positions both ways, the factors of llama3 against those of Llama 3.2.
#include "gguf_models/rope_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace megalith::gguf_models {
namespace {

using layers::RopeScaling;
using layers::RopeSpec;
using ::testing::HasSubstr;

constexpr int64_t kContext = 131072;

struct File {
  ModelDescription description;
  std::string fault;  // of writing

  RopeSpec read() const {
    RopeSpec usual;
    usual.dim = 64;
    const MetadataKeys keys(description.metadata, "a.gguf", "llama");
    const RopeSpec rope = read_rope(keys, description, kContext, usual);
    keys.no_others("");
    return rope;
  }
  std::string fault_of_reading() const {
    try {
      read();
    } catch (const UserError& error) {
      return error.what();
    }
    return "no fault";
  }
  File& set(const char* key, const gguf::Value& value) {
    description.metadata.insert_or_assign(key, value);
    return *this;
  }
};

File written(const RopeSpec& rope) {
  File file;
  KeyWriter keys("llama");
  WrittenDescription all;
  try {
    write_rope(rope, kContext, keys, all);
  } catch (const UserError& error) {
    file.fault = error.what();
  }
  for (const auto& [key, value] : keys.keys()) file.set(key.c_str(), value);
  file.description.factors = all.factors;
  return file;
}

RopeSpec rope(RopeScaling scaling, double factor) {
  RopeSpec spec;
  spec.dim = 64;
  spec.base = 500000;
  spec.scaling = scaling;
  spec.factor = factor;
  return spec;
}

RopeSpec longrope() {
  RopeSpec spec = rope(RopeScaling::longrope, 32);
  spec.original_context = 4096;
  for (int i = 0; i < 32; ++i) {
    spec.short_factors.push_back((100 + i) / 100.0);
    spec.long_factors.push_back(2.0 + i);
  }
  return spec;
}

TEST(RopeMetadata, PlainLinearAndYarnComeBack) {
  EXPECT_EQ(written(rope(RopeScaling::none, 1)).read(), rope(RopeScaling::none, 1));
  EXPECT_EQ(written(rope(RopeScaling::linear, 8)).read(), rope(RopeScaling::linear, 8));
  RopeSpec yarn = rope(RopeScaling::yarn, 4);
  yarn.original_context = 32768;
  yarn.beta_fast = 24;
  yarn.beta_slow = 2;
  EXPECT_EQ(written(yarn).read(), yarn);
}

// rope_freqs.weight as llama.cpp's conversion writes it for Llama 3.2 1B: base 500000, heads of 64,
// factor 32 from 8192 (computed in numpy from the formula of its conversion/llama.py).
TEST(RopeMetadata, Llama3sFactors) {
  RopeSpec llama3 = rope(RopeScaling::llama3, 32);
  llama3.original_context = 8192;
  const File file = written(llama3);
  const std::vector<float>& factors = file.description.factors.at("rope_freqs.weight");
  ASSERT_EQ(factors.size(), 32u);
  EXPECT_EQ(factors[0], 1);
  EXPECT_EQ(factors[14], 1);
  EXPECT_NEAR(factors[15], 1.6513292, 1e-5 * 1.6513292);
  EXPECT_NEAR(factors[16], 3.2922621, 1e-5 * 3.2922621);
  EXPECT_NEAR(factors[17], 9.666729, 1e-5 * 9.666729);
  EXPECT_EQ(factors[18], 32);
  EXPECT_EQ(factors[31], 32);
  EXPECT_EQ(file.read(), llama3);
}

TEST(RopeMetadata, OtherFactorsAreRefused) {
  RopeSpec llama3 = rope(RopeScaling::llama3, 32);
  llama3.original_context = 8192;
  File file = written(llama3);
  file.description.factors["rope_freqs.weight"][16] *= 1.0001f;
  EXPECT_THAT(file.fault_of_reading(), HasSubstr("of no scaling that is known (llama3 from 8192)"));
  file.description.factors["rope_freqs.weight"].assign(31, 1.5f);
  EXPECT_THAT(file.fault_of_reading(), HasSubstr("of no scaling that is known"));
  file.description.factors["rope_freqs.weight"].assign(32, 1);
  EXPECT_EQ(file.read().scaling, RopeScaling::none);
  file.description.factors["rope_freqs.weight"].clear();
  EXPECT_THAT(file.fault_of_reading(), HasSubstr("is empty"));
  file = written(rope(RopeScaling::linear, 2));
  file.description.factors["rope_freqs.weight"].assign(32, 2);
  EXPECT_THAT(file.fault_of_reading(), HasSubstr("a scaling of linear together"));
}

TEST(RopeMetadata, LongropesListsAndItsFactor) {
  RopeSpec spec = longrope();
  EXPECT_EQ(written(spec).read(), spec);
  spec.attention_factor = 1.5;
  EXPECT_EQ(written(spec).read(), spec);
  File file = written(longrope());
  // llama.cpp's conversion of Phi-3 names no type.
  file.description.metadata.erase("llama.rope.scaling.type");
  EXPECT_EQ(file.read(), longrope());
  file.description.factors.erase("rope_factors_short.weight");
  EXPECT_THAT(file.fault_of_reading(), HasSubstr("rope_factors_short.weight is missing"));
}

TEST(RopeMetadata, WhatIsNotSupportedIsNamed) {
  const gguf::Value two = gguf::Value::f32(2);
  File file = written(rope(RopeScaling::yarn, 4));
  for (const char* key : {"llama.rope.scaling.attn_factor", "llama.rope.scaling.yarn_attn_factor",
                          "llama.rope.scaling.yarn_ext_factor"}) {
    EXPECT_THAT(File(file).set(key, two).fault_of_reading(),
                HasSubstr(std::string(key) + " 2 is not supported"));
  }
  EXPECT_THAT(File(file).set("llama.rope.scaling.yarn_log_multiplier", two).fault_of_reading(),
              HasSubstr("yarn_log_multiplier is not supported"));
  EXPECT_THAT(
      File(file).set("llama.rope.scaling.type", gguf::Value::text("ntk")).fault_of_reading(),
      HasSubstr("llama.rope.scaling.type ntk is not supported"));
  EXPECT_THAT(written(rope(RopeScaling::dynamic, 4)).fault,
              HasSubstr("no rotary scaling of dynam"));
}

TEST(RopeMetadata, TheOlderKeyOfALinearScaling) {
  File file = written(rope(RopeScaling::none, 1));
  file.set("llama.rope.scale_linear", gguf::Value::f32(4));
  EXPECT_EQ(file.read(), rope(RopeScaling::linear, 4));
  file.set("llama.rope.scaling.type", gguf::Value::text("none"));
  EXPECT_EQ(file.read(), rope(RopeScaling::none, 1));
}

}  // namespace
}  // namespace megalith::gguf_models
