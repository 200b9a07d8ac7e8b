// SPDX-License-Identifier: Apache-2.0
// Architectures of GGUF files: a family as llama.cpp stores it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "families/families.h"
#include "gguf/writer.h"
#include "gguf_models/metadata_keys.h"

namespace megalith::gguf_models {

using models::ModelSpec;

/// Keys with values that are about to be written; the architecture stands before each.
class KeyWriter {
 public:
  explicit KeyWriter(std::string_view architecture) : prefix_(std::string(architecture) + ".") {}
  void add(std::string_view key, gguf::Value value) {
    keys_.emplace_back(prefix_ + std::string(key), std::move(value));
  }
  /// UserError when the number needs more than 32 bits.
  void add_count(std::string_view key, int64_t number);
  void add_number(std::string_view key, double number);
  const gguf::OrderedMetadata& keys() const { return keys_; }

 private:
  std::string prefix_;
  gguf::OrderedMetadata keys_;
};

struct Architecture {
  std::string_view name;    // general.architecture
  std::string_view family;  // ours
  models::ForeignTable tensors;
  /// Queries and keys turn in neighbouring pairs: of each head, row 2i is our row i, row 2i + 1 our
  /// row i + head_dim / 2.
  bool paired_heads = false;
  /// Keys that this architecture alone has. model: in, with everything that all have.
  void (*read)(const MetadataKeys& keys, ModelSpec& model) = nullptr;
  void (*write)(const ModelSpec& model, KeyWriter& keys) = nullptr;
};

std::span<const Architecture* const> architectures();
/// UserError naming `where` and listing the architectures when there is none such.
const Architecture& architecture_named(std::string_view name, const std::string& where);
/// That of a family's models, mistral's too; UserError naming the family when it has none.
const Architecture& architecture_of(const ModelSpec& model);

extern const Architecture kLlama, kQwen2, kQwen3, kGemma, kGemma2, kGemma3, kPhi3, kOlmo2,
    kStarcoder2, kGptNeox, kGpt2;

/// Tensors of angles that stand beside the parameters (rope_metadata.h).
inline constexpr std::string_view kRopeFrequencies = "rope_freqs.weight";
inline constexpr std::string_view kRopeLong = "rope_factors_long.weight";
inline constexpr std::string_view kRopeShort = "rope_factors_short.weight";
inline constexpr std::string_view kFactorTensors[] = {kRopeFrequencies, kRopeLong, kRopeShort};

}  // namespace megalith::gguf_models
