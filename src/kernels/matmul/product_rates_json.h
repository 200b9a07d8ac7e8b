// SPDX-License-Identifier: Apache-2.0
// Measured rates, as a text that is kept between starts. It lies in the user's cache folder, where
// disks fail and anybody may write, so nothing in it is trusted: unless the whole text is sound it
// is ignored, and the machine is measured again.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kernels/matmul/product_class.h"

namespace megalith::kernels {

/// `machine`: everything that the rates depend on, in words.
std::string rates_text(const ProductRates& rates, std::string_view machine);

/// The rates in such a text. Nothing if it is damaged, is of another machine, or holds impossible
/// values (FLOP/s must be finite and positive; 0 means that the library cannot).
std::optional<ProductRates> rates_in(std::string_view text, std::string_view machine);

}  // namespace megalith::kernels
