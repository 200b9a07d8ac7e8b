// SPDX-License-Identifier: Apache-2.0
// Foreign tensors and ours: each row where the definition says, there and back bit for bit, every
// parameter of a model covered once.
#include "models/foreign_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/error.h"
#include "families/families.h"

namespace megalith::models {
namespace {

/// Sides no multiple of the tile, all different.
ModelSpec small_gpt2() {
  return gpt2({.layers = 2, .hidden = 36, .heads = 3, .ffn = 70, .context = 17, .vocab = 131});
}
/// Heads wider than hidden / heads, in groups of two.
ModelSpec small_llama() {
  return llama({.layers = 2,
                .hidden = 20,
                .heads = 4,
                .kv_heads = 2,
                .head_dim = 6,
                .ffn = 7,
                .context = 16,
                .vocab = 131});
}

/// The same sizes in every other family; heads of 12 where there are no groups.
std::vector<ModelSpec> small_models() {
  std::vector<ModelSpec> models = {small_gpt2(), small_llama()};
  for (const Family* family : families()) {
    if (family == &kGpt2 || family == &kLlama) continue;
    const bool grouped = family != &kGptNeox;
    models.push_back(family->make({.layers = 2,
                                   .hidden = 36,
                                   .heads = grouped ? 4 : 3,
                                   .kv_heads = grouped ? 2 : 3,
                                   .head_dim = grouped ? 6 : 12,
                                   .ffn = 7,
                                   .context = 16,
                                   .vocab = 131},
                                  "test"));
  }
  return models;
}

std::vector<uint32_t> counting(const Shape& shape, uint32_t from = 1) {
  std::vector<uint32_t> values(static_cast<size_t>(shape.num_elements()));
  std::iota(values.begin(), values.end(), from);
  return values;
}

TensorMap named(const ModelSpec& model, const std::string& name) {
  for (TensorMap& map : tensor_maps(model, family_named(model.family, "test").tensors)) {
    if (map.name == name) return map;
  }
  throw std::out_of_range(name);
}

/// Foreign tensors by name: the numbers from 1, those of the next tensor going on.
std::map<std::string, std::vector<uint32_t>> foreign_of(const TensorMap& map) {
  std::map<std::string, std::vector<uint32_t>> foreign;
  uint32_t from = 1;
  for (const RowMove& move : map.moves) {
    if (foreign.contains(move.name)) continue;
    foreign[move.name] = counting(move.shape, from);
    from += static_cast<uint32_t>(move.shape.num_elements());
  }
  return foreign;
}

std::vector<uint32_t> ours_of(const TensorMap& map) {
  std::vector<uint32_t> ours(static_cast<size_t>(map.shape.num_elements()));
  const auto foreign = foreign_of(map);
  for (const RowMove& move : map.moves)
    to_ours(map, move, 4, foreign.at(move.name).data(), ours.data());
  return ours;
}

TEST(ForeignMap, CoversEveryParameterOnce) {
  for (ModelSpec model : small_models()) {
    for (const bool tied : {true, false}) {
      model.head.tied = tied;
      const auto declared = declared_tensors(model);
      const auto maps = tensor_maps(model, family_named(model.family, "test").tensors);
      ASSERT_EQ(maps.size(), declared.size());
      int64_t elements = 0;
      for (size_t i = 0; i < maps.size(); ++i) {
        EXPECT_EQ(maps[i].name, declared[i].name);
        EXPECT_EQ(maps[i].shape, declared[i].shape);
        for (const auto& [name, values] : foreign_of(maps[i]))
          elements += static_cast<int64_t>(values.size());
      }
      EXPECT_EQ(elements, model.num_parameters());
    }
  }
}

TEST(ForeignMap, FusedRowsGoHeadByHead) {
  const TensorMap weight = named(small_gpt2(), "layers.1.attention.qkv.weight");
  const TensorMap bias = named(small_gpt2(), "layers.1.attention.qkv.bias");
  ASSERT_EQ(weight.moves.size(), 3);
  EXPECT_EQ(weight.moves[0].name, "transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(weight.moves[0].shape, (Shape{36, 108}));
  const auto theirs = counting(Shape{36, 108}), ours = ours_of(weight);
  const auto their_bias = counting(Shape{108}), our_bias = ours_of(bias);
  for (int64_t part = 0; part < 3; ++part) {  // q, k, v
    for (int64_t head = 0; head < 3; ++head) {
      for (int64_t d = 0; d < 12; ++d) {
        const auto row = static_cast<size_t>((head * 3 + part) * 12 + d);
        const auto column = static_cast<size_t>(part * 36 + head * 12 + d);
        EXPECT_EQ(our_bias[row], their_bias[column]);
        for (size_t in = 0; in < 36; ++in)
          EXPECT_EQ(ours[row * 36 + in], theirs[in * 108 + column]);
      }
    }
  }
}

TEST(ForeignMap, ThreeTensorsMakeOneGroupByGroup) {
  const TensorMap map = named(small_llama(), "layers.1.attention.qkv.weight");
  const auto ours = ours_of(map);
  const auto foreign = foreign_of(map);
  const auto& q = foreign.at("model.layers.1.self_attn.q_proj.weight");
  const auto& k = foreign.at("model.layers.1.self_attn.k_proj.weight");
  const auto& v = foreign.at("model.layers.1.self_attn.v_proj.weight");
  EXPECT_EQ(q.size(), 24 * 20);
  EXPECT_EQ(k.size(), 12 * 20);
  std::vector<uint32_t> expected;
  const auto append = [&](const std::vector<uint32_t>& from, size_t row, size_t rows) {
    expected.insert(expected.end(), from.begin() + static_cast<std::ptrdiff_t>(row * 20),
                    from.begin() + static_cast<std::ptrdiff_t>((row + rows) * 20));
  };
  for (const size_t group : {0U, 1U}) {
    append(q, group * 12, 12);
    append(k, group * 6, 6);
    append(v, group * 6, 6);
  }
  EXPECT_EQ(ours, expected);
}

TEST(ForeignMap, GateAndUpAlternate) {
  const TensorMap map = named(small_llama(), "layers.0.mlp.gate_up.weight");
  const auto ours = ours_of(map);
  const auto foreign = foreign_of(map);
  const auto& gate = foreign.at("model.layers.0.mlp.gate_proj.weight");
  const auto& up = foreign.at("model.layers.0.mlp.up_proj.weight");
  for (size_t row = 0; row < 7; ++row) {
    for (size_t column = 0; column < 20; ++column) {
      EXPECT_EQ(ours[2 * row * 20 + column], gate[row * 20 + column]);
      EXPECT_EQ(ours[(2 * row + 1) * 20 + column], up[row * 20 + column]);
    }
  }
}

TEST(ForeignMap, TheSecondHalfOfACrammedMlpIsTheGate) {
  const ModelSpec model = kCrammed.make({.layers = 1, .hidden = 12, .heads = 2, .ffn = 7}, "test");
  const auto ours = ours_of(named(model, "layers.0.mlp.gate_up.weight"));
  const auto theirs = counting(Shape{14, 12});
  for (size_t row = 0; row < 7; ++row) {
    for (size_t column = 0; column < 12; ++column) {
      EXPECT_EQ(ours[2 * row * 12 + column], theirs[(7 + row) * 12 + column]);
      EXPECT_EQ(ours[(2 * row + 1) * 12 + column], theirs[row * 12 + column]);
    }
  }
}

TEST(ForeignMap, ProjectionsOfGpt2AreTransposed) {
  const TensorMap up = named(small_gpt2(), "layers.0.mlp.up.weight");
  EXPECT_EQ(up.moves[0].name, "transformer.h.0.mlp.c_fc.weight");
  EXPECT_EQ(up.shape, (Shape{70, 36}));
  EXPECT_EQ(up.moves[0].shape, (Shape{36, 70}));
  const auto theirs = counting(Shape{36, 70}), ours = ours_of(up);
  for (size_t out = 0; out < 70; ++out) {
    for (size_t in = 0; in < 36; ++in) EXPECT_EQ(ours[out * 36 + in], theirs[in * 70 + out]);
  }
}

TEST(ForeignMap, TheVocabularyIsPaddedWithZeros) {
  for (const ModelSpec& model : {small_gpt2(), small_llama()}) {
    const TensorMap embedding = named(model, "embedding.weight");
    EXPECT_EQ(embedding.shape, (Shape{256, model.hidden}));
    EXPECT_EQ(embedding.moves[0].shape, (Shape{131, model.hidden}));
    const auto theirs = counting(embedding.moves[0].shape), ours = ours_of(embedding);
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i], i < theirs.size() ? theirs[i] : 0U);
    }
  }
}

ModelSpec small_of(const Family& family) {
  for (ModelSpec& model : small_models()) {
    if (model.family == family.name) return std::move(model);
  }
  throw std::out_of_range(std::string(family.name));
}

// One foreign tensor holds all queries, then all keys, then all values; ours go group by group.
TEST(ForeignMap, Phi3HasItsProjectionsInOneTensorPartByPart) {
  const TensorMap map = named(small_of(kPhi3), "layers.1.attention.qkv.weight");
  EXPECT_EQ(map.moves.size(), 3);
  EXPECT_EQ(map.moves[2].name, "model.layers.1.self_attn.qkv_proj.weight");
  EXPECT_EQ(map.moves[2].shape, (Shape{48, 36}));
  const auto ours = ours_of(map), theirs = counting(Shape{48, 36});
  size_t row = 0;
  for (const size_t group : {0U, 1U}) {
    for (const auto& [first, rows] :
         {std::pair{group * 12, 12U}, std::pair{24 + group * 6, 6U}, std::pair{36 + group * 6, 6U}})
      for (size_t i = 0; i < rows; ++i, ++row) EXPECT_EQ(ours[row * 36], theirs[(first + i) * 36]);
  }
  const TensorMap mlp = named(small_of(kPhi3), "layers.0.mlp.gate_up.weight");
  EXPECT_EQ(mlp.moves[1].shape, (Shape{14, 36}));
  const auto gate_up = ours_of(mlp), theirs_mlp = counting(Shape{14, 36});
  for (size_t j = 0; j < 7; ++j) {
    EXPECT_EQ(gate_up[2 * j * 36], theirs_mlp[j * 36]);
    EXPECT_EQ(gate_up[(2 * j + 1) * 36], theirs_mlp[(7 + j) * 36]);
  }
}

TEST(ForeignMap, GptNeoxHasOurRows) {
  const TensorMap map = named(small_of(kGptNeox), "layers.1.attention.qkv.weight");
  EXPECT_EQ(map.moves[0].name, "gpt_neox.layers.1.attention.query_key_value.weight");
  EXPECT_EQ(ours_of(map), counting(Shape{108, 36}));
}

TEST(ForeignMap, AFileMayHaveOtherNames) {
  using ::testing::ElementsAre;
  EXPECT_THAT(file_names(kGptNeox.tensors, "embed_out.weight"),
              ElementsAre("embed_out.weight", "lm_head.weight"));
  EXPECT_THAT(file_names(kLlama.tensors, "model.norm.weight"),
              ElementsAre("model.norm.weight", "norm.weight"));
  EXPECT_EQ(head_name(kGptNeox.tensors), "embed_out.weight");
  for (const Family* family : families()) EXPECT_FALSE(head_name(family->tensors).empty());
}

template <typename Word>
void expect_round_trip(const TensorMap& map) {
  std::map<std::string, std::vector<Word>> theirs, back;
  std::vector<Word> ours(static_cast<size_t>(map.shape.num_elements()));
  for (const RowMove& move : map.moves) {
    auto& values = theirs[move.name];
    values.resize(static_cast<size_t>(move.shape.num_elements()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<Word>((i + theirs.size()) * 2654435761U + 1);
    back[move.name].resize(values.size());
  }
  for (const RowMove& move : map.moves)
    to_ours(map, move, sizeof(Word), theirs[move.name].data(), ours.data());
  for (const RowMove& move : map.moves)
    from_ours(map, move, sizeof(Word), ours.data(), back[move.name].data());
  EXPECT_EQ(back, theirs) << map.name;
}

TEST(ForeignMap, ThereAndBackIsTheSameBits) {
  for (ModelSpec model : small_models()) {
    model.head.tied = false;
    for (const TensorMap& map : tensor_maps(model, family_named(model.family, "t").tensors)) {
      expect_round_trip<uint8_t>(map);
      expect_round_trip<uint16_t>(map);
      expect_round_trip<uint32_t>(map);
      expect_round_trip<uint64_t>(map);
    }
  }
}

TEST(ForeignMap, BuffersOfOldFilesAreKnown) {
  const ForeignTable& gpt2 = kGpt2.tensors;
  EXPECT_TRUE(is_buffer(gpt2, "h.0.attn.bias"));
  EXPECT_TRUE(is_buffer(gpt2, "transformer.h.11.attn.masked_bias"));
  EXPECT_FALSE(is_buffer(gpt2, "h.attn.bias"));
  EXPECT_FALSE(is_buffer(gpt2, "h..attn.bias"));
  EXPECT_FALSE(is_buffer(gpt2, "h.0.attn.c_attn.bias"));
  EXPECT_FALSE(is_buffer(gpt2, "h.0"));
  EXPECT_FALSE(is_buffer(gpt2, ""));
  EXPECT_TRUE(is_buffer(kLlama.tensors, "model.layers.3.self_attn.rotary_emb.inv_freq"));
}

TEST(ForeignMap, APluralOfBiasesHasItsTensors) {
  ModelSpec model = small_llama();
  model.for_each_layer([](layers::LayerSpec& layer) {
    layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias = true;
  });
  EXPECT_EQ(named(model, "layers.0.mlp.gate_up.bias").moves.size(), 2);
  EXPECT_EQ(named(model, "layers.0.attention.qkv.bias").moves.size(), 3);
}

TEST(ForeignMap, AParameterWithoutATensorIsNamed) {
  ModelSpec model = small_llama();
  model.embedding.position = layers::PositionKind::learned;
  try {
    tensor_maps(model, kLlama.tensors);
    ADD_FAILURE() << "taken";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("position.weight"));
  }
}

}  // namespace
}  // namespace megalith::models
