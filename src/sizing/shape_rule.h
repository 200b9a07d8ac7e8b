// SPDX-License-Identifier: Apache-2.0
// A shape for a budget, of any family that recipes have. The operations and parameters of a
// candidate are exact (model_flops.h, ModelSpec::num_parameters); among shapes that use up the
// budget the one wins whose depth fits its width best:
//   layers = (ln(hidden) - 5.039) / 0.0555            (Levine et al. 2020, section 5.1)
// Heads have 64 or, from a width of 1536 on, 128 elements; there are 4 k or, from a width of 2048
// on, 8 k of them, so that tensor ranks can share them; the number of layers is a multiple of 2
// from a width of 2048 on, of 4 from 4096, 8 from 8192, 16 from 16384, for pipelines.
#pragma once

#include <cstdint>
#include <string>

#include "config/recipe.h"
#include "sizing/model_flops.h"

namespace megalith::sizing {

struct Shape {
  int64_t layers = 0;  // of an encoder-decoder: of each stack
  int64_t hidden = 0;
  int64_t heads = 0;
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// What all candidates have in common.
struct Task {
  std::string family = "gpt2";
  int64_t vocab = 51200;
  int64_t sequence = 2048;
  layers::Recompute recompute = layers::Recompute::none;  // of which the GPU's rate counts the work
};

/// A shape with what it costs. Of an encoder-decoder tokens are the encoder's.
struct SizedModel {
  Shape shape;
  int64_t parameters = 0;
  double flops_per_token = 0;
};
SizedModel size_of(const Task& task, const Shape& shape);

/// The shape whose `cost` is at most `most`: of those that use 90 % of it the one whose depth fits
/// best (a part that is left unused counts twice against it), else the dearest. `layers` 0: none.
enum class Cost { parameters, flops_per_token };
SizedModel best_shape(const Task& task, Cost cost, double most);

/// Layers that fit a width.
double fitting_layers(double hidden);

/// "causal", "masked" or "spans": what models of a family are trained on. UserError for no family.
std::string objective_of(const std::string& family);

/// The model of a recipe as a line of YAML, for parse_recipe.
std::string model_yaml(const Task& task, const Shape& shape);

}  // namespace megalith::sizing
