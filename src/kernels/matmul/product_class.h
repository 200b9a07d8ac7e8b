// SPDX-License-Identifier: Apache-2.0
// Which arithmetic multiplies faster differs by machine: bf16 in oneDNN runs at about twice the
// rate of f32 where the CPU has full-rate bf16 dot products, and at half of it where it has not.
// `fast` numerics therefore goes by measurement: products fall into a dozen classes, each timed
// once per machine, and the target carries the outcome (so that a traced plan takes the same turn
// as the run). `exact` never looks at it.
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

/// FLOP/s of one class, and for all of them. 0: this machine's library cannot.
struct ProductRate {
  double exact = 0;
  double library = 0;
};
using ProductRates = std::array<ProductRate, kNumProductClasses>;

/// Times each class on `target`'s threads and instruction set, about `seconds` in all; at least
/// five calls of each, the two sides in turn, and their medians count.
ProductRates measure_products(const device::Target& target, double seconds);

/// target.library_products of these rates: the classes in which the library is at least 5 % faster.
uint32_t library_products(const ProductRates& rates);

/// Whether `fast` takes the library for this class; by the instruction set where nothing was
/// measured.
bool takes_library(const device::Target& target, const ProductClass& c);

/// Of the library (oneDNN) at run time: "2.6.3".
std::string library_version();
/// Whether it multiplies operands of `dtype` here: bf16 only with AVX-512, and where its own limit
/// (ONEDNN_MAX_CPU_ISA) lets it.
bool library_multiplies(DType dtype);

}  // namespace megalith::kernels
