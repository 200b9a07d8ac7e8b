// SPDX-License-Identifier: Apache-2.0
// The map between GPT-2's tensors and ours against its definition, element by element, and there
// and back bit for bit.
#include "models/gpt2_names.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "models/decoder.h"

namespace megalith::models {
namespace {

/// Sides no multiple of the tile, all different.
Architecture small() {
  Architecture a;
  a.layers = 2;
  a.hidden = 36;
  a.heads = a.kv_heads = 3;
  a.ffn = 70;
  a.context = 17;
  a.vocab = 131;
  return a;
}

std::vector<uint32_t> counting(const Shape& shape) {
  std::vector<uint32_t> values(static_cast<size_t>(shape.num_elements()));
  std::iota(values.begin(), values.end(), 1U);
  return values;
}

const Gpt2Tensor& named(const std::vector<Gpt2Tensor>& tensors, const std::string& name) {
  for (const Gpt2Tensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::out_of_range(name);
}

std::vector<uint32_t> ours_of(const Gpt2Tensor& tensor, const std::vector<uint32_t>& theirs) {
  std::vector<uint32_t> ours(static_cast<size_t>(tensor.shape.num_elements()), 0xdeadbeef);
  gpt2_to_ours(tensor, 4, theirs.data(), ours.data());
  return ours;
}

TEST(Gpt2Names, are_the_parameters_that_a_decoder_declares) {
  for (const bool tied : {true, false}) {
    Architecture a = small();
    a.tied = tied;
    parameters::ParameterSet set;
    const Decoder decoder(a, set, Stage::whole(a), layers::Partition{1, 1, 0, 1});
    const std::vector<Gpt2Tensor> tensors = gpt2_tensors(a);
    EXPECT_EQ(tensors.size(), set.all().size());
    int64_t elements = 0;
    for (const Gpt2Tensor& tensor : tensors) {
      const parameters::Parameter* parameter = set.find(tensor.name);
      ASSERT_NE(parameter, nullptr) << tensor.name;
      EXPECT_EQ(parameter->shape(), tensor.shape) << tensor.name;
      elements += tensor.foreign_shape.num_elements();
    }
    EXPECT_EQ(elements, a.num_parameters());
  }
}

TEST(Gpt2Names, fused_rows_go_head_by_head) {
  const Architecture a = small();
  const auto tensors = gpt2_tensors(a);
  const Gpt2Tensor& weight = named(tensors, "layers.1.attention.qkv.weight");
  const Gpt2Tensor& bias = named(tensors, "layers.1.attention.qkv.bias");
  EXPECT_EQ(weight.foreign_name, "transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(weight.foreign_shape, (Shape{36, 108}));
  const auto theirs = counting(weight.foreign_shape), ours = ours_of(weight, theirs);
  const auto their_bias = counting(bias.foreign_shape), our_bias = ours_of(bias, their_bias);
  for (int64_t part = 0; part < 3; ++part) {  // q, k, v
    for (int64_t head = 0; head < 3; ++head) {
      for (int64_t d = 0; d < 12; ++d) {
        const int64_t row = (head * 3 + part) * 12 + d;
        const int64_t column = part * 36 + head * 12 + d;
        EXPECT_EQ(our_bias[row], their_bias[column]);
        for (int64_t in = 0; in < 36; ++in) {
          EXPECT_EQ(ours[row * 36 + in], theirs[in * 108 + column]);
        }
      }
    }
  }
}

TEST(Gpt2Names, projections_are_transposed) {
  const auto tensors = gpt2_tensors(small());
  const Gpt2Tensor& up = named(tensors, "layers.0.mlp.up.weight");
  EXPECT_EQ(up.foreign_name, "transformer.h.0.mlp.c_fc.weight");
  EXPECT_EQ(up.shape, (Shape{70, 36}));
  EXPECT_EQ(up.foreign_shape, (Shape{36, 70}));
  const auto theirs = counting(up.foreign_shape), ours = ours_of(up, theirs);
  for (int64_t out = 0; out < 70; ++out) {
    for (int64_t in = 0; in < 36; ++in) EXPECT_EQ(ours[out * 36 + in], theirs[in * 70 + out]);
  }
}

TEST(Gpt2Names, the_vocabulary_is_padded_with_zeros) {
  const auto tensors = gpt2_tensors(small());
  const Gpt2Tensor& embedding = named(tensors, "embedding.weight");
  EXPECT_EQ(embedding.shape, (Shape{256, 36}));
  EXPECT_EQ(embedding.foreign_shape, (Shape{131, 36}));
  const auto theirs = counting(embedding.foreign_shape), ours = ours_of(embedding, theirs);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i], i < theirs.size() ? theirs[i] : 0U);
  }
}

template <typename Word>
void expect_round_trip(const Gpt2Tensor& tensor) {
  std::vector<Word> theirs(static_cast<size_t>(tensor.foreign_shape.num_elements()));
  for (size_t i = 0; i < theirs.size(); ++i) theirs[i] = static_cast<Word>(i * 2654435761U + 1);
  std::vector<Word> ours(static_cast<size_t>(tensor.shape.num_elements()));
  std::vector<Word> back(theirs.size());
  gpt2_to_ours(tensor, sizeof(Word), theirs.data(), ours.data());
  gpt2_from_ours(tensor, sizeof(Word), ours.data(), back.data());
  EXPECT_EQ(back, theirs) << tensor.name;
}

TEST(Gpt2Names, there_and_back_is_the_same_bits) {
  Architecture a = small();
  a.tied = false;
  for (const Gpt2Tensor& tensor : gpt2_tensors(a)) {
    expect_round_trip<uint8_t>(tensor);
    expect_round_trip<uint16_t>(tensor);
    expect_round_trip<uint32_t>(tensor);
    expect_round_trip<uint64_t>(tensor);
  }
}

TEST(Gpt2Names, buffers_of_old_files_are_known) {
  EXPECT_TRUE(is_gpt2_buffer("h.0.attn.bias"));
  EXPECT_TRUE(is_gpt2_buffer("transformer.h.11.attn.masked_bias"));
  EXPECT_FALSE(is_gpt2_buffer("h.attn.bias"));
  EXPECT_FALSE(is_gpt2_buffer("h.0.attn.c_attn.bias"));
  EXPECT_FALSE(is_gpt2_buffer("h.0"));
  EXPECT_FALSE(is_gpt2_buffer(""));
}

TEST(Gpt2Names, what_the_format_cannot_express_is_refused) {
  Architecture a = small();
  a.kv_heads = 1;
  EXPECT_THROW(gpt2_tensors(a), UserError);
  a = small();
  a.mlp = MlpKind::swiglu;
  EXPECT_THROW(gpt2_tensors(a), UserError);
}

}  // namespace
}  // namespace megalith::models
