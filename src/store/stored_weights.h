// SPDX-License-Identifier: Apache-2.0
// The weights of a stored model under our names, in our layout, whatever the files call them. Three
// kinds of store: a checkpoint folder, a Hugging Face folder and a GGUF file (gguf_file.h).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/at_work.h"
#include "families/quantization_config.h"
#include "spec/model_spec.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/shard.h"
#include "tensor/weight.h"

namespace megalith::checkpoint {
class Reader;
}

namespace megalith::store {

struct StoredTensor {
  std::string name;  // of the parameter
  Shape shape;       // ours, vocabulary padded
  DType dtype;       // as stored; of blocks and FP8 f32
  /// Of a matrix that is in blocks, or in fp8, as a whole, row by row.
  std::optional<Format> blocks = {};
};

class Weights {
 public:
  virtual ~Weights() = default;
  /// Every parameter of the model, in the order of the layers; checked when the store was opened:
  /// there, of this shape, of a type that weights have.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// Null when the model has no such parameter.
  const StoredTensor* find(const std::string& name) const;
  /// The bytes of a part of the tensor, row major, in the stored type. IntegrityError naming file
  /// and tensor. Several threads may call at once.
  virtual std::vector<std::byte> read(const StoredTensor& tensor, const Shard& part,
                                      const checkpoint::AtWork& at_work = {}) const = 0;
  /// The same of a tensor that is in blocks, as they are: of a part whose rows are whole blocks. In
  /// fp8: codes, then scales (tensor/blocks.h).
  virtual std::vector<std::byte> read_blocks(const StoredTensor& tensor, const Shard& part,
                                             const checkpoint::AtWork& at_work = {}) const;
  std::vector<std::byte> read(const StoredTensor& tensor) const {
    return read(tensor, Shard::whole(tensor.shape));
  }
  /// Differs where the weights do, so that ranks can tell whether they opened the same: a
  /// checkpoint's digest; of a foreign folder the names and sizes of its files, their headers and
  /// the first values behind them; of a foreign file the same of it.
  virtual std::string fingerprint() const = 0;
  /// Where the weights are, for messages.
  virtual std::string where() const = 0;
  /// Of a model that was trained with products in 8 bits: their weights, with what multiplied them
  /// when they became codes where that is one number; null of others.
  using TrainedScales = std::map<std::string, std::optional<float>>;
  virtual const TrainedScales* trained_scales() const { return nullptr; }

 protected:
  std::vector<StoredTensor> tensors_;
};

/// Types that weights are stored in: f64, f32, f16, bf16.
bool is_weight_type(DType dtype);

/// Takes over `reader`; moments and other tensors beside the weights are passed over.
std::unique_ptr<Weights> checkpoint_weights(std::shared_ptr<const checkpoint::Reader> reader,
                                            const models::ModelSpec& spec, int tensor_shards);
/// Whether a Hugging Face folder has a projection of logits that is not the table of tokens.
bool has_own_head(const std::string& folder, const models::ModelSpec& spec,
                  const checkpoint::AtWork& at_work = {});
/// A Hugging Face folder with the tensors of the model's family; those in FP8 have scales, whose
/// blocks `fp8` says. `at_work`: of the scales, and of the checks of tensors that a file has twice.
std::unique_ptr<Weights> hugging_face_weights(const std::string& folder,
                                              const models::ModelSpec& spec, int tensor_shards,
                                              const models::Fp8Config& fp8 = {},
                                              const checkpoint::AtWork& at_work = {});

/// The part of a row-major tensor that a shard names.
std::vector<std::byte> part_of(std::vector<std::byte> whole, const Shape& shape, const Shard& shard,
                               DType dtype);

/// The elements of tensor `name` as another floating type, through f32 (rounded to nearest even
/// where the target is narrower; the same type stays as it is). UserError when a finite value
/// becomes infinite: f16 reaches to 65504 only.
std::vector<std::byte> convert_elements(const std::string& name, std::vector<std::byte> elements,
                                        DType from, DType to);

}  // namespace megalith::store
