// SPDX-License-Identifier: Apache-2.0
// Rates of the linear operations, every entry of the list side by side, on one thread's CPU clock.
// The first name to look at is exact against onednn at the same size and type; decoding prints GB/s
// of weights beside a plain read of as many bytes.
#include <benchmark/benchmark.h>

#include <memory>

#include "kernels/elementary/bench_roofline.h"
#include "kernels/matmul/linear.h"
#include "kernels/matmul/linear_cases.h"
#include "math/random.h"
#include "tensor/blocks.h"

namespace megalith::kernels {
namespace {

using matmul::LinearCase;

DType activations_for(Format weights) { return is_plain(weights) ? dtype_of(weights) : DType::f32; }

/// Tensors of one case, filled with small numbers.
struct Layer {
  std::vector<std::byte> x, w, y, dw;
  Format format;
  DType dtype;  // of activations
  LinearCase c;

  Layer(const LinearCase& shape, Format weights)
      : format(weights), dtype(activations_for(weights)), c(shape) {
    const auto fill = [&](std::vector<std::byte>& to, int64_t n) {
      to.resize(static_cast<size_t>(n * bytes_of(dtype)));
      for (int64_t i = 0; i < n; ++i) {
        const float value = static_cast<float>(i % 251) / 256.0f - 0.5f;
        if (dtype == DType::f32)
          reinterpret_cast<float*>(to.data())[i] = value;
        else
          reinterpret_cast<bf16_t*>(to.data())[i] = to_bf16(value);
      }
    };
    fill(x, c.rows * c.inputs);
    if (is_plain(format))
      fill(w, c.outputs * c.inputs);
    else
      draw_blocks();
    fill(y, c.rows * c.outputs);
    dw.resize(static_cast<size_t>(4 * c.outputs * c.inputs));
  }
  /// Codes of every value and scales near 2^-7.
  void draw_blocks() {
    const int64_t each = block_bytes(format);
    std::vector<std::byte> blocks(static_cast<size_t>(c.outputs * c.inputs / kBlockColumns * each));
    for (size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = static_cast<std::byte>(i * 167 + i / 251);
    for (size_t at = 0; at < blocks.size(); at += static_cast<size_t>(each)) {
      blocks[at + 1] = std::byte{0x20};
      if (has_least(format)) blocks[at + 3] = std::byte{0x20};
    }
    w.resize(static_cast<size_t>(stored_shape(format, Shape{c.outputs, c.inputs}).num_elements()));
    to_tiles(format, blocks, c.outputs, c.inputs, w);
  }
  View x_TI() { return {x.data(), dtype, Shape{c.rows, c.inputs}}; }
  Weight w_OI() {
    const Shape shape{c.outputs, c.inputs};
    return {ConstView(w.data(), dtype_of(format), stored_shape(format, shape)), format, shape};
  }
  int64_t weight_bytes() const { return static_cast<int64_t>(w.size()); }
  View y_TO() { return {y.data(), dtype, Shape{c.rows, c.outputs}}; }
  View dw_OI() { return {dw.data(), DType::f32, Shape{c.outputs, c.inputs}}; }

  void forward(Exec& exec) {
    linear_forward(exec, {.x_TI = x_TI(), .w_OI = w_OI(), .y_TO = y_TO(), .k_shards = c.k_shards});
  }
  void backward_input(Exec& exec) {
    linear_backward_input(
        exec, {.dy_TO = y_TO(), .w_OI = w_OI(), .dx_TI = x_TI(), .k_shards = c.k_shards});
  }
  void backward_weight(Exec& exec) {
    linear_backward_weight(exec, {.dy_TO = y_TO(), .x_TI = x_TI(), .dw_OI = dw_OI()});
  }
};

using Method = void (Layer::*)(Exec&);

void run(benchmark::State& state, const LinearCase& c, Format format, Method method,
         std::string_view only) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device, Numerics::fast);
  exec.only = only;
  Layer layer(c, format);
  const benching::RooflineWatch watch;
  for (auto _ : state) (layer.*method)(exec);
  const double flops = 2.0 * static_cast<double>(c.rows * c.inputs * c.outputs);
  state.counters["FLOP/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["weights/s"] = benchmark::Counter(static_cast<double>(layer.weight_bytes()),
                                                   benchmark::Counter::kIsIterationInvariantRate);
  const double bytes = static_cast<double>(layer.weight_bytes()) +
                       static_cast<double>(layer.x.size() + layer.y.size());
  watch.report(state, flops, bytes);
}

/// The memory's side of decoding: a sum over as many bytes as the weights have.
void read_bytes(benchmark::State& state, int64_t bytes) {
  const std::vector<uint64_t> words(static_cast<size_t>(bytes / 8), 1);
  for (auto _ : state) {
    uint64_t sum[8] = {};
    for (size_t i = 0; i + 8 <= words.size(); i += 8)
      for (size_t j = 0; j < 8; ++j) sum[j] += words[i + j];
    benchmark::DoNotOptimize(sum);
  }
  state.counters["weights/s"] =
      benchmark::Counter(static_cast<double>(bytes), benchmark::Counter::kIsIterationInvariantRate);
}

const bool kRegistered = [] {
  const std::pair<const char*, Method> operations[] = {
      {"linear_forward", &Layer::forward},
      {"linear_backward_input", &Layer::backward_input},
      {"linear_backward_weight", &Layer::backward_weight}};
  for (const Format format :
       {Format::f32, Format::bf16, Format::q8_0, Format::q4_0, Format::q4_1}) {
    if (is_plain(format))
      for (const auto& [name, method] : operations)
        for (const LinearCase& c : matmul::speed_cases())
          for (const char* entry : {"exact", "onednn"})
            benchmark::RegisterBenchmark(
                fmt::format("{}/{}/{}/{}", name, c.name(), format, entry).c_str(), run, c, format,
                method, entry);
    for (const LinearCase& c : matmul::decode_cases()) {
      benchmark::RegisterBenchmark(
          fmt::format("linear_forward/{}/{}/exact", c.name(), format).c_str(), run, c, format,
          &Layer::forward, "exact");
      const int64_t weights = c.inputs * c.outputs;
      const int64_t bytes = is_plain(format) ? weights * bytes_of(dtype_of(format))
                                             : weights / kBlockColumns * block_bytes(format);
      benchmark::RegisterBenchmark(fmt::format("read/{}/{}", c.name(), format).c_str(), read_bytes,
                                   bytes);
    }
  }
  return true;
}();

}  // namespace
}  // namespace megalith::kernels
