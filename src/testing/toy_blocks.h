// SPDX-License-Identifier: Apache-2.0
// Toy models whose weights are in blocks (tensor/blocks.h), the same under every layout.
#pragma once

#include <vector>

#include "engine/settings.h"

namespace megalith::testing {

/// The toy, or the toy of a Llama's layers, so wide that each of four tensor ranks has whole blocks
/// of every row.
engine::Settings toy_wide_settings(bool llama);

/// This format for all of the model's weights that kernels read in blocks.
parameters::StorageFormats toy_formats(const models::ModelSpec& model, Format format);

/// Sets every parameter that is in blocks: a scale, and codes that are a function of (name, logical
/// element).
void fill_blocks(parameters::ParameterSet& set, device::Device& device);

/// The dequantised values of a weight in blocks, row major.
std::vector<float> numbers_of(const Weight& weight);

}  // namespace megalith::testing
