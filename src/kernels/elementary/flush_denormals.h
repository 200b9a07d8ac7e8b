// SPDX-License-Identifier: Apache-2.0
// FMA instructions compute the bf16 chain (math/bf16_chain.h) only with FTZ and DAZ set; everything
// else wants IEEE arithmetic. While one of these lives, the calling thread takes and flushes
// denormals as zeros; then MXCSR is as it was. The compiler may move arithmetic on registers across
// it, but no access to memory: inside stands a loop over memory or a call that is not inlined, and
// tests with denormals in the chain and in what surrounds it look at the result.
#pragma once

#include <xmmintrin.h>

namespace megalith::kernels {

class FlushDenormals {
 public:
  /// With `on` false nothing changes: the instruction VDPBF16PS does not look at MXCSR.
  explicit FlushDenormals(bool on) : before_(on ? _mm_getcsr() : 0), on_(on) {
    if (on_) _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero);
  }
  ~FlushDenormals() {
    if (on_) _mm_setcsr(before_);
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  unsigned before_;
  bool on_;
};

}  // namespace megalith::kernels
