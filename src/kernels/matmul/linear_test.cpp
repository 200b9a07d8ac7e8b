// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/linear.h"

#include "device/recorder.h"
#include "kernels/elementwise/activate.h"
#include "kernels/matmul/linear_layer.h"
#include "kernels/matmul/linear_stated.h"

namespace megalith::kernels {
namespace {

using namespace matmul;  // NOLINT: the layer and its cases
using testing::test_devices;
using testing::TestDevice;
using testing::TestTensor;

constexpr auto kFused = std::span(kActivations).subspan(1);  // all but none

TEST(Linear, EveryEntryIsWithinTheDerivedBoundOfTheReference) {
  const auto device = device::make_cpu_device(1);
  for (const LinearCase& c : matmul::awkward_cases()) {
    for (const Types& types : kTypes) {
      // Long sums cost the reference time; mixed types differ from pure ones only in how they are
      // read.
      if (types.x != types.w && c.inputs > 1000) continue;
      Layer input(c, types);
      input.fill_normal();
      Layer expected(c, kDouble);
      expected.copy_inputs_from(input);
      for (const Operation operation : kOperations) {
        expected.run(*device, operation, "reference");
        const auto bound = input.bound(*device, operation);
        for (const std::string_view entry : {"exact", "reference", "onednn"}) {
          Layer actual(c, types);
          actual.copy_inputs_from(input);
          if (entry == "onednn" && !onednn_takes(types)) continue;
          actual.run(*device, operation, entry, Numerics::fast);
          testing::expect_close(actual.result(operation), expected.result(operation), bound,
                                describe(c, types, operation, entry));
          actual.expect_gaps_untouched();
        }
      }
    }
  }
}

TEST(Linear, ExactInputsGiveExactResultsOnEveryDevice) {
  const auto any = device::make_cpu_device(1);
  for (const LinearCase& c : matmul::awkward_cases()) {
    Layer expected(c, kTypes[0]);
    expected.fill_exact();
    const Layer input = expected;
    for (const Operation operation : kOperations) {
      expected.run(*any, operation, "reference");
      for (const TestDevice& on : test_devices()) {
        Layer actual = input;
        actual.run(*on.device, operation, "exact");
        testing::expect_same_bits(actual.result(operation), expected.result(operation),
                                  describe(c, kTypes[0], operation, on.name));
      }
    }
  }
}

TestTensor stated_result(const Layer& l, Operation operation, int k_shards) {
  const StatedElement stated(l, operation, k_shards);
  TestTensor result = l.result(operation);
  return result.fill(
      [&](int64_t i) -> double { return stated(i / result.columns(), i % result.columns()); });
}

TEST(Linear, EveryElementIsTheStatedChainOnEveryDevice) {
  const std::vector<TestDevice> devices = test_devices();
  for (const LinearCase& c : matmul::awkward_cases()) {
    for (const Types& types : kTypes) {
      Layer input(c, types);
      input.fill_normal();
      for (const Operation operation : kOperations) {
        const int k_shards =
            operation == Operation::forward ? c.k_shards : input.backward_input().k_shards;
        const TestTensor expected = stated_result(input, operation, k_shards);
        for (const TestDevice& on : devices) {
          Layer actual = input;
          actual.run(*on.device, operation, "exact");
          testing::expect_same_bits(actual.result(operation), expected,
                                    describe(c, types, operation, on.name));
        }
      }
    }
  }
}

TEST(Linear, AScaleMultipliesTheFinishedSumOnceOnEveryDevice) {
  for (const LinearCase& c : {LinearCase{3, 67, 40}, LinearCase{41, 1700, 51, 2},
                              LinearCase{19, 96, 21, 3}, LinearCase{901, 40, 37}}) {
    for (const Types& types : kTypes) {
      Layer input(c, types);
      input.fill_normal();
      input.factor.fill_constant(0.01234567);
      input.scaled = true;
      input.cu_runs = {0, 1, static_cast<int32_t>(c.rows)};
      for (const Operation operation : kOperations) {
        const int k_shards =
            operation == Operation::forward ? c.k_shards : input.backward_input().k_shards;
        const TestTensor expected = stated_result(input, operation, k_shards);
        for (const TestDevice& on : test_devices()) {
          Layer actual = input;
          actual.run(*on.device, operation, "exact");
          const std::string what = describe(c, types, operation, on.name);
          testing::expect_same_bits(actual.result(operation), expected, what);
          actual.expect_gaps_untouched();
        }
      }
    }
  }
}

TEST(Linear, ScaledWeightGradientsTakeScratchByShapeAlone) {
  Layer l({1000, 40, 37}, kTypes[1]);
  l.scaled = true;
  std::vector<int32_t> odd;
  for (int32_t row = 0; row <= 1000; row += 5) odd.push_back(row);
  int64_t high_water = 0;
  for (const std::vector<int32_t>& runs : {std::vector<int32_t>{}, {0, 1000}, odd}) {
    l.cu_runs = runs;
    const auto device = device::make_cpu_device(2);
    l.run(*device, Operation::backward_weight, "exact");
    const int64_t bytes = device->arena(device::MemoryClass::workspace).high_water();
    if (high_water > 0) {
      EXPECT_EQ(bytes, high_water);
    }
    high_water = bytes;
  }
}

TEST(Linear, BackwardMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  for (const Activation activation : kFused) {
    // y = w act(v) with x = act(v); loss = sum dy * y.
    Layer l({4, 6, 5, 1}, kDouble);
    l.fill_normal();
    Exec exec(*device);
    exec.only = "reference";
    TestTensor identity(DType::f64, {l.c.inputs, l.c.inputs});
    identity.fill([&](int64_t i) { return i / l.c.inputs == i % l.c.inputs ? 1.0 : 0.0; });
    const auto loss = [&] {
      linear_forward(exec, {.x_TI = l.v, .w_OI = identity, .y_TO = l.x, .activation = activation});
      linear_forward(exec, {.x_TI = l.x, .w_OI = l.w, .y_TO = l.y, .bias_O = l.bias});
      return testing::weighted_sum(l.y, l.dy);
    };
    loss();
    linear_backward_input(exec, {.dy_TO = l.dy,
                                 .w_OI = l.w,
                                 .dx_TI = l.dx,
                                 .pre_activation_TI = l.v,
                                 .activation = activation});
    testing::expect_gradient(loss, l.v, l.dx, 1e-8, "dx");
    loss();  // x belongs to v again
    l.dw.fill_constant(0);
    linear_backward_weight(exec, l.backward_weight());
    testing::expect_gradient(loss, l.w, l.dw, 1e-8, "dw");
  }
}

/// Forward with all that can be fused, and backward through the input's activation.
void run_fused(Layer& l, device::Device& on, std::string_view only, Activation activation) {
  Exec exec(on, Numerics::fast);
  exec.only = only;
  LinearForward f = l.forward();
  f.bias_O = l.bias;
  f.activation = activation;
  f.pre_activation_TO = l.u;
  linear_forward(exec, f);
  LinearBackwardInput b = l.backward_input();
  b.pre_activation_TI = l.v;
  b.activation = activation;
  linear_backward_input(exec, b);
}

TEST(Linear, FusedBiasAndActivationMatchTheReference) {
  const auto device = device::make_cpu_device(1);
  for (const Types& types : kTypes) {
    for (const Activation activation : kFused) {
      for (const LinearCase& c : {LinearCase{1, 40, 33}, LinearCase{37, 900, 51, 2}}) {
        Layer input(c, types);
        input.fill_normal();
        Layer expected(c, kDouble);
        expected.copy_inputs_from(input);
        run_fused(expected, *device, "reference", activation);
        const auto bound_y = input.bound(*device, Operation::forward);
        const auto bound_dx = input.bound(*device, Operation::backward_input);
        const double unit = testing::unit_roundoff(types.result);
        for (const std::string_view entry : {"exact", "onednn"}) {
          if (entry == "onednn" && !onednn_takes(types)) continue;
          Layer actual = input;
          run_fused(actual, *device, entry, activation);
          const std::string what = describe(c, types, Operation::forward, entry);
          // Adding the bias rounds once more; the activation's slope is below 1.13 (of its
          // derivative below 0.9), its own error a few units of its result.
          const auto bound_u = [&](int64_t i) {
            return bound_y(i) + unit * (8 + std::abs(expected.u.at(i)));
          };
          testing::expect_close(actual.u, expected.u, bound_u, what + " u");
          testing::expect_close(
              actual.y, expected.y,
              [&](int64_t i) { return 1.2 * bound_u(i) + 4 * unit * std::abs(expected.y.at(i)); },
              what);
          testing::expect_close(
              actual.dx, expected.dx,
              [&](int64_t i) { return 1.2 * bound_dx(i) + 8 * unit * std::abs(expected.dx.at(i)); },
              what + " dx");
          actual.expect_gaps_untouched();
        }
      }
    }
  }
}

TEST(Linear, FusedEqualsTheCompositionBitForBit) {
  for (const Types& types : kTypes) {
    for (const LinearCase& c : {LinearCase{5, 70, 37}, LinearCase{40, 1700, 51, 2}}) {
      Layer input(c, types);
      input.fill_normal();
      for (const Activation activation : kFused) {
        for (const TestDevice& on : test_devices()) {
          Exec exec(*on.device);
          exec.only = "exact";
          Layer fused = input;
          run_fused(fused, *on.device, "exact", activation);
          Layer parts = input;
          LinearForward f = parts.forward();
          f.y_TO = parts.u;
          f.bias_O = parts.bias;
          linear_forward(exec, f);
          TestTensor dx_f32(DType::f32, {c.rows, c.inputs}, 3);
          LinearBackwardInput b = parts.backward_input();
          b.dx_TI = dx_f32;
          linear_backward_input(exec, b);
          exec.only = {};
          activation_forward(exec, parts.u, parts.y, activation);
          activation_backward(exec, dx_f32, parts.v, parts.dx, activation);
          const std::string what = describe(c, types, Operation::forward, on.name);
          testing::expect_same_bits(fused.u, parts.u, what + " u");
          testing::expect_same_bits(fused.y, parts.y, what);
          testing::expect_same_bits(fused.dx, parts.dx, what + " dx");
        }
      }
    }
  }
}

/// Denormal operands and sums, products that vanish, numbers that cancel.
TEST(Linear, ChainsOfTinyNumbersAreAsStatedOnEveryDevice) {
  for (const LinearCase& c :
       {LinearCase{3, 67, 40}, LinearCase{20, 96, 37, 3}, LinearCase{40, 33, 50}}) {
    for (const Types& types : kTypes) {
      Layer input(c, types);
      input.fill_normal();
      const auto scale = [](TestTensor& t, int64_t salt) {
        t.fill([&](int64_t i) {
          return t.at(i) * std::ldexp(1.0, -60 - static_cast<int>((i * 7 + salt) % 12));
        });
      };
      for (TestTensor* t : {&input.x, &input.w, &input.dy}) scale(*t, 3);
      input.dw.fill([&](int64_t i) { return input.dw.at(i) * 0x1p-124; });
      for (const Operation operation : kOperations) {
        const int k_shards =
            operation == Operation::forward ? c.k_shards : input.backward_input().k_shards;
        const TestTensor expected = stated_result(input, operation, k_shards);
        for (const TestDevice& on : test_devices()) {
          Layer actual = input;
          actual.run(*on.device, operation, "exact");
          testing::expect_same_bits(actual.result(operation), expected,
                                    describe(c, types, operation, on.name));
        }
      }
    }
  }
}

TEST(Linear, PairsBeginAnewWithEveryRunOfRows) {
  for (const std::vector<int32_t>& runs :
       {std::vector<int32_t>{0, 1, 1, 4, 9, 41}, std::vector<int32_t>{0, 16, 41}}) {
    Layer input({41, 129, 70}, kTypes[1]);
    input.fill_normal();
    input.cu_runs = runs;
    const TestTensor expected = stated_result(input, Operation::backward_weight, 1);
    for (const TestDevice& on : test_devices()) {
      Layer whole = input, parts = input;
      whole.run(*on.device, Operation::backward_weight, "exact");
      testing::expect_same_bits(whole.dw, expected, std::string(on.name));
      Exec exec(*on.device);
      for (size_t r = 0; r + 1 < runs.size(); ++r) {
        const int64_t begin = runs[r], count = runs[r + 1] - begin;
        LinearBackwardWeight g = parts.backward_weight();
        linear_backward_weight(exec,
                               {g.dy_TO.rows(begin, count), g.x_TI.rows(begin, count), g.dw_OI});
      }
      testing::expect_same_bits(parts.dw, expected, std::string(on.name) + " run by run");
    }
  }
}

TEST(Linear, BitsDoNotDependOnHowRowsAreCutIntoCalls) {
  const LinearCase c{41, 129, 70};
  for (const Types& types : {kTypes[0], kTypes[1]}) {
    for (const TestDevice& on : test_devices()) {
      Layer whole(c, types);
      whole.fill_normal();
      whole.cu_runs = {0, 1, 4, 12, 28, 41};
      Layer parts = whole;
      Exec exec(*on.device);
      for (const Operation operation : kOperations) whole.run(*on.device, operation, "exact");
      int64_t begin = 0;
      for (const int64_t count : {1, 0, 3, 8, 16, 13}) {
        LinearForward f = parts.forward();
        f.x_TI = f.x_TI.rows(begin, count);
        f.y_TO = f.y_TO.rows(begin, count);
        linear_forward(exec, f);
        LinearBackwardInput b = parts.backward_input();
        b.dy_TO = b.dy_TO.rows(begin, count);
        b.dx_TI = b.dx_TI.rows(begin, count);
        linear_backward_input(exec, b);
        // An odd cut is where pairs begin anew.
        LinearBackwardWeight g = parts.backward_weight();
        g.dy_TO = g.dy_TO.rows(begin, count);
        g.x_TI = g.x_TI.rows(begin, count);
        g.cu_runs = {};
        linear_backward_weight(exec, g);
        begin += count;
      }
      ASSERT_EQ(begin, c.rows);
      for (const Operation operation : kOperations)
        testing::expect_same_bits(parts.result(operation), whole.result(operation),
                                  describe(c, types, operation, on.name));
    }
  }
}

TEST(Linear, NotANumberStaysInItsRowAndColumn) {
  const LinearCase c{18, 50, 40};
  const auto device = device::make_cpu_device(1);
  for (const int64_t rows : {int64_t{3}, c.rows}) {
    Layer l({rows, c.inputs, c.outputs}, kTypes[0]);
    l.fill_normal();
    l.x.set(1, 7, NAN);
    l.w.set(9, 3, NAN);
    l.run(*device, Operation::forward, "exact");
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t o = 0; o < c.outputs; ++o)
        ASSERT_EQ(std::isnan(l.y.at(t, o)), t == 1 || o == 9) << t << " " << o;
  }
}

TEST(Linear, TraceAllocatesAndRecordsWhatTheRunDoes) {
  for (const LinearCase& c : {LinearCase{64, 1700, 96, 2}, LinearCase{2, 96, 64}}) {
    for (const Types& types : {kTypes[0], kTypes[1]}) {
      for (const Operation operation : kOperations) {
        Layer l(c, types);
        l.fill_normal();
        const auto real = device::make_cpu_device(3);
        const auto trace = device::make_trace_device(real->target());
        device::Recorder recorder;
        trace->set_recorder(&recorder);
        l.run(*real, operation, {});
        const Layer before = l;
        l.run(*trace, operation, {});
        testing::expect_same_bits(l.result(operation), before.result(operation),
                                  "a traced run computes nothing");
        const auto high_water = [](device::Device& d) {
          return d.arena(device::MemoryClass::workspace).high_water();
        };
        EXPECT_EQ(high_water(*trace), high_water(*real));
        ASSERT_EQ(recorder.records().size(), 1u);
        EXPECT_EQ(recorder.total().flops, 2.0 * static_cast<double>(c.rows * c.inputs * c.outputs));
      }
    }
  }
}

TEST(Linear, WrongArgumentsAreFound) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  Layer l({4, 6, 5}, kTypes[0]);
  LinearForward f = l.forward();
  f.k_shards = 4;
  EXPECT_THROW(linear_forward(exec, f), InternalError);
  f = l.forward();
  f.y_TO = l.dx;
  EXPECT_THROW(linear_forward(exec, f), InternalError);
  LinearBackwardInput b = l.backward_input();
  b.activation = Activation::gelu_erf;
  EXPECT_THROW(linear_backward_input(exec, b), InternalError);
  LinearBackwardWeight g = l.backward_weight();
  TestTensor bf16(DType::bf16, {5, 6});
  g.dw_OI = bf16;
  EXPECT_THROW(linear_backward_weight(exec, g), InternalError);
  const std::vector<int32_t> falling{0, 3, 2, 4}, short_of{0, 3};
  for (const auto& runs : {falling, short_of}) {
    g = l.backward_weight();
    g.cu_runs = runs;
    EXPECT_THROW(linear_backward_weight(exec, g), InternalError);
  }
}

}  // namespace
}  // namespace megalith::kernels
