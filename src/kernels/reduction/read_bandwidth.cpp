// SPDX-License-Identifier: Apache-2.0
// Every thread adds up its part in eight independent chains of vectors: two loads per cycle, so
// that nothing but memory is waited for.
#include "kernels/reduction/read_bandwidth.h"

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "kernels/elementary/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduction/read_bandwidth.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// Reads whole groups of eight vectors; the rest of a part, at most some hundred bytes, is left.
float sum_of_part(const float* x, int64_t n) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (int64_t i = 0; i + 8 * lanes <= n; i += 8 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, x + i));
    s1 = hn::Add(s1, hn::LoadU(d, x + i + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, x + i + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, x + i + 3 * lanes));
    s4 = hn::Add(s4, hn::LoadU(d, x + i + 4 * lanes));
    s5 = hn::Add(s5, hn::LoadU(d, x + i + 5 * lanes));
    s6 = hn::Add(s6, hn::LoadU(d, x + i + 6 * lanes));
    s7 = hn::Add(s7, hn::LoadU(d, x + i + 7 * lanes));
  }
  const auto low = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  const auto high = hn::Add(hn::Add(s4, s5), hn::Add(s6, s7));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

constexpr int64_t kPiece = 16 << 10;  // 64 KiB, as the columns that a product takes at a time

}  // namespace

StreamingReads::StreamingReads(Exec& exec, int64_t bytes)
    : exec_(&exec),
      buffer_(
          exec.workspace.tensor(DType::f32, Shape{bytes / static_cast<int64_t>(sizeof(float))})),
      sums_(static_cast<size_t>(exec.device.pool().num_threads())) {
  float* x = buffer_.view.as<float>();
  // Written by the thread that reads it: its pages are then where that thread runs.
  exec.device.pool().for_range(buffer_.view.num_elements(), 4096, [&](Range part, int) {
    std::fill(x + part.begin, x + part.end, 1.0f);
  });
}

double StreamingReads::seconds_of_a_pass() {
  const float* x = buffer_.view.as<float>();
  const double begin = monotonic_seconds();
  exec_->device.pool().for_pieces(buffer_.view.num_elements(), kPiece, [&](Range part, int thread) {
    sums_[static_cast<size_t>(thread)] +=
        MEGA_CALL_SIMD(*exec_, sum_of_part, x + part.begin, part.size());
  });
  const double seconds = monotonic_seconds() - begin;
  for (const float sum : sums_) MEGA_CHECK(sum >= 0);  // the sums are used: none may be left out
  return seconds;
}

double read_bandwidth(Exec& exec, int64_t bytes, double seconds) {
  StreamingReads reads(exec, bytes);
  double best = std::numeric_limits<double>::infinity();
  const double end = monotonic_seconds() + seconds;
  for (int pass = 0; pass < 2 || monotonic_seconds() < end; ++pass)
    best = std::min(best, reads.seconds_of_a_pass());
  return static_cast<double>(bytes) / best;
}

}  // namespace megalith::kernels
#endif
