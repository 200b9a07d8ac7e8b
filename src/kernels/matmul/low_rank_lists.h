// SPDX-License-Identifier: Apache-2.0
// The implementations of low_rank.h; arguments have been checked.
#pragma once

#include "kernels/matmul/low_rank.h"

namespace megalith::kernels {

void low_rank_project_simd(Exec& exec, const LowRankProject& arguments);
void low_rank_project_reference(Exec& exec, const LowRankProject& arguments);
void low_rank_add_simd(Exec& exec, const LowRankAdd& arguments);
void low_rank_add_reference(Exec& exec, const LowRankAdd& arguments);

}  // namespace megalith::kernels
