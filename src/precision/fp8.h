// SPDX-License-Identifier: Apache-2.0
// The products of a model that run in 8 bits (Micikevicius et al. 2022): their names, and the
// scales of their three operands. Every rank has those of the whole model, so that what it stages
// can be reduced over all ranks at once and what a checkpoint holds is the same everywhere.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "precision/guard.h"
#include "precision/scaling.h"

namespace megalith::precision {

struct Fp8Options {
  ScalingOptions scaling;
  /// False: gradients of weights are products of what is stored, without codes (Transformer
  /// Engine's override_linear_precision).
  bool weight_gradients = true;
  /// Products may run in 16 bits for a while (set_wide): every step takes the memory of such a one.
  bool may_fall_back = false;
};

/// Element n of a vector, as a vector of one.
template <typename AnyView>
AnyView element(const AnyView& vector, int64_t n) {
  return {vector.data() + n * bytes_of(vector.dtype()), vector.dtype(), Shape{1}};
}

/// The input of a product as its codes, which forward keeps for the gradient of the weight: a byte
/// for each number, and the bits of codes that backward would make again.
struct InputCodes {
  device::Tensor codes_TI;
  device::Tensor scales;  // f32, one for each sample, or one

  bool absent() const { return codes_TI.view.absent(); }
};

/// What of a product's input forward keeps, where nothing else reads it.
///   codes        InputCodes, and not the numbers
///   made_again   nothing: a product that could keep codes runs in 16 bits for a while, and what is
///                saved is planned for codes
enum class InputKept : uint8_t { numbers, codes, made_again };

class Fp8 {
 public:
  /// `products`: names of the weights, "layers.3.attention.qkv.weight", in the order of the model.
  Fp8(device::Device& device, const Fp8Options& options, std::vector<std::string> products);

  const Fp8Options& options() const { return options_; }
  const std::vector<std::string>& products() const { return input_.names(); }
  /// The number of the product with this weight; nothing where it is not in 8 bits.
  std::optional<size_t> find(std::string_view weight) const;
  /// What is kept of the input of the product with this weight, where a rank keeps all tokens.
  InputKept input_kept(std::string_view weight) const;
  /// Products that run in 16 bits until further notice: find() knows nothing of them.
  void set_wide(size_t product, bool wide) { wide_[product] = wide; }
  void set_all_wide(bool wide) { all_wide_ = wide; }
  /// Histories and scales of a product as they are at the beginning.
  void forget(kernels::Exec& exec, size_t product);

  /// Takes memory (class weights) for the codes of a rank's weights, where they have one scale:
  /// shapes[i] of products()[numbers[i]]. Once.
  void allocate_weights(const std::vector<size_t>& numbers, const std::vector<Shape>& shapes);
  /// Codes and what multiplies them, f32 [1], of a weight that memory was taken for; who trains
  /// casts them (layers/product.h) before they are read.
  struct WeightCodes {
    View codes, scale;
  };
  const WeightCodes& weight(size_t product) const { return weights_[product]; }
  /// All codes of a rank's weights, [elements], with gaps; absent where none were taken memory for.
  View flat_weight_codes() const { return flat_codes_.view; }

  Scaling& scaling(Operand operand) {
    return operand == Operand::input ? input_ : operand == Operand::weight ? weight_ : gradient_;
  }
  /// Whether operands leave a trace in the histories: in training alone.
  void set_record(Scaling::Record record) { record_ = record; }
  Scaling::Record record() const { return record_; }

  /// Whether operands are counted, from here on.
  void set_counting(bool counting) { counting_ = counting; }
  /// i64 [kQuantizeCounts]: what quantising this operand has found since take_shares(), with
  /// `elements` more of them. Absent while nothing is counted, and where scales are of blocks.
  View count(Operand operand, size_t product, int64_t elements);
  /// By product, of what all ranks counted (their sum: collective); then nothing is. Waits.
  std::vector<OperandShares> take_shares(kernels::Exec& exec,
                                         const std::function<void(View counts)>& sum_over_ranks);

  /// delayed: the magnitudes of this step, of all operands, f32 [3, N] in scratch, for a maximum
  /// over all ranks; and their way back. Absent with other policies.
  device::Tensor staged(kernels::Exec& exec) const;
  void set_staged(kernels::Exec& exec, ConstView staged_3N);
  /// After all histories and scales were read into their places (Scaling::restored).
  void restored();
  /// Ends a step (Scaling::update).
  void update(kernels::Exec& exec);

 private:
  Fp8Options options_;
  Scaling input_, weight_, gradient_;
  std::unordered_map<std::string, size_t> index_;
  device::Device& device_;
  device::Tensor flat_codes_, weight_scales_;
  std::vector<WeightCodes> weights_;
  std::vector<bool> wide_;
  bool all_wide_ = false, counting_ = false;
  /// i64 [3 operands, N, kCounts]: kernels::Quantize's, then elements, which the host adds up.
  device::Tensor counts_;
  std::vector<int64_t> elements_;  // [3, N]
  Scaling::Record record_ = Scaling::Record::amax;
};

/// What multiplies a product's sum back: fl32(a's scale * b's), as cuBLAS multiplies them, of the
/// scales of both operands, f32 [1] or one for each sample; as many as the more have, in scratch.
/// Absent where a has none.
device::Tensor product_factors(kernels::Exec& exec, ConstView a, ConstView b);

/// While it lives, products in 8 bits, if there are any, leave no trace in histories.
class Unrecorded {
 public:
  explicit Unrecorded(Fp8* fp8) : fp8_(fp8) { set(Scaling::Record::nothing); }
  ~Unrecorded() { set(Scaling::Record::amax); }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  void set(Scaling::Record record) const {
    if (fp8_ != nullptr) fp8_->set_record(record);
  }
  Fp8* fp8_;
};

}  // namespace megalith::precision
