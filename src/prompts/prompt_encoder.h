// SPDX-License-Identifier: Apache-2.0
// The encoder of p-tuning (Liu et al. 2021, GPT Understands, Too): virtual tokens whose rows are
// made of rows that train by a small network that trains too. It stands behind the table: the table
// is a parameter that follows from the encoder's (parameters/derivation.h), whatever reads it. The
// shapes, names and, in deviation, draws are those of PEFT's encoder:
//   embedding.weight   [P, E]; then
//   mlp    mlp_head     E -> hidden -> hidden -> E, ReLU between
//   lstm   lstm_head    `layers` bidirectional layers, of `hidden` a direction, over the P rows;
//          mlp_head     2 hidden -> 2 hidden -> E, ReLU between
// Several tasks share one encoder, and each has P rows of its own, one behind another's: an LSTM
// reads those of each alone, so what a task's rows become depends on no other's.
// P rows are read whatever the batch: the work is that of a step's data shards, and every tensor
// rank does all of it.
#pragma once

#include <optional>
#include <vector>

#include "config/tune_section.h"
#include "parameters/derivation.h"
#include "prompts/lstm_layer.h"
#include "prompts/mlp_head.h"

namespace megalith::prompts {

struct EncoderSpec {
  config::PromptEncoderKind kind = config::PromptEncoderKind::mlp;
  int64_t hidden = 0;
  int64_t layers = 2;  // of the LSTM
  int64_t tasks = 1;   // that the rows are of, as many of each
};

class PromptEncoder final : public parameters::Derivation {
 public:
  /// Declares the encoder's parameters, each as "prompt." and its name, and behind them the table
  /// "prompt.weight" [count, width], which follows from them; `dtype`: that of the masters. Tasks
  /// have equal parts of the rows. Not for `embedding`, which is a table that trains.
  PromptEncoder(parameters::ParameterSet& set, int64_t count, int64_t width,
                const EncoderSpec& spec, DType dtype);

  const parameters::Parameter& table() const { return *table_; }

  void forward(kernels::Exec& exec) const override;
  /// Makes again what forward made on the way: nothing is kept between the two.
  void backward(kernels::Exec& exec) const override;

 private:
  struct Saved {
    std::vector<LstmLayer::Saved> layers;  // of each layer, of each task
    std::vector<device::Tensor> rows_PO;   // of each layer
    MlpHead::Saved head;
  };
  /// What layer `number` reads; for the number of layers, what the head does.
  ConstView input_of(size_t number, const Saved& saved) const;
  void forward(kernels::Exec& exec, View y_PE, Saved& saved) const;
  /// Of rows of all tasks those of one.
  template <typename Rows>
  Rows of_task(const Rows& x_PI, int64_t task) const {
    const int64_t rows = x_PI.size(0) / tasks_;
    return x_PI.rows(task * rows, rows);
  }

  int64_t tasks_;
  const parameters::Parameter* embedding_ = nullptr;
  std::vector<LstmLayer> layers_;
  std::optional<MlpHead> head_;
  const parameters::Parameter* table_ = nullptr;
};

}  // namespace megalith::prompts
