// SPDX-License-Identifier: Apache-2.0
// Gradients of virtual tokens against finite differences in double precision, their rows against
// the formula.
#include "prompts/prompt_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "embeddings/embedding.h"
#include "testing/gradient_check.h"
#include "testing/layer_case.h"

namespace megalith::prompts {
namespace {

using layers::Context;
using layers::Embedding;
using layers::EmbeddingSpec;
using megalith::testing::dot;
using megalith::testing::LayerCase;
using megalith::testing::tiny_f64_settings;
using ::testing::IsEmpty;

constexpr int64_t kH = 16, kVocab = 12, kVirtual = 8;

/// Ids of the toy's batches go to 20: those from kVocab on are virtual here.
Embedding embedding_of(LayerCase& c, const EmbeddingSpec& spec) {
  const layers::VirtualTokens tokens = table_of(kVirtual, DType::f64);
  layers::Partition partition = c.partition();
  partition.virtual_tokens = &tokens;
  const int64_t width = spec.width != 0 ? spec.width : kH;
  return {c.parameters(), {spec, {kVocab, kVocab, width, 0.02, false}, kH, 8}, partition};
}

/// The toy's batch as it comes, and all weights train.
struct TableCase : LayerCase {
  TableCase() : LayerCase(tiny_f64_settings()) {}
};

TEST(PromptTable, GradientsAreFiniteDifferences) {
  const layers::NormSpec norm{.eps = 1e-3};
  const EmbeddingSpec kinds[] = {
      {.scale = 1.5},
      {.position = layers::PositionKind::none, .norm = norm},
      {.position_offset = 2, .scale = 0.5, .norm = norm, .width = 6},
      {.position = layers::PositionKind::sinusoidal, .scale = 1.5},
  };
  for (const EmbeddingSpec& spec : kinds) {
    TableCase c;
    const Embedding layer = embedding_of(c, spec);
    c.place();
    Context context = c.context();
    const auto y = c.tensor(Shape{c.tokens(), kH}), dy = c.random(y.view.shape(), "dy");
    const auto used_up = c.random(y.view.shape(), "dy");
    layers::EmbeddingSaved saved;
    layer.forward(context, c.batch(), y, &saved);
    layer.backward(context, c.batch(), used_up, saved);
    EXPECT_THAT(c.parameter_faults([&] {
      layer.forward(context, c.batch(), y, nullptr);
      return dot(y, dy);
    }),
                IsEmpty());
  }
}

/// Behind the scale, as transformers has it of rows that are given.
TEST(PromptTable, RowsStandWhereTheVocabularyEnds) {
  TableCase c;
  const Embedding layer = embedding_of(c, {.position_offset = 0, .scale = 1.5});
  c.place();
  Context context = c.context();
  context.dropout = 0;
  const auto y = c.tensor(Shape{c.tokens(), kH});
  layer.forward(context, c.batch(), y, nullptr);
  const auto row = [&](const char* name, int64_t number) {
    return c.parameters().find(name)->master().row<double>(number);
  };
  int64_t of_table = 0;
  for (int64_t t = 0; t < c.tokens(); ++t) {
    const int32_t id = c.batch().ids_T.as<int32_t>()[t];
    const double* const token =
        id < kVocab ? row("embedding.weight", id) : row("prompt.weight", id - kVocab);
    of_table += id >= kVocab ? 1 : 0;
    for (int64_t i = 0; i < kH; ++i) {
      const double position = row("position.weight", c.batch().position_T.as<int32_t>()[t])[i];
      EXPECT_DOUBLE_EQ(y.view.row<double>(t)[i], (id < kVocab ? 1.5 : 1) * token[i] + position)
          << t << " " << i;
    }
  }
  EXPECT_GT(of_table, 3);
  EXPECT_LT(of_table, c.tokens());
}

/// It begins as scaled rows of the token table do, in the masters' type beside weights of any.
TEST(PromptTable, IsDeclaredWhole) {
  TableCase c;
  const Embedding layer = embedding_of(c, {.scale = 1.5});
  const parameters::Declaration& declared = c.parameters().find("prompt.weight")->declaration();
  EXPECT_EQ(declared.shape, (Shape{kVirtual, kH}));
  EXPECT_TRUE(declared.shard.is_whole(declared.shape));
  EXPECT_TRUE(declared.is_added);
  EXPECT_EQ(declared.init.kind, parameters::Init::Kind::normal);
  EXPECT_EQ(declared.init.std, 0.02 * 1.5);
  EXPECT_EQ(declared.format, plain_format(DType::f64));
}

}  // namespace
}  // namespace megalith::prompts
