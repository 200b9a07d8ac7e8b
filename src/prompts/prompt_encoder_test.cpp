// SPDX-License-Identifier: Apache-2.0
// Encoders of virtual tokens: gradients against finite differences in double precision, rows
// against the formulas, names and sizes against what is published.
#include "prompts/prompt_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "embeddings/embedding.h"
#include "kernels/elementwise/pointwise.h"
#include "prompts/prompt_table.h"
#include "testing/gradient_check.h"
#include "testing/layer_case.h"

namespace megalith::prompts {
namespace {

using config::PromptEncoderKind;
using layers::Context;
using layers::Embedding;
using megalith::testing::dot;
using megalith::testing::LayerCase;
using megalith::testing::tiny_f64_settings;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kH = 16, kVocab = 12, kVirtual = 8;

/// An embedding behind whose vocabulary (ids of the toy's batches go to 20) an encoder's rows are.
class EncoderCase : public LayerCase {
 public:
  explicit EncoderCase(const EncoderSpec& spec, int64_t count = kVirtual)
      : LayerCase(tiny_f64_settings()), tokens_(table_of(count, spec, DType::f64)) {
    layers::Partition cut = partition();
    cut.virtual_tokens = &tokens_;
    layer_.emplace(
        parameters(),
        layers::EmbeddingConfig{{.scale = 1.5}, {kVocab, kVocab, kH, 0.02, false}, kH, 8}, cut);
    place();
  }
  Embedding& layer() { return *layer_; }
  /// From values that were moved in place.
  void derive(Context& context) {
    for (parameters::Parameter& parameter : parameters().all()) parameter.mark_changed();
    parameters().derive(context.exec);
  }
  ConstView value(const std::string& name) { return parameters().find("prompt." + name)->master(); }

 private:
  layers::VirtualTokens tokens_;
  std::optional<Embedding> layer_;
};

const EncoderSpec kMlp{PromptEncoderKind::mlp, 6, 2}, kLstm{PromptEncoderKind::lstm, 5, 2},
    kOneLayer{PromptEncoderKind::lstm, 3, 1}, kTwoTasks{PromptEncoderKind::lstm, 5, 2, 2};

TEST(PromptEncoder, GradientsAreFiniteDifferences) {
  for (const EncoderSpec& spec : {kMlp, kLstm, kOneLayer, kTwoTasks}) {
    EncoderCase c(spec);
    Context context = c.context();
    const auto y = c.tensor(Shape{c.tokens(), kH}), dy = c.random(y.view.shape(), "dy");
    const auto used_up = c.random(y.view.shape(), "dy");
    layers::EmbeddingSaved saved;
    c.derive(context);
    c.layer().forward(context, c.batch(), y, &saved);
    c.layer().backward(context, c.batch(), used_up, saved);
    c.parameters().backward_derived(context.exec);
    EXPECT_THAT(c.parameter_faults([&] {
      c.derive(context);
      c.layer().forward(context, c.batch(), y, nullptr);
      return dot(y, dy);
    }),
                IsEmpty())
        << name_of(spec.kind) << " " << spec.layers << " " << spec.tasks;
  }
}

using Rows = std::vector<std::vector<double>>;

Rows rows_of(ConstView x) {
  Rows rows;
  for (int64_t i = 0; i < x.size(0); ++i)
    rows.emplace_back(x.row<double>(i), x.row<double>(i) + x.size(1));
  return rows;
}
/// x w^T + b of a row.
std::vector<double> affine(EncoderCase& c, const std::string& weight, const std::string& bias,
                           const std::vector<double>& x) {
  const ConstView w = c.value(weight), b = c.value(bias);
  std::vector<double> y;
  for (int64_t o = 0; o < w.size(0); ++o) {
    y.push_back(b.as<double>()[o]);
    for (size_t i = 0; i < x.size(); ++i) y.back() += w.row<double>(o)[i] * x[i];
  }
  return y;
}
Rows head(EncoderCase& c, Rows rows, int products) {
  for (std::vector<double>& row : rows) {
    for (int i = 0; i < products; ++i) {
      if (i > 0)
        for (double& value : row) value = std::max(value, 0.0);
      const std::string name = fmt::format("mlp_head.{}", 2 * i);
      row = affine(c, name + ".weight", name + ".bias", row);
    }
  }
  return rows;
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// One direction of a layer, as torch documents it.
Rows lstm(EncoderCase& c, const std::string& suffix, Rows x, bool reverse) {
  if (reverse) std::ranges::reverse(x);
  std::vector<double> h(static_cast<size_t>(c.value("lstm_head.weight_hh" + suffix).size(1)), 0.0);
  std::vector<double> cell = h;
  Rows out;
  for (const std::vector<double>& row : x) {
    const auto from_x =
        affine(c, "lstm_head.weight_ih" + suffix, "lstm_head.bias_ih" + suffix, row);
    const auto from_h = affine(c, "lstm_head.weight_hh" + suffix, "lstm_head.bias_hh" + suffix, h);
    const size_t width = h.size();
    const auto u = [&](size_t gate, size_t j) {
      return from_x[gate * width + j] + from_h[gate * width + j];
    };
    for (size_t j = 0; j < width; ++j) {
      cell[j] = sigmoid(u(1, j)) * cell[j] + sigmoid(u(0, j)) * std::tanh(u(2, j));
      h[j] = sigmoid(u(3, j)) * std::tanh(cell[j]);
    }
    out.push_back(h);
  }
  if (reverse) std::ranges::reverse(out);
  return out;
}

void expect_rows(EncoderCase& c, const Rows& expected) {
  Context context = c.context();
  c.derive(context);
  const Rows actual = rows_of(c.value("weight"));
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].size(), expected[i].size());
    for (size_t j = 0; j < actual[i].size(); ++j)
      EXPECT_NEAR(actual[i][j], expected[i][j], 1e-13) << i << " " << j;
  }
}

TEST(PromptEncoder, AnMlpIsThreeProducts) {
  EncoderCase c(kMlp);
  expect_rows(c, head(c, rows_of(c.value("embedding.weight")), 3));
}

/// Both layers of kLstm over these rows.
Rows both_ways(EncoderCase& c, Rows rows) {
  for (const std::string layer : {"_l0", "_l1"}) {
    Rows both = lstm(c, layer, rows, false);
    const Rows back = lstm(c, layer + "_reverse", rows, true);
    for (size_t i = 0; i < both.size(); ++i)
      both[i].insert(both[i].end(), back[i].begin(), back[i].end());
    rows = both;
  }
  return rows;
}

TEST(PromptEncoder, AnLstmReadsTheRowsBothWays) {
  for (const int64_t count : {kVirtual, int64_t{1}}) {
    EncoderCase c(kLstm, count);
    expect_rows(c, head(c, both_ways(c, rows_of(c.value("embedding.weight"))), 2));
  }
}

/// Of several tasks each has a sequence of its own, and the cells begin anew with each.
TEST(PromptEncoder, AnLstmReadsTheRowsOfEachTaskAlone) {
  EncoderCase c(kTwoTasks);
  const Rows all = rows_of(c.value("embedding.weight"));
  const auto border = all.begin() + kVirtual / 2;
  Rows made = both_ways(c, {all.begin(), border});
  const Rows others = both_ways(c, {border, all.end()});
  made.insert(made.end(), others.begin(), others.end());
  expect_rows(c, head(c, made, 2));
}

/// They share the encoder: a task more is rows more.
TEST(PromptEncoder, TasksShareIt) {
  for (const EncoderSpec& spec : {kMlp, kLstm}) {
    EncoderSpec three = spec;
    three.tasks = 3;
    EXPECT_EQ(trained_elements(3 * kVirtual, kH, three),
              trained_elements(kVirtual, kH, spec) + 2 * kVirtual * kH);
  }
}

/// A cell that has read one row has not read what it gave.
TEST(PromptEncoder, OfOneTokenNothingRecurs) {
  EncoderCase c(kLstm, 1);
  Context context = c.context();
  c.derive(context);
  for (const auto& parameter : c.parameters().all())
    if (parameter.name() == kTableName) kernels::fill(context.exec, parameter.gradient_sum(), 1);
  c.parameters().backward_derived(context.exec);
  const auto is_zero = [&](const std::string& name) {
    const View sum = c.parameters().find("prompt." + name)->gradient_sum();
    return std::ranges::all_of(std::span(sum.as<double>(), static_cast<size_t>(sum.num_elements())),
                               [](double value) { return value == 0; });
  };
  for (const std::string suffix : {"_l0", "_l0_reverse", "_l1", "_l1_reverse"}) {
    EXPECT_TRUE(is_zero("lstm_head.weight_hh" + suffix)) << suffix;
    EXPECT_FALSE(is_zero("lstm_head.bias_hh" + suffix)) << suffix;
    EXPECT_FALSE(is_zero("lstm_head.weight_ih" + suffix)) << suffix;
  }
}

std::vector<std::string> declared(const EncoderSpec& spec, bool trained) {
  parameters::ParameterSet set;
  table_of(kVirtual, spec, DType::f32).make(set, {.width = kH});
  std::vector<std::string> all;
  for (const parameters::Parameter& parameter : set.all()) {
    EXPECT_TRUE(parameter.declaration().is_added);
    EXPECT_TRUE(parameter.declaration().shard.is_whole(parameter.shape()));
    EXPECT_EQ(parameter.declaration().format, Format::f32);
    if (parameter.trainable() == trained)
      all.push_back(fmt::format("{} {}", parameter.name(), parameter.shape()));
  }
  return all;
}

TEST(PromptEncoder, IsDeclaredAsPeftNamesIt) {
  EXPECT_THAT(declared(kMlp, true),
              ElementsAre("prompt.embedding.weight [8, 16]", "prompt.mlp_head.0.weight [6, 16]",
                          "prompt.mlp_head.0.bias [6]", "prompt.mlp_head.2.weight [6, 6]",
                          "prompt.mlp_head.2.bias [6]", "prompt.mlp_head.4.weight [16, 6]",
                          "prompt.mlp_head.4.bias [16]"));
  EXPECT_THAT(
      declared(kOneLayer, true),
      ElementsAre("prompt.embedding.weight [8, 16]", "prompt.lstm_head.weight_ih_l0 [12, 16]",
                  "prompt.lstm_head.bias_ih_l0 [12]", "prompt.lstm_head.weight_hh_l0 [12, 3]",
                  "prompt.lstm_head.bias_hh_l0 [12]",
                  "prompt.lstm_head.weight_ih_l0_reverse [12, 16]",
                  "prompt.lstm_head.bias_ih_l0_reverse [12]",
                  "prompt.lstm_head.weight_hh_l0_reverse [12, 3]",
                  "prompt.lstm_head.bias_hh_l0_reverse [12]", "prompt.mlp_head.0.weight [6, 6]",
                  "prompt.mlp_head.0.bias [6]", "prompt.mlp_head.2.weight [16, 6]",
                  "prompt.mlp_head.2.bias [16]"));
  for (const EncoderSpec& spec : {kMlp, kLstm})
    EXPECT_THAT(declared(spec, false), ElementsAre("prompt.weight [8, 16]"));
  const EncoderSpec table{PromptEncoderKind::embedding, 0, 2};
  EXPECT_THAT(declared(table, true), ElementsAre("prompt.weight [8, 16]"));
  EXPECT_THAT(declared(table, false), IsEmpty());
}

/// NeMo's documentation of prompt learning: for a GPT of 125M, whose rows have 768, the tables of
/// two tasks of 100 tokens have 153k numbers, an LSTM of 384 for 10 tokens 8.3M.
TEST(PromptEncoder, HasAsManyNumbersAsIsPublished) {
  EXPECT_EQ(2 * trained_elements(100, 768, {PromptEncoderKind::embedding, 0, 2}), 153'600);
  EXPECT_EQ(trained_elements(10, 768, {PromptEncoderKind::lstm, 384, 2}), 8'279'040);
}

}  // namespace
}  // namespace megalith::prompts
