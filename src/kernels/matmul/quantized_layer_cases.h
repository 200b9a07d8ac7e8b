// SPDX-License-Identifier: Apache-2.0
// A linear layer whose weights are in blocks, for the tests of its products.
#pragma once

#include <cstring>

#include "kernels/matmul/tiled_layer.h"

namespace megalith::kernels::matmul {

inline constexpr Format kBlockFormats[] = {Format::q8_0, Format::q4_0, Format::q4_1};

/// A layer whose weights are in blocks.
struct QuantizedLayer : TiledLayer {
  QuantizedLayer(const LinearCase& shape, Format stored, const TiledTypes& types)
      : TiledLayer(shape, stored, types) {
    for (size_t i = 0; i < matrix.size(); ++i)
      matrix[i] = static_cast<std::byte>(philox(2, i, 0)[0]);
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
    std::memcpy(matrix.data() + block * block_bytes(format) + at, &half, sizeof half);
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
