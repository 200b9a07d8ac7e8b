// SPDX-License-Identifier: Apache-2.0
#include "ia3/learned_vectors.h"

#include <algorithm>
#include <optional>

#include "kernels/elementwise/pointwise.h"
#include "kernels/reduction/column_sum.h"

namespace megalith::ia3 {
namespace {

using layers::Batch;
using layers::Context;
using parameters::Init;
using parameters::Parameter;

/// Beside a product, declared as its weight is cut.
parameters::Declaration declaration_of(const layers::FactoredProduct& product, DType dtype) {
  const parameters::Declaration& weight = product.weight.declaration();
  parameters::Declaration vector{vector_beside(weight.name),
                                 Shape{weight.shape[product.is_row ? 1 : 0]}, weight.shard,
                                 Init{Init::Kind::ones}, weight.canonical_shards};
  vector.shard.dim = 0;
  vector.format = plain_format(dtype);
  vector.is_added = true;
  return vector;
}

/// x * l in scratch, rounded to x's type.
ConstView multiplied(Context& context, ConstView x, ConstView l, device::Tensor& made) {
  made = context.workspace(x.dtype(), x.shape());
  context.device().copy(made, x);
  kernels::scale(context.exec, made, l);
  return made;
}

/// dl += sum over rows of dy x.
void add_gradient(Context& context, Parameter& l, ConstView dy, ConstView x) {
  const Shape row{1, l.local_elements()};
  kernels::column_sum(context.exec, {dy, l.gradient_sum().reshape(row), {}, x});
}

class InputVector final : public layers::ProductFactors {
 public:
  InputVector(parameters::ParameterSet& set, const layers::FactoredProduct& product, DType dtype)
      : weight_(product.weight), l_(&set.declare(declaration_of(product, dtype))) {}

  ConstView input(Context& context, ConstView x_TI, device::Tensor& made) const override {
    return multiplied(context, x_TI, l_->compute(), made);
  }
  void forward(Context&, const Batch&, ConstView, View) const override {}
  void backward(Context& context, const Batch&, ConstView, ConstView x_TI,
                View dx_TI) const override {
    MEGA_CHECK(!weight_.trainable(), "{} trains beside a vector", weight_.name());
    if (l_->trainable()) add_gradient(context, *l_, dx_TI, x_TI);
    kernels::scale(context.exec, dx_TI, l_->compute());
  }

 private:
  const Parameter& weight_;
  Parameter* l_;
};

class OutputVector final : public layers::ProductFactors {
 public:
  OutputVector(parameters::ParameterSet& set, const layers::FactoredProduct& product,
               const MultipliedProduct& multiplied, DType dtype)
      : l_(&set.declare(declaration_of(product, dtype))) {
    if (multiplied.outputs.empty()) return;
    std::vector<bool> others;
    for (const ShardRun& run : product.weight.declaration().shard.runs())
      for (int64_t i = 0; i < run.count; ++i)
        others.push_back(!multiplied.outputs.at(static_cast<size_t>(run.begin + i)));
    find_others(others);
  }

  void forward(Context& context, const Batch&, ConstView, View y_TO) const override {
    kernels::scale(context.exec, y_TO, l_->compute());
  }
  bool reads_output() const override { return l_->trainable(); }
  ConstView output_gradient(Context& context, ConstView dy_TO, ConstView,
                            device::Tensor& made) const override {
    return multiplied(context, dy_TO, l_->compute(), made);
  }
  void add_output_gradients(Context& context, const Batch&, ConstView dy_TO, ConstView,
                            View z_TO) const override {
    add_gradient(context, *l_, dy_TO, z_TO);
    for (const View& others : others_of(l_->gradient_sum())) kernels::fill(context.exec, others, 0);
  }
  void backward(Context&, const Batch&, ConstView, ConstView, View) const override {}

 private:
  void find_others(const std::vector<bool>& others) {
    const size_t count = others.size();
    // Gates and ups lie in turns: of one of them every second output is another's.
    const auto is_turn = [&](size_t i) { return others[i] == others[i % 2]; };
    bool turns = count > 2 && count % 2 == 0 && others[0] != others[1];
    for (size_t i = 0; i < count && turns; ++i) turns = is_turn(i);
    if (turns) {
      every_second_ = others[0] ? 0 : 1;
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      if (!others[i]) continue;
      const auto at = static_cast<int64_t>(i);
      if (runs_.empty() || runs_.back().end != at) runs_.push_back({at, at});
      runs_.back().end = at + 1;
    }
  }
  /// The elements of a vector, as it lies here, that no module has.
  std::vector<View> others_of(const View& vector) const {
    if (every_second_)
      return {vector.reshape(Shape{vector.num_elements() / 2, 2}).columns(*every_second_, 1)};
    std::vector<View> others;
    for (const Range& run : runs_) others.push_back(vector.rows(run.begin, run.size()));
    return others;
  }

  Parameter* l_;
  std::vector<Range> runs_;
  std::optional<int64_t> every_second_;
};

}  // namespace

std::string vector_beside(std::string_view weight) { return layers::name_beside(weight, ".ia3_l"); }

layers::MakeFactors vectors_of(std::shared_ptr<const MultipliedProducts> products, DType dtype) {
  return
      [products = std::move(products), dtype](
          parameters::ParameterSet& set,
          const layers::FactoredProduct& product) -> std::shared_ptr<const layers::ProductFactors> {
        const auto found = products->find(product.weight.name());
        if (found == products->end()) return nullptr;
        const MultipliedProduct& multiplied = found->second;
        MEGA_CHECK_EQ(multiplied.of_inputs, product.is_row);
        if (multiplied.of_inputs) return std::make_shared<InputVector>(set, product, dtype);
        return std::make_shared<OutputVector>(set, product, multiplied, dtype);
      };
}

}  // namespace megalith::ia3
