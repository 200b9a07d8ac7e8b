// SPDX-License-Identifier: Apache-2.0
// Rows of tables of tensors that BERT's descendants have: those of its names, behind any prefix.
#pragma once

#include "families/shared_rows.h"

namespace megalith::models {

inline constexpr ForeignRow kEncoderEmbeddingRows[] = {
    {"embedding.weight", {{".embeddings.word_embeddings.weight", Part::rows}}},
    {"position.weight", {{".embeddings.position_embeddings.weight", Part::rows}}},
    {"token_type.weight", {{".embeddings.token_type_embeddings.weight", Part::rows}}},
    {"embedding.norm.weight", {{".embeddings.LayerNorm.weight", Part::rows}}},
    {"embedding.norm.bias", {{".embeddings.LayerNorm.bias", Part::rows}}},
};
inline constexpr ForeignRow kEncoderLayerRows[] = {
    {"layers.*.attention.qkv.weight",
     {{".encoder.layer.*.attention.self.query.weight", Part::query},
      {".encoder.layer.*.attention.self.key.weight", Part::key},
      {".encoder.layer.*.attention.self.value.weight", Part::value}}},
    {"layers.*.attention.qkv.bias",
     {{".encoder.layer.*.attention.self.query.bias", Part::query},
      {".encoder.layer.*.attention.self.key.bias", Part::key},
      {".encoder.layer.*.attention.self.value.bias", Part::value}}},
    {"layers.*.attention.output.weight",
     {{".encoder.layer.*.attention.output.dense.weight", Part::rows}}},
    {"layers.*.attention.output.bias",
     {{".encoder.layer.*.attention.output.dense.bias", Part::rows}}},
    {"layers.*.norm_1.weight",
     {{".encoder.layer.*.attention.output.LayerNorm.weight", Part::rows}}},
    {"layers.*.norm_1.bias", {{".encoder.layer.*.attention.output.LayerNorm.bias", Part::rows}}},
    {"layers.*.mlp.up.weight", {{".encoder.layer.*.intermediate.dense.weight", Part::rows}}},
    {"layers.*.mlp.up.bias", {{".encoder.layer.*.intermediate.dense.bias", Part::rows}}},
    {"layers.*.mlp.down.weight", {{".encoder.layer.*.output.dense.weight", Part::rows}}},
    {"layers.*.mlp.down.bias", {{".encoder.layer.*.output.dense.bias", Part::rows}}},
    {"layers.*.norm_2.weight", {{".encoder.layer.*.output.LayerNorm.weight", Part::rows}}},
    {"layers.*.norm_2.bias", {{".encoder.layer.*.output.LayerNorm.bias", Part::rows}}},
};

}  // namespace megalith::models
