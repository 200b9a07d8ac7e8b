// SPDX-License-Identifier: Apache-2.0
#include "layers/adapter.h"

#include <algorithm>
#include <span>
#include <utility>

#include "kernels/elementwise/pointwise.h"
#include "parallel/regions.h"

namespace megalith::layers {
namespace {

/// Rows with an adapter of a weight; `first`: where their part of h begins.
struct AdaptedRun {
  int64_t begin, count, first;
  const Adapter::Factors* factors;
  int64_t rank() const { return factors->a_IR.view.absent() ? 0 : factors->a_IR.view.size(1); }
};

std::vector<AdaptedRun> adapted_runs(const Context& context, const Batch& batch,
                                     std::string_view weight) {
  std::vector<AdaptedRun> runs;
  int64_t first = 0;
  const auto add = [&](const Adapter* adapter, int64_t begin, int64_t count) {
    const Adapter::Factors* const factors = adapter != nullptr ? adapter->find(weight) : nullptr;
    if (factors == nullptr || count == 0) return;
    runs.push_back({begin, count, first, factors});
    first += count * runs.back().rank();
  };
  if (batch.adapters.empty()) add(context.adapter, 0, batch.num_tokens);
  for (const AdapterRun& run : batch.adapters) add(run.adapter, run.begin, run.count);
  return runs;
}

/// Calls body with as many of the runs as a call of a kernel takes, of each one factor.
template <typename Body>
void in_calls(std::span<const AdaptedRun> runs, device::Tensor Adapter::Factors::*factor,
              const Body& body) {
  while (!runs.empty()) {
    kernels::LowRankRuns call;
    call.count = std::min(runs.size(), kernels::kMostLowRankRuns);
    for (size_t i = 0; i < call.count; ++i) {
      const AdaptedRun& run = runs[i];
      call.run[i] = {.begin = run.begin,
                     .count = run.count,
                     .first = run.first,
                     .rank = run.rank(),
                     .factor = (run.factors->*factor).view,
                     .blocks = run.factors->blocks};
    }
    body(call);
    runs = runs.subspan(call.count);
  }
}

/// Multiplies the rows of x that have such a vector by it.
void multiply_rows(Context& context, std::span<const AdaptedRun> runs,
                   device::Tensor Adapter::Factors::*vector, View x) {
  for (const AdaptedRun& run : runs) {
    const View l = run.factors->*vector;
    if (!l.absent()) kernels::scale(context.exec, x.rows(run.begin, run.count), l);
  }
}

}  // namespace

int64_t virtual_tokens_of(const AdapterRanks& ranks) {
  const auto table = ranks.find(kTokenTableName);
  return table == ranks.end() || table->second.in_text ? 0 : table->second.virtual_tokens;
}

int64_t tokens_in_text_of(const AdapterRanks& ranks) {
  const auto table = ranks.find(kTokenTableName);
  return table != ranks.end() && table->second.in_text ? table->second.virtual_tokens : 0;
}

Adapter::Adapter(const parameters::ParameterSet& set, device::Device& device,
                 const AdapterRanks& ranks)
    : virtual_tokens_(virtual_tokens_of(ranks)), tokens_in_text_(tokens_in_text_of(ranks)) {
  device::Arena& arena = device.arena(device::MemoryClass::weights);
  for (const parameters::Parameter& parameter : set.all()) {
    const auto rank = ranks.find(parameter.name());
    if (rank == ranks.end() || factors_.contains(parameter.name())) continue;
    const Shape local = parameter.local_shape();
    MEGA_CHECK_EQ(local.num_dims(), 2);
    const AdapterRank& has = rank->second;
    if (has.bottleneck > 0) {
      Factors& made = factors_[parameter.name()];
      made.down_RH = arena.tensor(DType::f32, Shape{has.bottleneck, local[0]});
      made.down_bias_R = arena.tensor(DType::f32, Shape{has.bottleneck});
      made.up_HR = arena.tensor(DType::f32, Shape{local[0], has.bottleneck});
      made.up_bias_H = arena.tensor(DType::f32, Shape{local[0]});
      continue;
    }
    if (has.virtual_tokens > 0) {
      if (!parameter.declaration().is_copy) {
        factors_[parameter.name()].virtual_PE =
            arena.tensor(DType::f32, Shape{has.virtual_tokens, local[1]});
      }
      continue;
    }
    if (has.vector != AdapterRank::Vector::none) {
      const bool of_inputs = has.vector == AdapterRank::Vector::of_inputs;
      (of_inputs ? factors_[parameter.name()].input_I : factors_[parameter.name()].output_O) =
          arena.tensor(DType::f32, Shape{local[of_inputs ? 1 : 0]});
      continue;
    }
    Factors made{arena.tensor(DType::f32, Shape{local[1], has.rank}),
                 arena.tensor(DType::f32, Shape{has.packed, local[0]})};
    // Until it is filled, and in a plan: of any columns.
    if (has.packed < has.rank) made.blocks = {{{0, local[0]}, {0, 0}, has.packed}};
    if (has.has_magnitudes) made.scale_O = arena.tensor(DType::f32, Shape{local[0]});
    factors_.emplace(parameter.name(), std::move(made));
  }
}

const Adapter::Factors* Adapter::find(std::string_view weight) const {
  const auto found = factors_.find(weight);
  return found == factors_.end() ? nullptr : &found->second;
}

bool is_adapted(const Context& context, const Batch& batch, const parameters::Parameter& weight) {
  if (context.adapter == nullptr && batch.adapters.empty()) return false;
  return !adapted_runs(context, batch, weight.name()).empty();
}

void for_each_virtual_run(const Context& context, const Batch& batch,
                          FunctionRef<void(int64_t begin, int64_t count, ConstView rows_PE)> body) {
  for (const AdaptedRun& run : adapted_runs(context, batch, kTokenTableName))
    body(run.begin, run.count, run.factors->virtual_PE);
}

ConstView adapted_input(Context& context, const Batch& batch, const parameters::Parameter& weight,
                        ConstView x_TI, device::Tensor& made) {
  const std::vector<AdaptedRun> runs = adapted_runs(context, batch, weight.name());
  if (std::ranges::all_of(runs,
                          [](const AdaptedRun& run) { return run.factors->input_I.view.absent(); }))
    return x_TI;
  made = context.workspace(x_TI.dtype(), x_TI.shape());
  context.device().copy(made, x_TI);
  multiply_rows(context, runs, &Adapter::Factors::input_I, made);
  return made;
}

void for_each_bias_run(const Context& context, const Batch& batch,
                       const parameters::Parameter& weight, int64_t rows,
                       FunctionRef<void(int64_t begin, int64_t count, bool comes_before)> body) {
  int64_t done = 0;
  for (const AdaptedRun& run : adapted_runs(context, batch, weight.name())) {
    if (run.factors->scale_O.view.absent()) continue;
    if (run.begin > done) body(done, run.begin - done, false);
    body(run.begin, run.count, true);
    done = run.begin + run.count;
  }
  if (done < rows) body(done, rows - done, false);
}

void add_adapters(Context& context, const Batch& batch, const parameters::Parameter& weight,
                  const AdaptedProduct& product) {
  std::vector<AdaptedRun> runs = adapted_runs(context, batch, weight.name());
  MEGA_CHECK(runs.empty() || !context.sequence, "adapters of parts of the tokens");
  multiply_rows(context, runs, &Adapter::Factors::output_O, product.y_TO);
  for (const AdaptedRun& run : runs) {
    if (run.factors->down_RH.view.absent()) continue;
    kernels::bottleneck_forward(context.exec, run.factors->bottleneck(),
                                product.y_TO.rows(run.begin, run.count));
  }
  std::erase_if(runs, [](const AdaptedRun& run) { return run.rank() == 0; });
  if (runs.empty()) return;
  const AdaptedRun& last = runs.back();
  const device::Tensor h =
      context.workspace(DType::f32, Shape{last.first + last.count * last.rank()});
  in_calls(runs, &Adapter::Factors::a_IR, [&](const kernels::LowRankRuns& call) {
    kernels::low_rank_project(context.exec, {product.x_TI, h, call, product.k_shards});
  });
  if (product.sums) parallel::reduce_forward(context.exec, context.tensor, h, weight.name());
  in_calls(runs, &Adapter::Factors::b_PO, [&](const kernels::LowRankRuns& call) {
    kernels::low_rank_add(context.exec, {h, product.y_TO, call});
  });
  multiply_rows(context, runs, &Adapter::Factors::scale_O, product.y_TO);
  for (const AdaptedRun& run : runs) {
    if (run.factors->scale_O.view.absent() || product.bias_O.absent()) continue;
    const View rows = product.y_TO.rows(run.begin, run.count);
    kernels::add(context.exec, rows, product.bias_O.repeated(run.count), rows);
  }
}

}  // namespace megalith::layers
