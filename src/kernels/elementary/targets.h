// SPDX-License-Identifier: Apache-2.0
// The instruction sets that Highway compiles our kernels for: AVX2 (with FMA) and AVX-512, nothing
// else. Include before "hwy/foreach_target.h". The baseline is declared to be AVX2 although the
// compiler's own is plain x86-64. Only code between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE
// uses it, and that is called only after device::detect_isa() has found AVX2 (dispatch.h); so no
// scalar copy is needed.
#pragma once

#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_DISABLED_TARGETS HWY_AVX3_DL
