// SPDX-License-Identifier: Apache-2.0
#include "store/merged_weights.h"

#include <cstring>

#include "store/adapter_source.h"

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
    std::vector<std::byte> bytes = base_->read(stored, part, at_work);
    if (!is_merged(tensor)) return bytes;
    bytes = convert_elements(tensor.name, std::move(bytes), stored.dtype, DType::f32);
    add(tensor, part, bytes);
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
  bool is_merged(const StoredTensor& tensor) const {
    return adapter_.ranks().contains(tensor.name);
  }
  /// w_OI += b a; the factors lie the other way round.
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
    std::vector<double> b_R(static_cast<size_t>(factors.rank));
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t r = 0; r < factors.rank; ++r)
        b_R[static_cast<size_t>(r)] = float_at(factors.b_RO, r * outputs + o);
      for (int64_t i = 0; i < inputs; ++i) {
        const double* const a = a_IR.data() + i * factors.rank;
        double sum = 0;
        for (size_t r = 0; r < b_R.size(); ++r) sum += b_R[r] * a[r];
        const auto merged = static_cast<float>(float_at(w_OI, o * inputs + i) + sum);
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
  AdapterSource adapter = AdapterSource::open(folder, base);
  base.replace_weights([&](std::unique_ptr<Weights> weights) {
    return std::make_unique<MergedWeights>(std::move(weights), std::move(adapter));
  });
  return base;
}

}  // namespace megalith::store
