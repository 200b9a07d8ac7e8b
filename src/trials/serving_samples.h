// SPDX-License-Identifier: Apache-2.0
// What kernels take here in passes that read and write text: small decoders of several shapes with
// weights in each format, prompts of several lengths, and one to sixteen texts that are written.
// Their weights are more than caches hold, as those of models that are served: a token reads them
// all from memory.
#pragma once

#include "trials/kernel_samples.h"

namespace megalith::trials {

/// Of each kernel at each place of a pass the fastest of `options.steps`; what is outside of
/// kernels as clusters::kOutsideKernels. On rank 0, while all ranks work. Activations are bf16.
std::vector<KernelSample> sample_passes(const SamplingOptions& options);

/// By kernel and type, with rising intensities: one row of a product apart from a few, and these
/// from many, where samples are of both.
std::vector<FittedRate> fit_serving_rates(std::vector<KernelSample> samples);

}  // namespace megalith::trials
