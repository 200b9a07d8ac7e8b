// SPDX-License-Identifier: Apache-2.0
// A model somewhere on disk, opened by its path alone: a run folder (its newest complete
// checkpoint), a checkpoint folder, a Hugging Face folder, or a GGUF file. Everything is checked
// when it is opened; the weights are read, and their hashes verified, when they are asked for.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "device/device.h"
#include "gguf/value.h"
#include "parameters/parameter_set.h"
#include "spec/model_spec.h"
#include "store/stored_weights.h"
#include "text/tokenizer.h"

namespace megalith::store {

class ModelSource {
 public:
  /// UserError when `path` is none of the four or its configuration is impossible; IntegrityError
  /// when a file or tensor is missing, misshapen or damaged.
  /// `tensor_shards`: the split that a foreign model's vocabulary is padded for; 0: the default.
  /// `at_work` is called while this reads.
  static ModelSource open(const std::filesystem::path& path, int tensor_shards = 0,
                          const checkpoint::AtWork& at_work = {});

  const models::ModelSpec& spec() const { return spec_; }
  /// The canonical split of the training run; of a foreign model the default.
  int tensor_shards() const { return tensor_shards_; }
  /// Of a GGUF file its own. Nothing when no tokenizer.json lies beside the weights.
  const std::optional<text::Tokenizer>& tokenizer() const { return tokenizer_; }
  /// UserError saying why there is none.
  const text::Tokenizer& require_tokenizer() const;
  /// Ids after which a text ends; may be none.
  const std::vector<int32_t>& end_ids() const { return end_ids_; }
  /// The id that begins a text; nothing when the model does not say.
  std::optional<int32_t> begin_id() const { return begin_id_; }
  /// The id that fills up texts; nothing when the model does not say.
  std::optional<int32_t> pad_id() const { return pad_id_; }
  const Weights& weights() const { return *weights_; }
  /// By others of the same names and shapes, made of them.
  using MakeWeights = FunctionRef<std::unique_ptr<Weights>(std::unique_ptr<Weights>)>;
  void replace_weights(MakeWeights make) { weights_ = make(std::move(weights_)); }
  /// Likewise, with another description, whose tensors the new weights have.
  void become(models::ModelSpec spec, MakeWeights make) {
    replace_weights(make);
    spec_ = std::move(spec);
  }
  /// Tokenizer, chat and generation files beside the weights, by name; of a Hugging Face folder
  /// "additional_chat_templates/tool_use.jinja" too.
  const std::map<std::string, std::string>& texts() const { return texts_; }
  /// Of a GGUF file the keys of the tokenizer inside it; others have none.
  const gguf::Metadata& tokenizer_keys() const { return tokenizer_keys_; }

  /// For inference::InferenceModel: the weights to hold in blocks (tensor/blocks.h). Without
  /// `quantize` those that the file has so, as they are, which moves no bit of f32 results (of fp8
  /// it does: scales are behind sums); else all products' weights whose rows are whole blocks, in
  /// that format (tables of tokens and of logits in q8_0 where it has 4 bits; in fp8 layers'
  /// products alone, of a model trained in 8 bits those that were), rounded as convert() does.
  parameters::StorageFormats storage_formats(std::optional<Format> quantize) const;
  /// A weight in fp8 as a file has it (tensor/blocks.h): the stored codes, or codes made with the
  /// scales of training or else those of to_fp8(). UserError where it holds what is not finite.
  std::vector<std::byte> fp8_of(const StoredTensor& stored,
                                const checkpoint::AtWork& at_work = {}) const;
  /// Fills every parameter's master (rounded to its type if narrower) and compute value, those
  /// in blocks with the file's own or rounded from f32. UserError when blocks cannot hold a value.
  /// Memory: two copies of the largest tensor. IntegrityError when the set is not this model's.
  /// Several ranks may call at once, each with its own `at_work`. Parameters that are `others`, by
  /// name, are none of this model's and left alone.
  void fill(parameters::ParameterSet& set, device::Device& device,
            const checkpoint::AtWork& at_work = {},
            const std::function<bool(std::string_view)>& others = {}) const;

 private:
  ModelSource() = default;
  void open_checkpoint(const std::filesystem::path& folder, const checkpoint::AtWork& at_work);
  void open_hugging_face(const std::filesystem::path& folder, int tensor_shards,
                         const checkpoint::AtWork& at_work);
  void open_gguf(const std::filesystem::path& path, int tensor_shards);
  void read_gguf_tokenizer(const std::string& where);
  void read_tokenizer(const std::string& where);
  std::vector<std::byte> blocks_of(const StoredTensor& stored,
                                   const parameters::Parameter& parameter,
                                   const checkpoint::AtWork& at_work) const;
  models::ModelSpec spec_;
  int tensor_shards_ = 1;
  std::optional<text::Tokenizer> tokenizer_;
  std::vector<int32_t> end_ids_;
  std::optional<int32_t> begin_id_, pad_id_;
  std::map<std::string, std::string> texts_;
  gguf::Metadata tokenizer_keys_;
  std::string tokenizer_fault_;  // why that of a GGUF file cannot be used
  std::unique_ptr<Weights> weights_;
};

}  // namespace megalith::store
