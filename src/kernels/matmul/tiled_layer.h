// SPDX-License-Identifier: Apache-2.0
// A linear layer whose weights are in tiles (tensor/blocks.h), for the tests of its products.
#pragma once

#include <vector>

#include "device/recorder.h"
#include "kernels/elementwise/activate.h"
#include "kernels/matmul/linear_layer.h"
#include "tensor/blocks.h"

namespace megalith::kernels::matmul {

using testing::test_devices;
using testing::TestDevice;

/// One and more blocks; one row of weights, one more and one less than groups of 16 have, several
/// groups at once and a rest; few rows of x in one pass and in several, and so many that panels are
/// packed; shards that end with a block and inside of one; several blocks of k.
inline const LinearCase kTiledCases[] = {
    {0, 32, 5},       {1, 32, 1},     {1, 64, 16},     {1, 96, 33},       {1, 4096, 48, 4},
    {1, 2112, 195},   {2, 288, 40},   {3, 128, 15, 4}, {4, 320, 50, 2},   {5, 1056, 31},
    {8, 256, 17, 8},  {13, 544, 20},  {16, 96, 64, 3}, {17, 2112, 35, 2}, {33, 160, 23, 1},
    {70, 544, 97, 1}, {2, 11008, 19}, {3, 96, 40, 8},  {1, 160, 36, 20},  {19, 96, 37, 8},
    {40, 1600, 50, 5}};

struct TiledTypes {
  DType x;
  DType y;
};
inline constexpr TiledTypes kXY[] = {{DType::f32, DType::f32},  {DType::bf16, DType::bf16},
                                     {DType::bf16, DType::f32}, {DType::f32, DType::bf16},
                                     {DType::f16, DType::f16},  {DType::f16, DType::f32},
                                     {DType::f32, DType::f16}};

struct TiledLayer {
  LinearCase c;
  Format format;
  std::vector<std::byte> matrix, tiles;  // `matrix` as a file has it
  TestTensor x, bias, y, u;

  TiledLayer(const LinearCase& shape, Format stored, const TiledTypes& types)
      : c(shape),
        format(stored),
        matrix(static_cast<size_t>(matrix_bytes(format, c.outputs, c.inputs))),
        x(types.x, {c.rows, c.inputs}, 3, 1),
        bias(types.x, {c.outputs}, 0, 1),
        y(types.y, {c.rows, c.outputs}, 2, 1),
        u(types.y, {c.rows, c.outputs}, 1, 0) {
    x.fill_normal(1);
    bias.fill_normal(4);
  }
  Weight weight() {
    const Shape shape{c.outputs, c.inputs}, stored = stored_shape(format, shape);
    // A start that no vector is aligned to.
    tiles.assign(static_cast<size_t>(stored.num_elements() + 8), std::byte{});
    to_tiles(format, matrix, c.outputs, c.inputs, std::span(tiles).subspan(8));
    return {ConstView(tiles.data() + 8, DType::u8, stored), format, shape};
  }
  LinearForward forward() {
    return {.x_TI = x, .w_OI = weight(), .y_TO = y, .k_shards = c.k_shards};
  }
  void run(device::Device& on, std::string_view only = {}, Numerics numerics = Numerics::exact) {
    run(on, forward(), only, numerics);
  }
  void run(device::Device& on, const LinearForward& arguments, std::string_view only = {},
           Numerics numerics = Numerics::exact) {
    Exec exec(on, numerics);
    exec.only = only;
    linear_forward(exec, arguments);
    EXPECT_EQ(exec.workspace.in_use(), 0);
    y.expect_gaps_untouched();
  }
  std::string name(std::string_view device) const {
    return fmt::format("{} {}*{}->{} on {}", c.name(), x.dtype(), format, y.dtype(), device);
  }
};

inline void expect_fused_is_the_composition(const TiledLayer& layer) {
  for (const TestDevice& on : test_devices()) {
    Exec exec(*on.device);
    TiledLayer fused = layer, parts = layer;
    LinearForward f = fused.forward();
    f.bias_O = fused.bias;
    f.activation = Activation::gelu_erf;
    f.pre_activation_TO = fused.u;
    linear_forward(exec, f);
    f = parts.forward();
    f.bias_O = parts.bias;
    f.y_TO = parts.u;
    linear_forward(exec, f);
    activation_forward(exec, parts.u, parts.y, Activation::gelu_erf);
    testing::expect_same_bits(fused.u, parts.u, parts.name(on.name) + " u");
    testing::expect_same_bits(fused.y, parts.y, parts.name(on.name));
  }
}

/// Of 75 rows.
inline void expect_the_bits_of_parts(const TiledLayer& layer) {
  for (const TestDevice& on : test_devices()) {
    TiledLayer whole = layer, parts = layer;
    whole.run(*on.device);
    Exec exec(*on.device);
    int64_t begin = 0;
    for (const int64_t count : {1, 0, 3, 8, 16, 13, 34}) {
      LinearForward f = parts.forward();
      f.x_TI = f.x_TI.rows(begin, count);
      f.y_TO = f.y_TO.rows(begin, count);
      linear_forward(exec, f);
      begin += count;
    }
    ASSERT_EQ(begin, layer.c.rows);
    testing::expect_same_bits(parts.y, whole.y, whole.name(on.name));
  }
}

/// Of x in bf16.
inline void expect_traced_as_run(TiledLayer layer) {
  const auto real = device::make_cpu_device(3);
  const auto trace = device::make_trace_device(real->target());
  device::Recorder recorder;
  trace->set_recorder(&recorder);
  layer.run(*real);
  layer.run(*trace);
  const auto high_water = [](device::Device& d) {
    return d.arena(device::MemoryClass::workspace).high_water();
  };
  const LinearCase& c = layer.c;
  EXPECT_EQ(high_water(*trace), high_water(*real));
  const device::Work total = recorder.total();
  EXPECT_EQ(total.flops, 2.0 * static_cast<double>(c.rows * c.inputs * c.outputs));
  EXPECT_EQ(total.bytes_read,
            2 * c.rows * c.inputs + matrix_bytes(layer.format, c.outputs, c.inputs));
}

/// What linear_forward says of the layer's arguments when they are changed so.
template <typename Change>
std::string refusal_of(TiledLayer& layer, const Change& change) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  LinearForward f = layer.forward();
  change(f);
  try {
    linear_forward(exec, f);
  } catch (const InternalError& error) {
    return error.what();
  }
  return {};
}

}  // namespace megalith::kernels::matmul
