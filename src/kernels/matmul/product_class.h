// SPDX-License-Identifier: Apache-2.0
// Which arithmetic multiplies faster depends on the machine: bf16 in oneDNN runs at about twice the
// rate of f32 where the CPU has full-rate bf16 dot products, and at half of it elsewhere. So `fast`
// numerics measures: products fall into a dozen classes, each timed once per machine, and the
// target carries the outcome (so a traced plan takes the same branches as the run). `exact` never
// looks at it.
#pragma once

#include <array>
#include <string>

#include "device/target.h"
#include "tensor/dtype.h"

namespace megalith::kernels {

enum class ProductKind : uint8_t { forward, backward_input, backward_weight };

struct ProductClass {
  ProductKind kind = ProductKind::forward;
  bool is_bf16 = false;   // both operands; else f32
  bool is_large = false;  // at least kLargeProductFlops
  friend bool operator==(const ProductClass&, const ProductClass&) = default;
};
inline constexpr double kLargeProductFlops = 2e9;
inline constexpr int kNumProductClasses = 12;
ProductClass product_class(int index);
int index_of(const ProductClass& c);
/// "bf16 backward_weight, large"
std::string name_of(const ProductClass& c);

/// FLOP/s of one class of products, and below of all classes. 0: this machine's library cannot.
struct ProductRate {
  double exact = 0;
  double library = 0;
};
using ProductRates = std::array<ProductRate, kNumProductClasses>;

/// Times each class on `target`'s threads and instruction set, for about `seconds` in all: at least
/// five calls of each side, in alternation; medians count.
ProductRates measure_products(const device::Target& target, double seconds);

/// target.library_products for these rates: the classes in which the library is at least 5 %
/// faster.
uint32_t library_products(const ProductRates& rates);

/// True if `fast` gives this class to the library; decided by the instruction set where nothing was
/// measured.
bool takes_library(const device::Target& target, const ProductClass& c);

/// The version of the library (oneDNN) at run time: "2.6.3".
std::string library_version();
/// True if the library multiplies operands of `dtype` here: bf16 only with AVX-512, and only as far
/// as its own limit (ONEDNN_MAX_CPU_ISA) allows.
bool library_multiplies(DType dtype);

}  // namespace megalith::kernels
