// SPDX-License-Identifier: Apache-2.0
#include "store/merged_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "store/adapter_source.h"
#include "store/classifier_head.h"

namespace megalith::store {
namespace {

class MergedWeights : public Weights {
 public:
  MergedWeights(std::unique_ptr<Weights> base, AdapterSource adapter)
      : base_(std::move(base)), adapter_(std::move(adapter)) {
    tensors_ = base_->tensors();
    for (StoredTensor& tensor : tensors_)
      if (is_merged(tensor)) tensor.blocks.reset();
  }
  using Weights::read;
  std::vector<std::byte> read(const StoredTensor& tensor, const Shard& part,
                              const checkpoint::AtWork& at_work) const override {
    const StoredTensor& stored = *base_->find(tensor.name);
    // Magnitudes belong to whole rows.
    const bool is_cut = has_magnitudes(tensor) && part.dim == 1 && !part.is_whole(tensor.shape);
    const Shard read = is_cut ? Shard::whole(tensor.shape) : part;
    std::vector<std::byte> bytes = base_->read(stored, read, at_work);
    if (!is_merged(tensor)) return bytes;
    bytes = convert_elements(tensor.name, std::move(bytes), stored.dtype, DType::f32);
    if (vector_of(tensor) == Vector::none) {
      add(tensor, read, bytes);
    } else {
      multiply(tensor, read, bytes);
    }
    if (is_cut) bytes = part_of(std::move(bytes), tensor.shape, part, DType::f32);
    return convert_elements(tensor.name, std::move(bytes), DType::f32, stored.dtype);
  }
  std::vector<std::byte> read_blocks(const StoredTensor& tensor, const Shard& part,
                                     const checkpoint::AtWork& at_work) const override {
    return base_->read_blocks(*base_->find(tensor.name), part, at_work);
  }
  std::string fingerprint() const override {
    const std::string both = base_->fingerprint() + adapter_.fingerprint();
    return sha256(std::as_bytes(std::span(both)));
  }
  std::string where() const override { return base_->where(); }

 private:
  using Vector = layers::AdapterRank::Vector;
  static constexpr std::string_view kBias = ".bias", kWeight = ".weight";

  bool is_merged(const StoredTensor& tensor) const {
    return adapter_.ranks().contains(tensor.name) || vector_of(tensor) != Vector::none;
  }
  bool has_magnitudes(const StoredTensor& tensor) const {
    const auto found = adapter_.ranks().find(tensor.name);
    return found != adapter_.ranks().end() && found->second.has_magnitudes;
  }
  /// The weight whose product a tensor is the bias of; else itself.
  static std::string weight_of(const StoredTensor& tensor) {
    if (!tensor.name.ends_with(kBias)) return tensor.name;
    return tensor.name.substr(0, tensor.name.size() - kBias.size()) + std::string(kWeight);
  }
  /// What multiplies it; biases stand behind vectors of inputs, and are left alone.
  Vector vector_of(const StoredTensor& tensor) const {
    const auto found = adapter_.ranks().find(weight_of(tensor));
    if (found == adapter_.ranks().end()) return Vector::none;
    const Vector vector = found->second.vector;
    return tensor.name.ends_with(kBias) && vector == Vector::of_inputs ? Vector::none : vector;
  }
  /// x_OI *= l, by rows or columns; or x_O.
  void multiply(const StoredTensor& tensor, const Shard& part,
                std::vector<std::byte>& bytes) const {
    const std::vector<float> l = adapter_.vector(weight_of(tensor), part);
    const Shape local = part.local_shape(tensor.shape);
    const int64_t columns = local.num_dims() > 1 ? local[1] : 1;
    const bool by_rows = vector_of(tensor) == Vector::of_outputs;
    for (int64_t i = 0; i < local.num_elements(); ++i) {
      float value = 0;
      std::byte* const at = bytes.data() + i * static_cast<int64_t>(sizeof value);
      std::memcpy(&value, at, sizeof value);
      value *= l[static_cast<size_t>(by_rows ? i / columns : i % columns)];
      std::memcpy(at, &value, sizeof value);
    }
  }
  /// w_OI += b a, then rescales rows to their magnitudes, if any; the factors are transposed.
  void add(const StoredTensor& tensor, const Shard& part, std::vector<std::byte>& w_OI) const {
    const AdapterSource::Factors factors = adapter_.factors(tensor.name, part);
    const Shape local = part.local_shape(tensor.shape);
    const int64_t outputs = local[0], inputs = local[1];
    const auto float_at = [](const std::vector<std::byte>& bytes, int64_t i) {
      float value = 0;
      std::memcpy(&value, bytes.data() + i * static_cast<int64_t>(sizeof value), sizeof value);
      return static_cast<double>(value);
    };
    std::vector<double> a_IR(static_cast<size_t>(inputs * factors.rank));
    for (int64_t i = 0; i < std::ssize(a_IR); ++i)
      a_IR[static_cast<size_t>(i)] = float_at(factors.a_IR, i);
    const std::vector<std::optional<float>> m_O = adapter_.magnitudes(tensor.name, part);
    std::vector<double> b_R(static_cast<size_t>(factors.rank));
    std::vector<double> row_I(static_cast<size_t>(inputs));
    for (int64_t o = 0; o < outputs; ++o) {
      double squares = 0;
      for (int64_t r = 0; r < factors.rank; ++r)
        b_R[static_cast<size_t>(r)] = float_at(factors.b_RO, r * outputs + o);
      for (int64_t i = 0; i < inputs; ++i) {
        const double* const a = a_IR.data() + i * factors.rank;
        double sum = 0;
        for (size_t r = 0; r < b_R.size(); ++r) sum += b_R[r] * a[r];
        sum += float_at(w_OI, o * inputs + i);
        row_I[static_cast<size_t>(i)] = sum;
        squares += sum * sum;
      }
      const std::optional<float>& m = m_O[static_cast<size_t>(o)];
      const double scale = !m ? 1 : squares == 0 ? 0 : *m / std::sqrt(squares);
      for (int64_t i = 0; i < inputs; ++i) {
        const auto merged = static_cast<float>(row_I[static_cast<size_t>(i)] * scale);
        std::memcpy(w_OI.data() + (o * inputs + i) * static_cast<int64_t>(sizeof merged), &merged,
                    sizeof merged);
      }
    }
  }
  std::unique_ptr<Weights> base_;
  AdapterSource adapter_;
};

}  // namespace

ModelSource with_adapter_merged(ModelSource base, const std::filesystem::path& folder) {
  base = with_head_of(std::move(base), folder);
  AdapterSource adapter = AdapterSource::open(folder, base);
  const auto refuse = [&](const char* what) {
    throw UserError("{}: {} and are no part of the weights; load them with --adapter",
                    folder.string(), what);
  };
  if (layers::virtual_tokens_of(adapter.ranks()) + layers::tokens_in_text_of(adapter.ranks()) > 0) {
    refuse("virtual tokens stand in texts");
  }
  if (std::ranges::any_of(adapter.ranks(),
                          [](const auto& each) { return each.second.bottleneck > 0; })) {
    refuse("bottleneck adapters stand behind products");
  }
  base.replace_weights([&](std::unique_ptr<Weights> weights) {
    return std::make_unique<MergedWeights>(std::move(weights), std::move(adapter));
  });
  return base;
}

}  // namespace megalith::store
