// SPDX-License-Identifier: Apache-2.0
// A model as a GGUF file that llama.cpp and its relatives open.
#pragma once

#include <filesystem>

#include "store/convert.h"
#include "store/model_source.h"
#include "store/quantization.h"

namespace megalith::store {

/// `stored`: of the matrices, by the names of the file; where it says nothing the types as they
/// are, quantised ones as f32. Norms, biases and position embeddings are f32, as llama.cpp wants
/// them, and so are matrices whose rows are no whole blocks. The keys of a tokenizer go from GGUF
/// file to GGUF file as they are; of others they are made (vocabularies/gguf_writing.h). Memory:
/// three copies of the largest tensor in f32. UserError when the format cannot express the model,
/// its tokenizer, or the type a value, and for a choice that no matrix has a name for.
ConvertResult write_gguf(const ModelSource& source, const std::filesystem::path& target,
                         const Quantization& stored, Tokenizers tokenizer);

}  // namespace megalith::store
