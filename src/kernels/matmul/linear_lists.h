// SPDX-License-Identifier: Apache-2.0
// The implementations of the three products, for the lists of linear.cpp. Arguments have passed the
// checks there.
#pragma once

#include "kernels/matmul/linear.h"

namespace megalith::kernels::matmul {

/// Plain loops in double over any type: the specification.
void reference(Exec& exec, const LinearForward& arguments);
void reference(Exec& exec, const LinearBackwardInput& arguments);
void reference(Exec& exec, const LinearBackwardWeight& arguments);

/// The fixed arithmetic of linear.h on our own micro-kernels, f32, bf16 and f16.
void exact(Exec& exec, const LinearForward& arguments);
void exact(Exec& exec, const LinearBackwardInput& arguments);
void exact(Exec& exec, const LinearBackwardWeight& arguments);
std::string_view exact_refuses(const Exec& exec, const LinearForward& arguments);
std::string_view exact_refuses(const Exec& exec, const LinearBackwardInput& arguments);
std::string_view exact_refuses(const Exec& exec, const LinearBackwardWeight& arguments);
int64_t exact_scratch_bytes(const Exec& exec, const LinearForward& arguments);
int64_t exact_scratch_bytes(const Exec& exec, const LinearBackwardInput& arguments);
int64_t exact_scratch_bytes(const Exec& exec, const LinearBackwardWeight& arguments);

/// Weights in blocks times rows of x that are rounded to 8 bits; `fast` numerics only (dot8.h).
void dot8(Exec& exec, const LinearForward& arguments);
std::string_view dot8_refuses(const Exec& exec, const LinearForward& arguments);
int64_t dot8_scratch_bytes(const Exec& exec, const LinearForward& arguments);

/// oneDNN, one thread per tile of the result; `fast` numerics only.
void onednn(Exec& exec, const LinearForward& arguments);
void onednn(Exec& exec, const LinearBackwardInput& arguments);
void onednn(Exec& exec, const LinearBackwardWeight& arguments);
std::string_view onednn_refuses(const Exec& exec, const LinearForward& arguments);
std::string_view onednn_refuses(const Exec& exec, const LinearBackwardInput& arguments);
std::string_view onednn_refuses(const Exec& exec, const LinearBackwardWeight& arguments);
int64_t onednn_scratch_bytes(const Exec& exec, const LinearForward& arguments);
int64_t onednn_scratch_bytes(const Exec& exec, const LinearBackwardInput& arguments);
int64_t onednn_scratch_bytes(const Exec& exec, const LinearBackwardWeight& arguments);

}  // namespace megalith::kernels::matmul
