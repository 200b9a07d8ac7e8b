// SPDX-License-Identifier: Apache-2.0
// What the tests of all kernels share: tensors with strides and misaligned starts, seeded fillers,
// comparisons by a stated bound or of bits, the devices that must agree, and finite differences.
// For tests only.
#pragma once

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/recorder.h"
#include "kernels/elementary/reference_access.h"
#include "kernels/exec.h"
#include "math/random.h"
#include "tensor/view.h"

namespace megalith::kernels::testing {

/// Half the distance of neighbouring numbers near 1: the relative error of one rounding.
inline double unit_roundoff(DType dtype) {
  return dtype == DType::bf16  ? 0x1p-8
         : dtype == DType::f16 ? 0x1p-11
         : dtype == DType::f32 ? 0x1p-24
                               : 0x1p-53;
}

/// An owning tensor of [rows, columns] (or 1-D with shape {n}). Its rows may be farther apart than
/// they are long, and its start may be misaligned by some elements. Gaps hold a pattern that
/// expect_gaps_untouched() checks.
class TestTensor {
 public:
  TestTensor(DType dtype, const Shape& shape, int64_t gap = 0, int64_t misaligned = 0)
      : dtype_(dtype), shape_(shape), misaligned_(misaligned) {
    columns_ = 1;
    for (int i = 1; i < shape.num_dims(); ++i) columns_ *= shape[i];
    rows_ = shape.num_dims() == 0 ? 1 : shape[0];
    stride_ = columns_ + gap;
    const int64_t elements = misaligned + rows_ * stride_ + 64;
    bytes_.assign(static_cast<size_t>(elements * bytes_of(dtype)), std::byte{0x7b});
  }

  View view() {
    return View(bytes_.data() + misaligned_ * bytes_of(dtype_), dtype_, shape_, stride_);
  }
  ConstView view() const {
    return ConstView(bytes_.data() + misaligned_ * bytes_of(dtype_), dtype_, shape_, stride_);
  }
  operator View() { return view(); }             // NOLINT(google-explicit-constructor)
  operator ConstView() const { return view(); }  // NOLINT(google-explicit-constructor)

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t size() const { return rows_ * columns_; }
  double at(int64_t row, int64_t column) const { return read_double(view(), row, column); }
  double at(int64_t i) const { return at(i / columns_, i % columns_); }
  void set(int64_t row, int64_t column, double value) { write_double(view(), row, column, value); }
  void set(int64_t i, double value) { set(i / columns_, i % columns_, value); }

  /// Elements by a function of their row-major number.
  TestTensor& fill(const std::function<double(int64_t)>& value) {
    for (int64_t i = 0; i < size(); ++i) set(i, value(i));
    return *this;
  }
  TestTensor& fill_constant(double value) {
    return fill([=](int64_t) { return value; });
  }
  /// Standard normal draws times `scale`, rounded to the dtype.
  TestTensor& fill_normal(uint64_t seed, double scale = 1.0) {
    return fill([=](int64_t i) { return scale * normal(seed, static_cast<uint64_t>(i)); });
  }
  /// Integers in [low, high]: sums of a few of them are exact in any order.
  TestTensor& fill_integers(uint64_t seed, int64_t low, int64_t high) {
    return fill([=](int64_t i) {
      const uint32_t word = philox(seed, static_cast<uint64_t>(i), 0)[0];
      return static_cast<double>(
          low + static_cast<int64_t>(word % static_cast<uint64_t>(high - low + 1)));
    });
  }
  /// The same numbers, rounded, in another type and layout.
  TestTensor as(DType dtype, int64_t gap = 0, int64_t misaligned = 0) const {
    TestTensor other(dtype, shape_, gap, misaligned);
    other.fill([this](int64_t i) { return at(i); });
    return other;
  }
  /// Checks that nothing was written before, between or after the rows.
  void expect_gaps_untouched() const {
    const int64_t size = bytes_of(dtype_), all = static_cast<int64_t>(bytes_.size());
    const auto expect_pattern = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        ASSERT_EQ(static_cast<int>(bytes_[static_cast<size_t>(i)]), 0x7b) << "byte " << i;
      }
    };
    int64_t end = 0;  // of what may be written
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t begin = (misaligned_ + row * stride_) * size;
      expect_pattern(end, begin);
      end = begin + columns_ * size;
    }
    expect_pattern(end, all);
  }
  /// Every byte, gaps included.
  bool has_equal_bytes(const TestTensor& other) const {
    return dtype_ == other.dtype_ && stride_ == other.stride_ && bytes_ == other.bytes_;
  }

 private:
  DType dtype_;
  Shape shape_;
  int64_t rows_ = 0, columns_ = 0, stride_ = 0, misaligned_ = 0;
  std::vector<std::byte> bytes_;
};

/// A device and what to call it in messages.
struct TestDevice {
  std::string name;
  std::unique_ptr<device::Device> device;
};

/// 1, 2 and 3 threads on the instruction sets of this machine, from AVX2 up: all must give the same
/// bits.
inline std::vector<TestDevice> test_devices() {
  std::vector<TestDevice> devices;
  const device::Isa best = device::detect_isa();
  for (const device::Isa isa : {device::Isa::avx2, device::Isa::avx512, device::Isa::avx512_bf16}) {
    if (isa > best) continue;
    for (const int threads : {1, 2, 3}) {
      // Plain AVX-512 differs from AVX512-BF16 in the bf16 chain alone.
      if (isa == device::Isa::avx512 && isa < best && threads < 3) continue;
      devices.push_back({fmt::format("{}_{}_threads", device::name_of(isa), threads),
                         device::make_cpu_device(threads, isa)});
    }
  }
  return devices;
}

/// What a run of an operation wrote, in an order of the test's choice.
using Outputs = std::vector<TestTensor>;

/// True for equal numbers with equal signs of zero, and for two NaNs.
inline void expect_same_bits(const TestTensor& actual, const TestTensor& expected,
                             const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  if (actual.has_equal_bytes(expected)) return;
  for (int64_t i = 0; i < actual.size(); ++i) {
    const double a = actual.at(i), b = expected.at(i);
    const bool same =
        (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
    ASSERT_TRUE(same) << what << ": element " << i << " of [" << actual.rows() << ", "
                      << actual.columns() << "] is " << fmt::format("{:a}", a) << " and not "
                      << fmt::format("{:a}", b);
  }
}

inline void expect_same_bits(const Outputs& actual, const Outputs& expected,
                             const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    expect_same_bits(actual[i], expected[i], fmt::format("{}, output {}", what, i));
  }
}

/// Checks that denormals are numbers on every thread of the device: a kernel that flushed them has
/// put MXCSR back.
inline void expect_denormals(device::Device& device, const std::string& what) {
  device.pool().run([&](int thread) {
    EXPECT_EQ(_mm_getcsr() & 0x8040u, 0u) << what << " leaves FTZ or DAZ set on thread " << thread;
  });
}

/// What `run` gives with the list's own choice. Checks that it is the same to the bit on every test
/// device, that nothing is written outside of the rows, and that no thread flushes denormals.
inline Outputs run_everywhere(const std::function<Outputs(Exec&)>& run, const std::string& what) {
  static const std::vector<TestDevice> devices = test_devices();  // threads are slow to start
  Outputs first;
  for (const TestDevice& test : devices) {
    Exec exec(*test.device);
    Outputs outputs = run(exec);
    for (const TestTensor& output : outputs) output.expect_gaps_untouched();
    expect_denormals(*test.device, fmt::format("{} on {}", what, test.name));
    if (first.empty()) first = outputs;
    expect_same_bits(outputs, first, fmt::format("{} on {}", what, test.name));
  }
  return first;
}
/// What the reference gives.
inline Outputs run_reference(const std::function<Outputs(Exec&)>& run) {
  static const std::unique_ptr<device::Device> device = device::make_cpu_device(1);
  Exec exec(*device);
  exec.only = "reference";
  return run(exec);
}

/// |actual - expected| <= bound(i) for each element, and in f16, whose denormals begin early, a
/// unit of those for the two that were rounded; a NaN is right only where one is expected.
inline void expect_close(const TestTensor& actual, const TestTensor& expected,
                         const std::function<double(int64_t)>& bound, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const double denormal = actual.dtype() == DType::f16 ? 0x1p-24 : 0;
  for (int64_t i = 0; i < actual.size(); ++i) {
    const double a = actual.at(i), b = expected.at(i);
    if (std::isnan(b) && std::isnan(a)) continue;
    if (a == b) continue;
    ASSERT_LE(std::abs(a - b), bound(i) + denormal)
        << what << ": element " << i << " of [" << actual.rows() << ", " << actual.columns()
        << "] is " << a << " and not " << b;
  }
}
inline void expect_close(const TestTensor& actual, const TestTensor& expected, double bound,
                         const std::string& what) {
  expect_close(
      actual, expected, [=](int64_t) { return bound; }, what);
}

/// What the list's own choice gives against the reference, in f32 that is rounded once from f64:
/// functions differ by less than an ulp of that. `cancels`: how far apart numbers may be that
/// cancel.
inline void expect_reference(const std::function<Outputs(Exec&)>& run, double cancels,
                             const std::string& what) {
  const Outputs actual = run_everywhere(run, what), expected = run_reference(run);
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    const auto bound = [&](int64_t at) {
      return 0x1.01p-23 * std::abs(expected[i].at(at)) + cancels;
    };
    expect_close(actual[i], expected[i], bound, fmt::format("{}, output {}", what, i));
  }
}

/// Compares `gradient` with a four-point difference of `loss` in each element of x (f64), which
/// `loss` reads.
inline void expect_gradient(const std::function<double()>& loss, TestTensor& x,
                            const TestTensor& gradient, double relative, const std::string& what) {
  constexpr double kStep = 1e-3;
  double scale = 1e-3;
  for (int64_t i = 0; i < x.size(); ++i) scale = std::max(scale, std::abs(gradient.at(i)));
  for (int64_t i = 0; i < x.size(); ++i) {
    const double here = x.at(i);
    const auto at = [&](double offset) {
      x.set(i, here + offset * kStep);
      return loss();
    };
    const double slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * kStep);
    x.set(i, here);
    ASSERT_LE(std::abs(slope - gradient.at(i)), relative * scale)
        << what << ": element " << i << " is " << gradient.at(i) << ", the difference says "
        << slope;
  }
}

/// Checks that a trace device counts the kernel once under `name` and leaves no scratch behind.
/// `run` is given an Exec on that device; no pointer is followed, so it may pass any.
inline device::Work traced_work(const std::function<void(Exec&)>& run, const std::string& name) {
  const auto device = device::make_trace_device({device::DeviceKind::cpu, device::Isa::avx512, 4});
  device::Recorder recorder;
  device->set_recorder(&recorder);
  Exec exec(*device);
  run(exec);
  EXPECT_EQ(device->total().in_use, 0);
  EXPECT_EQ(recorder.records().size(), 1u);
  for (const device::Record& record : recorder.records()) EXPECT_EQ(record.name, name);
  return recorder.total();
}

/// sum_i weight_i x_i: a loss whose gradient in x is `weight`.
inline double weighted_sum(const TestTensor& x, const TestTensor& weight) {
  double sum = 0;
  for (int64_t i = 0; i < x.size(); ++i) sum += x.at(i) * weight.at(i);
  return sum;
}

}  // namespace megalith::kernels::testing
