// SPDX-License-Identifier: Apache-2.0
// The implementations behind the lists of convert.cpp, quantize.cpp, quantize_blocks.cpp and
// widen.cpp. Arguments have been checked.
#pragma once

#include "kernels/narrow/convert.h"
#include "kernels/narrow/quantize.h"
#include "kernels/narrow/quantize_blocks.h"
#include "kernels/narrow/widen.h"

namespace megalith::kernels {

struct Convert {
  ConstView x;
  View y;
  Overflow overflow;
};
void convert_simd(Exec& exec, const Convert& arguments);
void convert_reference(Exec& exec, const Convert& arguments);

struct Widen {
  Weight w_OI;
  View y_TI;
  int64_t first;
};
void widen_simd(Exec& exec, const Widen& arguments);
void widen_reference(Exec& exec, const Widen& arguments);

void quantize_simd(Exec& exec, const Quantize& arguments);
void quantize_reference(Exec& exec, const Quantize& arguments);

void dequantize_simd(Exec& exec, const Dequantize& arguments);
void dequantize_reference(Exec& exec, const Dequantize& arguments);

struct AbsoluteMaximum {
  ConstView x;
  View amax;
};
void absolute_maximum_simd(Exec& exec, const AbsoluteMaximum& arguments);
void absolute_maximum_reference(Exec& exec, const AbsoluteMaximum& arguments);

void quantize_blocks_simd(Exec& exec, const QuantizeBlocks& arguments);
void quantize_blocks_reference(Exec& exec, const QuantizeBlocks& arguments);
void round_blocks_simd(Exec& exec, const RoundBlocks& arguments);
void round_blocks_reference(Exec& exec, const RoundBlocks& arguments);

}  // namespace megalith::kernels
