// SPDX-License-Identifier: Apache-2.0
#include "store/write_gguf.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/state_digest.h"
#include "gguf/widen.h"
#include "gguf/writer.h"
#include "gguf_models/model_description.h"
#include "optim/adamw.h"
#include "store/foreign_tensors.h"
#include "store/gguf_layout.h"
#include "vocabularies/gguf_writing.h"

namespace megalith::store {
namespace {

using gguf::TensorType;

constexpr std::string_view kPositions = "position_embd.weight", kTokens = "token_embd.weight",
                           kLogits = "output.weight";

TensorType plain_type(DType dtype) {
  if (dtype == DType::bf16) return TensorType::bf16;
  return dtype == DType::f16 ? TensorType::f16 : TensorType::f32;
}

bool is_matrix(const ForeignTensor& tensor) {
  return tensor.shape.num_dims() > 1 && tensor.name != kPositions;
}

TensorType type_of(const ForeignTensor& tensor, DType dtype, const Quantization& stored) {
  if (!is_matrix(tensor)) return TensorType::f32;
  const bool is_of_vocabulary = tensor.name == kTokens || tensor.name == kLogits;
  return stored.type_for(tensor.name, is_of_vocabulary).value_or(plain_type(dtype));
}

bool has_whole_blocks(const ForeignTensor& tensor, TensorType type) {
  return tensor.shape[tensor.shape.num_dims() - 1] % gguf::block_layout(type).elements == 0;
}

/// llama.cpp's number for what most of the file is stored as.
uint32_t file_type(TensorType type) {
  switch (type) {
    case TensorType::f16:
      return 1;
    case TensorType::q4_0:
      return 2;
    case TensorType::q4_1:
      return 3;
    case TensorType::q8_0:
      return 7;
    case TensorType::bf16:
      return 32;
    default:
      return 0;
  }
}

/// What the tensors are made of, alive until the last is written.
struct Export {
  const ModelSource& source;
  const gguf_models::Architecture& architecture;
  std::vector<models::TensorMap> maps;
};

/// The values of a foreign tensor, in the order of the file.
std::vector<float> values_of(const Export& from, const ForeignTensor& tensor) {
  const models::ModelSpec& spec = from.source.spec();
  const std::string& our_name = from.maps[tensor.moves.front().first].name;
  std::vector<float> theirs(static_cast<size_t>(tensor.shape.num_elements()));
  {
    const std::vector<std::byte> ours =
        read_as(from.source, *from.source.weights().find(our_name), DType::f32);
    for (const auto& [m, i] : tensor.moves)
      models::from_ours(from.maps[m], from.maps[m].moves[i], sizeof(float), ours.data(),
                        theirs.data());
  }
  const float offset = stored_offset(spec, our_name);
  if (offset != 0) {
    for (float& value : theirs) value += offset;
  }
  if (const int64_t head_dim = paired_head_dim(from.architecture, spec, tensor.name))
    pair_rows(std::as_writable_bytes(std::span(theirs)), tensor.shape[0], head_dim);
  return theirs;
}

gguf::TensorContent content_of(const std::shared_ptr<const Export>& from, ForeignTensor tensor,
                               TensorType type) {
  gguf::TensorContent content{tensor.name, type, tensor.shape, {}};
  const auto bytes = static_cast<size_t>(content.bytes());
  content.write = [from, tensor = std::move(tensor), type, bytes](gguf::TensorContent::Sink sink) {
    const std::vector<float> values = values_of(*from, tensor);
    std::vector<std::byte> blocks(bytes);
    if (!gguf::narrow(type, values, blocks)) {
      throw UserError("tensor {} holds a value that {} cannot hold; choose bf16 or f32",
                      tensor.name, type);
    }
    sink(blocks);
  };
  return content;
}

gguf::TensorContent factor_content(const std::string& name, const std::vector<float>& factors) {
  return {name, TensorType::f32, Shape{static_cast<int64_t>(factors.size())},
          [factors](gguf::TensorContent::Sink sink) { sink(std::as_bytes(std::span(factors))); }};
}

/// The tokenizer and its chat templates, or that there is none; and the ids that end a text.
gguf::OrderedMetadata tokenizer_of(const ModelSource& source, Tokenizers tokenizer) {
  const bool is_written = source.tokenizer() && tokenizer == Tokenizers::carried;
  const vocabularies::TextEnds ends{source.begin_id(), source.end_ids()};
  if (!is_written) {
    gguf::OrderedMetadata keys{{"tokenizer.ggml.model", gguf::Value::text("none")}};
    for (auto& key : gguf_models::special_keys({ends.end, ends.begin}))
      keys.push_back(std::move(key));
    return keys;
  }
  vocabularies::GgufVocabulary written = vocabularies::write_gguf_vocabulary(
      *source.tokenizer(), source.texts(), source.spec().vocab, ends);
  if (!written.losses.empty())
    log::warning("readers of the GGUF file may see a text otherwise: {}",
                 fmt::join(written.losses, "; "));
  const auto append = [&](gguf::OrderedMetadata keys) {
    std::ranges::move(keys, std::back_inserter(written.keys));
  };
  append(gguf_models::special_keys({written.ends.end, written.ends.begin}));
  append(vocabularies::gguf_template_keys(source.texts()));
  return std::move(written.keys);
}

gguf::OrderedMetadata metadata_of(const ModelSource& source, TensorType matrices, bool has_blocks,
                                  const gguf_models::WrittenDescription& description,
                                  Tokenizers tokenizer) {
  using gguf::Value;
  const std::string_view architecture = gguf_models::architecture_of(source.spec()).name;
  gguf::OrderedMetadata metadata{{"general.architecture", Value::text(architecture)},
                                 {"general.type", Value::text("model")},
                                 {"general.file_type", Value::u32(file_type(matrices))}};
  if (has_blocks) metadata.emplace_back("general.quantization_version", Value::u32(2));
  const auto append = [&](const auto& keys) {
    metadata.insert(metadata.end(), keys.begin(), keys.end());
  };
  append(description.keys);
  if (!source.tokenizer_keys().empty() && tokenizer == Tokenizers::carried) {
    append(source.tokenizer_keys());
    return metadata;
  }
  append(tokenizer_of(source, tokenizer));
  return metadata;
}

/// A pattern that no matrix matches is a slip of the pen.
void check_choices(std::span<const TensorChoice> choices, std::span<const ForeignTensor> tensors) {
  for (const TensorChoice& choice : choices) {
    const auto matches = [&](const ForeignTensor& tensor) {
      return is_matrix(tensor) && optim::matches(choice.pattern, tensor.name);
    };
    if (std::ranges::any_of(tensors, matches)) continue;
    const auto example = std::ranges::find_if(tensors, is_matrix);
    throw UserError("no matrix of the file is called '{}'; {} is one", choice.pattern,
                    example->name);
  }
}

/// What most of the matrices' elements are stored as.
TensorType most_of(std::span<const gguf::TensorContent> tensors) {
  std::map<TensorType, int64_t> elements;
  for (const gguf::TensorContent& tensor : tensors)
    if (tensor.shape.num_dims() > 1) elements[tensor.type] += tensor.shape.num_elements();
  return std::ranges::max_element(elements, {}, [](const auto& each) { return each.second; })
      ->first;
}

/// Of what the file holds, under our names and in our layout.
std::string digest_of(const std::filesystem::path& path, int tensor_shards) {
  const ModelSource written = ModelSource::open(path, tensor_shards);
  checkpoint::StateDigest digest;
  for (const StoredTensor& tensor : written.weights().tensors())
    digest.add(tensor.name, tensor.dtype, tensor.shape, sha256(written.weights().read(tensor)));
  return digest.finish();
}

}  // namespace

ConvertResult write_gguf(const ModelSource& source, const std::filesystem::path& target,
                         const Quantization& stored, Tokenizers tokenizer) {
  const models::ModelSpec& spec = source.spec();
  const gguf_models::Architecture& architecture = gguf_models::architecture_of(spec);
  const gguf_models::WrittenDescription description = gguf_models::describe(spec);
  const auto from = std::make_shared<const Export>(
      Export{source, architecture,
             models::tensor_maps(spec, architecture.tensors, source.tensor_shards())});
  std::vector<ForeignTensor> foreign = by_foreign_name(from->maps);
  check_choices(stored.choices, foreign);
  std::vector<gguf::TensorContent> tensors;
  std::vector<std::string> uneven;
  for (ForeignTensor& tensor : foreign) {
    const std::string& our_name = from->maps[tensor.moves.front().first].name;
    TensorType type = type_of(tensor, source.weights().find(our_name)->dtype, stored);
    if (!has_whole_blocks(tensor, type)) {
      uneven.push_back(tensor.name);
      type = TensorType::f32;
    }
    tensors.push_back(content_of(from, std::move(tensor), type));
  }
  if (!uneven.empty())
    log::warning("rows of {} matrices are no whole blocks: stored as F32; {} is one", uneven.size(),
                 uneven.front());
  const TensorType matrices = most_of(tensors);
  for (const auto& [name, factors] : description.factors)
    tensors.push_back(factor_content(name, factors));
  const bool has_blocks = std::ranges::any_of(
      tensors, [](const auto& tensor) { return gguf::block_layout(tensor.type).elements > 1; });
  gguf::write_file(target, metadata_of(source, matrices, has_blocks, description, tokenizer),
                   tensors);
  return {static_cast<int64_t>(tensors.size()), spec.num_parameters(),
          digest_of(target, source.tensor_shards())};
}

}  // namespace megalith::store
