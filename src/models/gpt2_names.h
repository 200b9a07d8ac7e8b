// SPDX-License-Identifier: Apache-2.0
// GPT-2's tensors as Hugging Face names and stores them, against ours, bit for bit both ways.
//   theirs  projections are [in, out] (y = x W + b); the fused projection's columns are q, k, v,
//   each
//           over all heads; the vocabulary is not padded
//   ours    projections are [out, in]; fused rows go head by head (q, k, v of a head together, see
//           layers/attention.h); the embedding has zero rows up to a multiple of 128
// Source: transformers, modeling_gpt2.py (Conv1D).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/architecture.h"
#include "tensor/shape.h"

namespace megalith::models {

struct Gpt2Tensor {
  enum class Layout {
    rows,        // the same rows; ours may have more, of zeros
    transposed,  // ours is the transpose
    fused        // ours is the transpose, its rows ordered by head
  };
  std::string name;
  Shape shape;
  std::string foreign_name;  // "transformer." included, which older files leave out
  Shape foreign_shape;
  Layout layout = Layout::rows;
  int64_t head_size = 0;  // fused only
};

inline constexpr std::string_view kGpt2Prefix = "transformer.";

/// UserError naming what GPT-2 does not have (grouped heads, RMS norm, ...).
void check_gpt2_can_express(const Architecture& architecture);

/// Every parameter of the model, in the order of the layers. A tied head has no tensor.
std::vector<Gpt2Tensor> gpt2_tensors(const Architecture& architecture);

/// Buffers of old files that are no parameters: h.I.attn.bias and h.I.attn.masked_bias, with or
/// without prefix.
bool is_gpt2_buffer(std::string_view foreign_name);

/// Moves elements of `element_bytes` (1, 2, 4 or 8) bytes: `ours` [shape] from `foreign`
/// [foreign_shape], or the other way round. Overwrites all of the destination.
void gpt2_to_ours(const Gpt2Tensor& tensor, int64_t element_bytes, const void* foreign, void* ours);
void gpt2_from_ours(const Gpt2Tensor& tensor, int64_t element_bytes, const void* ours,
                    void* foreign);

}  // namespace megalith::models
