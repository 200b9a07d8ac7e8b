// SPDX-License-Identifier: Apache-2.0
// A named logical tensor and its representations on this rank. Logical means: name, global shape
// and value are the same under every layout; a rank holds one shard of it. Representations:
//   master     what the optimizer updates: f32 (f64 when gradients are checked by finite
//              differences)
//   compute    what kernels read, in the declared format: the master itself, or a copy of it,
//              rounded once per update
//   gradient   the master's type, accumulated over a step. [P, ...] partial rows where the sum over
//              tokens is cut into token shards (kernels/reduction/token_shards.h). Two buffers for
//              a tied embedding: input and output side are kept apart and added once.
// A parameter that is not trained has its compute representation alone; one that follows from
// others (derivation.h) has gradient sums too. Layers that share weights are given one Parameter
// each, of the same weights, with gradient sums of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tensor/shard.h"
#include "tensor/weight.h"

namespace megalith::parameters {

struct Init {
  enum class Kind { zeros, ones, normal, constant };
  Kind kind = Kind::zeros;
  double std = 0;
  /// Rows (dimension 0) at and beyond this index are zero: padding of a vocabulary. -1: none.
  int64_t zero_rows_from = -1;
  double value = 0;  // of every element of a constant
};

struct Declaration {
  std::string name;  // "layers.3.attention.qkv.weight"
  Shape shape;       // global
  Shard shard;       // this rank's part
  Init init;
  /// Equal parts of `shard.dim` over all ranks; 1 when the tensor is never cut. A rank holds a
  /// whole number of them in each of its runs. They fix the order in which squares are summed.
  int canonical_shards = 1;
  /// Token shards whose sums are kept apart (norms, and biases added to full rows).
  int gradient_partials = 1;
  /// True if the partial rows are those of this rank's token shards alone; other tensor ranks hold
  /// the rest.
  bool partials_over_tensor = false;
  /// Number of gradient buffers (2 when tied).
  int num_gradients = 1;
  /// An earlier pipeline stage holds it too; there it is counted in the norm, and saved.
  bool is_copy = false;
  /// False: frozen. No gradient, no master of its own, no optimizer state; nobody owns it.
  bool trainable = true;
  /// Of the compute representation; the set's when absent. Blocks (tensor/blocks.h) are for what is
  /// not trained.
  std::optional<Format> format = {};
  /// It is the weight of a layer's product (layers/product.h).
  bool is_layer_product = false;
  /// The kernels that read it take blocks.
  bool may_be_in_blocks = false;
  /// It trains beside the weights of the model, which do not (layers/product_factors.h,
  /// layers/virtual_tokens.h).
  bool is_added = false;
  /// It follows from others (derivation.h): a value and gradient sums, nothing of an optimizer's.
  bool is_derived = false;
};

/// What a run changes of the declarations that layers make: what is trained, how it is stored.
using DeclarationRule = std::function<void(Declaration& declaration)>;

/// By name, what is not stored as all the others.
using StorageFormats = std::map<std::string, Format, std::less<>>;

/// A run of a parameter's local elements, row major.
struct ElementRange {
  int64_t begin = 0;
  int64_t count = 0;
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

class Parameter {
 public:
  explicit Parameter(Declaration declaration) : declaration_(std::move(declaration)) {}

  const std::string& name() const { return declaration_.name; }
  const Declaration& declaration() const { return declaration_; }
  const Shape& shape() const { return declaration_.shape; }
  Shape local_shape() const { return declaration_.shard.local_shape(declaration_.shape); }
  int64_t local_elements() const { return local_shape().num_elements(); }
  /// How many canonical shards this rank holds.
  int local_canonical_shards() const;
  /// Global number of local shard `local`: they lie in this order in what is held.
  int canonical_shard(int local) const;
  /// Matrices decay, vectors (norms, biases) do not, unless a recipe's groups say otherwise.
  bool is_matrix() const { return declaration_.shape.num_dims() >= 2; }

  bool trainable() const { return declaration_.trainable; }
  /// Of what trains, and of what follows from it.
  bool has_gradient() const { return declaration_.trainable || declaration_.is_derived; }

  /// [local shape]; f32 or f64, of a frozen parameter what is stored. Only where this rank holds
  /// all of it; else see owned_master().
  View master() const {
    MEGA_CHECK_EQ(master_.num_elements(), local_elements());
    return master_;
  }
  /// The elements that this rank's optimizer updates: all, unless state is spread (ownership.h);
  /// none of a frozen one.
  const ElementRange& owned() const { return owned_; }
  bool owns_all() const { return owned_.count == local_elements(); }
  /// [owned().count]: the owned run of the master.
  View owned_master() const {
    return master_.num_elements() == owned_.count ? master_.reshape(Shape{owned_.count})
                                                  : owned_part(master_);
  }
  /// The owned run of a view of [local shape].
  template <typename AnyView>
  AnyView owned_part(const AnyView& local) const {
    return local.reshape(Shape{local_elements()}).rows(owned_.begin, owned_.count);
  }
  Format format() const { return format_; }
  /// Of a frozen weight in blocks, in a set that trains: the type that every pass dequantises it to
  /// (layers/widened.h), which is that of the set's other weights. Else absent: kernels read what
  /// is stored.
  std::optional<DType> widens_to() const { return widens_to_; }
  /// Of [local shape]: what kernels read.
  Weight compute() const { return {compute_, format_, local_shape(), version()}; }
  /// As stored: in blocks u8 [groups, bytes] (tensor/blocks.h).
  View mutable_compute() const { return compute_; }
  /// [local shape]: the reduced gradient, valid from the reduction to the next accumulation; absent
  /// of what does not train.
  View gradient() const { return gradient_; }
  /// Where backward accumulates (+=): [local shape], or [P, local elements] if there are partial
  /// rows. `which` is 1 for the output side of a tied embedding. Without has_gradient() there is
  /// none.
  View gradient_sum(int which = 0) const { return gradient_sums_.at(static_cast<size_t>(which)); }
  int num_gradients() const { return declaration_.num_gradients; }
  bool compute_is_master() const { return compute_.data() == master_.data(); }
  /// Counts the changes of the value, for whoever caches something derived from it.
  uint64_t version() const { return owner_ == nullptr ? version_ : owner_->version_; }
  void mark_changed() { ++version_; }

 private:
  friend class ParameterSet;
  Declaration declaration_;
  ElementRange owned_;
  Format format_ = Format::f32;
  std::optional<DType> widens_to_;
  View master_, compute_, gradient_;
  std::vector<View> gradient_sums_;
  uint64_t version_ = 0;
  const Parameter* owner_ = nullptr;  // of the weights, where this is a further use of them
};

}  // namespace megalith::parameters
