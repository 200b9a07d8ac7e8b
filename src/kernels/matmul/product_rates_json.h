// SPDX-License-Identifier: Apache-2.0
// Measured rates as a text that is kept between starts. It lies in the user's cache folder, where
// anybody may write and disks fail, so nothing in it is taken on trust: a text that is not wholly
// sound is none, and the machine is measured anew.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kernels/matmul/product_class.h"

namespace megalith::kernels {

/// `machine` is everything that the rates depend on, in words.
std::string rates_text(const ProductRates& rates, std::string_view machine);

/// The rates in such a text; nothing when it is damaged, of another machine, or holds what no
/// machine has (FLOP/s that are not finite and positive; 0 for a library that cannot).
std::optional<ProductRates> rates_in(std::string_view text, std::string_view machine);

}  // namespace megalith::kernels
