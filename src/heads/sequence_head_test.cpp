// SPDX-License-Identifier: Apache-2.0
// Heads of sequences: gradients against finite differences in double precision, losses worked out
// here, what weighs nothing, and what a description cannot be.
#include "heads/sequence_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "testing/gradient_check.h"
#include "testing/layer_case.h"

namespace megalith::layers {
namespace {

using megalith::testing::dot;
using megalith::testing::gradient_faults;
using megalith::testing::LayerCase;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kH = 16;

HeadSpec sequence_spec(HeadKind kind, Pooling pooling, HeadDense dense) {
  return {.kind = kind, .tied = false, .pooling = pooling, .dense = dense, .outputs = 3};
}

/// Samples of one or two documents, with room for a sequence a token.
engine::Settings sequence_case(const HeadSpec& spec) {
  engine::Settings settings = megalith::testing::tiny_f64_settings();
  settings.model.head = spec;
  return settings;
}

constexpr int64_t kSamples = 4;

HeadConfig config_of(const HeadSpec& spec) { return {spec, {}, kH, {20, 128, kH}}; }

/// scale * sum over sequences of weight * loss.
double weighted_losses(LayerCase& c, Context& context, const Head& head, ConstView x) {
  const int64_t units = c.batch().loss_weight_T.size(0);
  const auto loss = c.tensor(Shape{units});
  head.forward(context, c.batch(), x, loss);
  double sum = 0;
  for (int64_t u = 0; u < units; ++u) {
    sum += static_cast<double>(c.batch().loss_weight_T.as<float>()[u]) * loss.view.as<double>()[u];
  }
  return static_cast<double>(c.batch().loss_scale) * sum;
}

void check_gradients(const HeadSpec& spec) {
  SCOPED_TRACE(fmt::format("{} {} {}", settings::name_of(spec.kind),
                           settings::name_of(spec.pooling), settings::name_of(spec.dense)));
  LayerCase c(sequence_case(spec), kSamples);
  const auto head = make_head(c.parameters(), config_of(spec), c.partition());
  c.place();
  Context context = c.context();
  const Batch& batch = c.batch();
  const int64_t units = batch.loss_weight_T.size(0), sequences = std::ssize(batch.cu_seqlens) - 1;
  ASSERT_GT(units, sequences);  // there is room to spare
  const Shape shape{c.tokens(), kH};
  const auto x = c.random(shape, "x"), dx = c.tensor(shape), loss = c.tensor(Shape{units}),
             alone = c.tensor(Shape{units});
  head->forward_backward(context, batch, x, 0, loss, dx);
  head->forward(context, batch, x, alone);
  for (int64_t u = 0; u < sequences; ++u)
    EXPECT_EQ(loss.view.as<double>()[u], alone.view.as<double>()[u]) << u;
  const auto value = [&] { return weighted_losses(c, context, *head, x); };
  EXPECT_THAT(gradient_faults("x", x, dx, value, {.elements = 12}), IsEmpty());
  EXPECT_THAT(c.parameter_faults(value), IsEmpty());
  // A row that is not read sends nothing back, nor does a sequence of weight 0.
  for (int64_t u = 0; u < sequences; ++u) {
    const int32_t begin = batch.cu_seqlens[static_cast<size_t>(u)],
                  end = batch.cu_seqlens[static_cast<size_t>(u) + 1];
    for (int32_t t = begin; t < end; ++t) {
      const bool is_read =
          spec.pooling == Pooling::mean || t == (spec.pooling == Pooling::first ? begin : end - 1);
      const bool counts = batch.loss_weight_T.as<float>()[u] != 0;
      EXPECT_EQ(dot(dx.view.rows(t, 1), dx.view.rows(t, 1)) != 0, is_read && counts) << t;
    }
  }
}

TEST(SequenceHead, GradientsOfEveryKind) {
  for (const auto kind : {HeadKind::sequence_classification, HeadKind::sequence_regression}) {
    for (const auto pooling : {Pooling::first, Pooling::last, Pooling::mean}) {
      for (const auto dense : {HeadDense::none, HeadDense::linear, HeadDense::tanh})
        check_gradients(sequence_spec(kind, pooling, dense));
    }
  }
}

TEST(SequenceHead, GradientsThroughATransform) {
  for (const auto pooling : {Pooling::first, Pooling::mean}) {
    HeadSpec spec = sequence_spec(HeadKind::sequence_classification, pooling, HeadDense::none);
    spec.transform = TransformSpec{.bias = pooling == Pooling::mean, .norm = {.eps = 1e-3}};
    check_gradients(spec);
  }
}

TEST(SequenceHead, GradientsOfClassesOfTokens) {
  for (const auto dense : {HeadDense::none, HeadDense::tanh}) {
    for (const bool norm : {true, false}) {
      HeadSpec spec = sequence_spec(HeadKind::token_classification, Pooling::last, dense);
      spec.norm = norm;
      spec.outputs = 20;  // the toy data's targets are ids of this many
      LayerCase c(sequence_case(spec), kSamples);
      const auto head = make_head(c.parameters(), config_of(spec), c.partition());
      c.place();
      Context context = c.context();
      const Shape shape{c.tokens(), kH};
      const auto x = c.random(shape, "x"), dx = c.tensor(shape), loss = c.tensor(Shape{c.tokens()});
      head->forward_backward(context, c.batch(), x, 0, loss, dx);
      const auto value = [&] { return weighted_losses(c, context, *head, x); };
      EXPECT_THAT(gradient_faults("x", x, dx, value, {.elements = 12}), IsEmpty());
      EXPECT_THAT(c.parameter_faults(value), IsEmpty());
    }
  }
}

TEST(SequenceHead, GradientsOfSpans) {
  HeadSpec plain = sequence_spec(HeadKind::question_answering, Pooling::last, HeadDense::none);
  plain.outputs = 2;
  HeadSpec through_dense = plain, through_transform = plain;
  through_dense.dense = HeadDense::tanh;
  through_transform.transform = TransformSpec{.norm = {.eps = 1e-3}};
  for (const HeadSpec& spec : {plain, through_dense, through_transform}) {
    LayerCase c(sequence_case(spec), kSamples);
    const auto head = make_head(c.parameters(), config_of(spec), c.partition());
    c.place();
    Context context = c.context();
    const Batch& batch = c.batch();
    const int64_t units = batch.loss_weight_T.size(0);
    const Shape shape{c.tokens(), kH};
    const auto x = c.random(shape, "x"), dx = c.tensor(shape), loss = c.tensor(Shape{units}),
               y = c.tensor(Shape{c.tokens(), 2});
    head->forward_backward(context, batch, x, 0, loss, dx);
    const auto value = [&] { return weighted_losses(c, context, *head, x); };
    EXPECT_THAT(gradient_faults("x", x, dx, value, {.elements = 12}), IsEmpty());
    // What is added to all outputs of a column alike changes no softmax over rows.
    for (const std::string& fault : c.parameter_faults(value))
      EXPECT_THAT(fault, EndsWith("bias: no element moves the value"));
    // The mean of two softmaxes over the rows of the sequence.
    head->outputs(context, batch, x, y);
    for (int64_t u = 0; u + 1 < std::ssize(batch.cu_seqlens); ++u) {
      if (batch.loss_weight_T.as<float>()[u] == 0) continue;
      const int64_t begin = batch.cu_seqlens[static_cast<size_t>(u)],
                    end = batch.cu_seqlens[static_cast<size_t>(u) + 1];
      double expected = 0;
      for (int64_t o = 0; o < 2; ++o) {
        double exps = 0;
        for (int64_t t = begin; t < end; ++t) exps += std::exp(y.view.row<double>(t)[o]);
        const int64_t target = begin + batch.targets_T.row<int32_t>(u)[o];
        expected += (std::log(exps) - y.view.row<double>(target)[o]) / 2;
      }
      EXPECT_NEAR(loss.view.as<double>()[u], expected, 1e-12) << u;
    }
  }
}

TEST(SequenceHead, WithoutOutputsItGivesRows) {
  const HeadSpec spec{.kind = HeadKind::none, .tied = false};
  LayerCase c(megalith::testing::tiny_f64_settings());
  const auto head = make_head(c.parameters(), config_of(spec), c.partition());
  c.place();
  Context context = c.context();
  const Shape shape{c.tokens(), kH};
  const auto x = c.random(shape, "x"), y = c.tensor(shape);
  head->last_hidden(context, x, y);
  EXPECT_NE(dot(y, y), dot(x, x));
  EXPECT_THROW(head->forward(context, c.batch(), x, c.tensor(Shape{c.tokens()})), InternalError);
}

/// Without a norm's, pooling's or product's code: the outputs o = W norm(x_last) + b.
std::vector<double> outputs_of(LayerCase& c, ConstView x, int64_t row) {
  const auto value = [&](const char* name, int64_t i) {
    return c.parameters().find(name)->master().as<double>()[i];
  };
  double mean = 0, square = 0;
  for (int64_t h = 0; h < kH; ++h) mean += x.row<double>(row)[h] / kH;
  for (int64_t h = 0; h < kH; ++h) {
    const double from_mean = x.row<double>(row)[h] - mean;
    square += from_mean * from_mean / kH;
  }
  std::vector<double> outputs;
  for (int64_t o = 0; o < 3; ++o) {
    double sum = value("head.output.bias", o);
    for (int64_t h = 0; h < kH; ++h) {
      const double normed = (x.row<double>(row)[h] - mean) / std::sqrt(square + NormSpec().eps);
      sum += value("head.output.weight", o * kH + h) *
             (normed * value("final_norm.weight", h) + value("final_norm.bias", h));
    }
    outputs.push_back(sum);
  }
  return outputs;
}

TEST(SequenceHead, LossesAreThoseOfTheFormula) {
  for (const auto kind : {HeadKind::sequence_classification, HeadKind::sequence_regression}) {
    const HeadSpec spec = sequence_spec(kind, Pooling::last, HeadDense::none);
    LayerCase c(sequence_case(spec), kSamples);
    const auto head = make_head(c.parameters(), config_of(spec), c.partition());
    c.place();
    Context context = c.context();
    const Batch& batch = c.batch();
    const auto x = c.random(Shape{c.tokens(), kH}, "x"),
               loss = c.tensor(Shape{batch.loss_weight_T.size(0)});
    head->forward(context, batch, x, loss);
    for (int64_t u = 0; u + 1 < std::ssize(batch.cu_seqlens); ++u) {
      const auto outputs = outputs_of(c, x, batch.cu_seqlens[static_cast<size_t>(u) + 1] - 1);
      double expected = 0;
      if (kind == HeadKind::sequence_regression) {
        for (size_t o = 0; o < 3; ++o) {
          const double target = static_cast<double>(batch.targets_T.row<float>(u)[o]);
          expected += (outputs[o] - target) * (outputs[o] - target) / 3;
        }
      } else {
        double exps = 0;
        for (const double o : outputs) exps += std::exp(o);
        expected = std::log(exps) - outputs[static_cast<size_t>(batch.targets_T.as<int32_t>()[u])];
      }
      // Sums of 16 terms of size 10 at most, in double.
      EXPECT_NEAR(loss.view.as<double>()[u], expected, 1e-12) << settings::name_of(kind) << u;
    }
  }
}

TEST(SequenceHead, AskedForWhatItIsNot) {
  const HeadSpec spec =
      sequence_spec(HeadKind::sequence_regression, Pooling::mean, HeadDense::tanh);
  EXPECT_NO_THROW(require_logits({}, "scoring"));
  try {
    require_logits(spec, "scoring");
    ADD_FAILURE() << "a head of sequences scores";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("scoring needs a model whose head gives logits"));
    EXPECT_THAT(error.what(), HasSubstr("sequence_regression"));
  }
  LayerCase c(sequence_case(spec));
  const auto head = make_head(c.parameters(), config_of(spec), c.partition());
  Context context = c.context();
  EXPECT_THROW(head->logits(context, {}, {}), InternalError);
}

TEST(SequenceHead, EveryKindHasAHead) {
  for (size_t kind = 0; kind < settings::EnumNames<HeadKind>::names.size(); ++kind)
    EXPECT_EQ(head_type(static_cast<HeadKind>(kind)).kind, static_cast<HeadKind>(kind));
}

}  // namespace
}  // namespace megalith::layers
