// SPDX-License-Identifier: Apache-2.0
#include "prompts/prompt_encoder.h"

#include <array>
#include <utility>

#include "kernels/elementwise/pointwise.h"
#include "prompts/prompt_table.h"

namespace megalith::prompts {

using config::PromptEncoderKind;

PromptEncoder::PromptEncoder(parameters::ParameterSet& set, int64_t count, int64_t width,
                             const EncoderSpec& spec, DType dtype)
    : tasks_(spec.tasks) {
  MEGA_CHECK(tasks_ > 0 && count % tasks_ == 0, "{} rows of {} tasks", count, tasks_);
  MEGA_CHECK(spec.kind != PromptEncoderKind::embedding && spec.hidden > 0 && spec.layers > 0);
  const Shape shape{count, width};
  const int64_t hidden = spec.hidden;
  embedding_ = &declare(set, "prompt.embedding.weight", shape, 1, dtype);
  if (spec.kind == PromptEncoderKind::lstm) {
    for (int64_t layer = 0; layer < spec.layers; ++layer)
      layers_.emplace_back(set, "prompt.lstm_head", layer, layer == 0 ? width : 2 * hidden, hidden,
                           dtype);
    head_.emplace(set, "prompt.mlp_head", std::array{2 * hidden, 2 * hidden, width}, dtype);
  } else {
    head_.emplace(set, "prompt.mlp_head", std::array{width, hidden, hidden, width}, dtype);
  }
  parameters::Declaration table{std::string(kTableName), shape, Shard::whole(shape), {}};
  table.format = plain_format(dtype);
  table.is_added = table.is_derived = true;
  table_ = &set.declare(std::move(table));
}

ConstView PromptEncoder::input_of(size_t number, const Saved& saved) const {
  return number == 0 ? ConstView(embedding_->compute()) : ConstView(saved.rows_PO[number - 1]);
}

void PromptEncoder::forward(kernels::Exec& exec, View y_PE, Saved& saved) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const ConstView x = input_of(i, saved);
    const View y = saved.rows_PO.emplace_back(
        exec.workspace.tensor(x.dtype(), Shape{x.size(0), layers_[i].outputs()}));
    for (int64_t task = 0; task < tasks_; ++task)
      layers_[i].forward(exec, of_task(x, task), of_task(y, task), saved.layers.emplace_back());
  }
  head_->forward(exec, input_of(layers_.size(), saved), y_PE, saved.head);
}

void PromptEncoder::forward(kernels::Exec& exec) const {
  const device::NameScope scope(exec.device, "prompt");
  Saved passing;
  forward(exec, table_->mutable_compute(), passing);
}

void PromptEncoder::backward(kernels::Exec& exec) const {
  const device::NameScope scope(exec.device, "prompt");
  Saved saved;
  forward(exec, View(), saved);
  const ConstView x = input_of(layers_.size(), saved);
  device::Tensor dy = exec.workspace.tensor(x.dtype(), x.shape());
  head_->backward(exec, table_->gradient_sum(), x, saved.head, dy);
  for (size_t i = layers_.size(); i-- > 0;) {
    const ConstView below = input_of(i, saved);
    device::Tensor dx = exec.workspace.tensor(below.dtype(), below.shape());
    for (int64_t task = 0; task < tasks_; ++task) {
      layers_[i].backward(exec, of_task(dy.view, task), of_task(below, task),
                          of_task(saved.rows_PO[i].view, task),
                          saved.layers[i * static_cast<size_t>(tasks_) + static_cast<size_t>(task)],
                          of_task(dx.view, task));
    }
    dy = std::move(dx);
  }
  if (embedding_->trainable())
    kernels::add(exec, embedding_->gradient_sum(), dy, embedding_->gradient_sum());
}

}  // namespace megalith::prompts
