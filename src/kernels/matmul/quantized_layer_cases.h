// SPDX-License-Identifier: Apache-2.0
// A linear layer whose weights are in blocks, for the tests of its products.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/matmul/linear_layer.h"
#include "tensor/blocks.h"

namespace megalith::kernels::matmul {

using testing::test_devices;
using testing::TestDevice;

inline constexpr Format kBlockFormats[] = {Format::q8_0, Format::q4_0, Format::q4_1};

struct QuantizedTypes {
  DType x;
  DType y;
};
inline constexpr QuantizedTypes kXY[] = {{DType::f32, DType::f32},
                                         {DType::bf16, DType::bf16},
                                         {DType::bf16, DType::f32},
                                         {DType::f32, DType::bf16}};

/// A layer whose weights are in blocks.
struct QuantizedLayer {
  LinearCase c;
  Format format;
  std::vector<std::byte> blocks, tiles;
  TestTensor x, bias, y, u;

  QuantizedLayer(const LinearCase& shape, Format stored, const QuantizedTypes& types)
      : c(shape),
        format(stored),
        blocks(static_cast<size_t>(c.outputs * c.inputs / kBlockColumns * block_bytes(format))),
        x(types.x, {c.rows, c.inputs}, 3, 1),
        bias(types.x, {c.outputs}, 0, 1),
        y(types.y, {c.rows, c.outputs}, 2, 1),
        u(types.y, {c.rows, c.outputs}, 1, 0) {
    x.fill_normal(1);
    bias.fill_normal(4);
    for (size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = static_cast<std::byte>(philox(2, i, 0)[0]);
    for (int64_t b = 0; b < num_blocks(); ++b) {
      set_scale(b, 0x1p-7 * normal(3, static_cast<uint64_t>(b)));
      if (has_least(format)) set_least(b, 0x1p-5 * normal(4, static_cast<uint64_t>(b)));
    }
  }
  int64_t num_blocks() const { return c.outputs * c.inputs / kBlockColumns; }
  void set_scale(int64_t block, double value) { set_half(block, 0, value); }
  void set_least(int64_t block, double value) { set_half(block, 2, value); }
  void set_half(int64_t block, int64_t at, double value) {
    const f16_t half = to_f16(static_cast<float>(value));
    std::memcpy(blocks.data() + block * block_bytes(format) + at, &half, sizeof half);
  }
  Weight weight() {
    const Shape shape{c.outputs, c.inputs}, stored = stored_shape(format, shape);
    // A start that no vector is aligned to.
    tiles.assign(static_cast<size_t>(stored.num_elements() + 8), std::byte{});
    to_tiles(format, blocks, c.outputs, c.inputs, std::span(tiles).subspan(8));
    return {ConstView(tiles.data() + 8, DType::u8, stored), format, shape};
  }
  LinearForward forward() {
    return {.x_TI = x, .w_OI = weight(), .y_TO = y, .k_shards = c.k_shards};
  }
  void run(device::Device& on, std::string_view only = {}, Numerics numerics = Numerics::exact) {
    Exec exec(on, numerics);
    exec.only = only;
    linear_forward(exec, forward());
    EXPECT_EQ(exec.workspace.in_use(), 0);
    y.expect_gaps_untouched();
  }
  /// The plain layer with the widened weights.
  Layer widened() {
    Layer plain(c, {x.dtype(), DType::f32, y.dtype()});
    plain.x.fill([&](int64_t i) { return x.at(i); });
    const Weight w = weight();
    plain.w.fill(
        [&](int64_t i) { return static_cast<double>(tile_value(w, i / c.inputs, i % c.inputs)); });
    return plain;
  }
  std::string name(std::string_view device) const {
    return fmt::format("{} {}*{}->{} on {}", c.name(), x.dtype(), format, y.dtype(), device);
  }
  void expect_widened_everywhere() {
    Layer expected = widened();
    const auto device = device::make_cpu_device(1);
    expected.run(*device, Operation::forward, "exact");
    for (const TestDevice& on : test_devices()) {
      QuantizedLayer actual = *this;
      actual.run(*on.device, "exact");
      testing::expect_same_bits(actual.y, expected.y, name(on.name));
    }
  }
};

}  // namespace megalith::kernels::matmul
