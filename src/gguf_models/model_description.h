// SPDX-License-Identifier: Apache-2.0
// What a GGUF file says of its model besides the weights, to a ModelSpec and back.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gguf_models/architecture.h"

namespace megalith::gguf_models {

struct ModelDescription {
  gguf::Metadata metadata;
  /// Names of all tensors: which biases there are, and whether there is an output projection.
  std::set<std::string, std::less<>> tensors;
  /// Rows of token_embd.weight, which stand for a missing vocab_size; 0: there is none.
  int64_t vocab_rows = 0;
  /// The values of kFactorTensors, those that there are.
  std::map<std::string, std::vector<float>, std::less<>> factors;
};

/// UserError naming `where` and the key of what has no code here.
ModelSpec read_model(const ModelDescription& description, const std::string& where);

/// Keys of the architecture and the tensors of factors, for a model of which a file can say
/// everything; UserError naming what it cannot say: it would read back as another model.
struct WrittenDescription {
  gguf::OrderedMetadata keys;
  std::map<std::string, std::vector<float>, std::less<>> factors;
};
WrittenDescription describe(const ModelSpec& model);

/// Ids that end a text and the one that begins it, inside the vocabulary only.
struct SpecialIds {
  std::vector<int32_t> end;
  std::optional<int32_t> begin;
};
SpecialIds special_ids(const gguf::Metadata& metadata, int64_t vocab);
gguf::OrderedMetadata special_keys(const SpecialIds& ids);

}  // namespace megalith::gguf_models
