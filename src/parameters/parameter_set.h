// SPDX-License-Identifier: Apache-2.0
// All parameters of one rank's part of a model, in declaration order, and their memory. Layers
// declare parameters as they are built; `allocate` then places each role (compute, master,
// gradient) in one flat range per format, so that all gradients of a rank can be zeroed, added and
// sent as one vector.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "parameters/derivation.h"
#include "parameters/parameter.h"

namespace megalith::parameters {

/// Parameters [begin, end) of a set, in the order of declaration.
struct ParameterRun {
  size_t begin = 0;
  size_t end = 0;
  friend bool operator==(const ParameterRun&, const ParameterRun&) = default;
};

/// Which of the layers that share weights (Lan et al. 2020) one is, counted from the front of the
/// model, and how many there are: `number` of `count`.
struct Use {
  int number = 0;
  int count = 1;
};

/// Weights that layers share, as this rank has them.
struct SharedWeights {
  ParameterRun parameters;
  std::vector<int> uses;  // by number, increasing: those of this rank's layers
  int count = 1;          // in the whole model
};

/// [owner][parameter]: which elements an owner has (ownership.h).
using Ownership = std::vector<std::vector<ElementRange>>;

/// Elements of one gradient bucket: 25 MiB of f32 (the size that Li et al. 2020 settled on). Long
/// enough for any network to reach its rate, and a small part of what backward computes.
inline constexpr int64_t kBucketElements = (int64_t{25} << 20) / 4;

struct Storage {
  DType master = DType::f32;   // f32, or f64 for finite differences
  DType compute = DType::f32;  // master's type, or bf16; where a declaration names no format
  bool training = true;        // false: no master apart from compute, no gradients
  int gradient_levels = 1;  // flat gradient buffers (more when one rank sums several data shards)
  /// With spread state, this rank's number: separate masters are kept for its elements alone
  /// (ownership.h).
  int owner = 0;
  int owners = 1;
  /// Gradients are reduced, and shares of ownership cut, in pieces of about this many elements
  /// (optim/gradient_buckets.h). A multiple of 64.
  int64_t bucket_elements = kBucketElements;
};

class ParameterSet {
 public:
  ParameterSet() = default;
  /// `rule` sees every declaration before it is taken.
  explicit ParameterSet(DeclarationRule rule) : rule_(std::move(rule)) {}
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;

  /// Adds a parameter; names must be unique. The reference stays valid.
  Parameter& declare(Declaration declaration);
  /// Declarations until `end_use` are of one of several layers that share these weights. The first
  /// of them on this rank declares; others, in increasing order, are given parameters of their own,
  /// in the same order, whose gradient sums lie apart from those of `all`.
  void begin_use(const Use& use);
  void end_use();
  /// In the order of declaration.
  const std::vector<SharedWeights>& shared() const { return shared_; }
  const std::deque<Parameter>& all() const { return parameters_; }
  std::deque<Parameter>& all() { return parameters_; }
  /// Null when absent.
  Parameter* find(std::string_view name);

  /// The last parameter declared follows from those from number `first` on (derivation.h).
  void add_derived(size_t first, std::shared_ptr<const Derivation> derivation);
  /// Makes the values that follow from what has changed since; before any pass that may read them.
  /// Scratch from workspace. Queued; local.
  void derive(kernels::Exec& exec);
  /// Behind the backward of a data shard, in the level that is selected: the gradients of what
  /// follows become those of what it follows from. Queued; local.
  void backward_derived(kernels::Exec& exec);
  /// Gradients of parameters before this one are complete when all of backward is: layers share
  /// them, or others follow from them.
  size_t complete_last() const;

  int64_t local_elements() const;
  int64_t global_elements() const;

  /// Takes memory: compute weights from class `weights`, gradients from `gradients`, a separate
  /// master from `optimizer`. Once, after all declarations. Local.
  void allocate(device::Device& device, const Storage& storage);
  const Storage& storage() const { return storage_; }
  /// [parameter]: what owner number `owner` has; fixed by `allocate`.
  const std::vector<ElementRange>& owned_by(int owner) const {
    return ownership_.at(static_cast<size_t>(owner));
  }

  /// Fills masters from (seed, name, global element), then the compute copies: every layout draws
  /// the same values. Local; overwrites. Blocks are left alone: they are loaded.
  void initialise(device::Device& device, uint64_t seed);
  /// Copies masters into compute representations, rounded once. Local; queued. Needs whole masters:
  /// where they are spread over owners, use `load`.
  void refresh_compute(device::Device& device);
  /// Sets a parameter from its whole local part in host memory, of type `dtype`: whatever is kept
  /// of the master (whose type it then must be), and the compute weights. Local; `host` may go on
  /// return, the compute weights are ready as of a later ticket.
  void load(device::Device& device, Parameter& parameter, DType dtype, const void* host);

  /// Sets a parameter that is in blocks from its whole local part in host memory: rows of blocks as
  /// a file has them. Local; ready on return.
  void load_blocks(device::Device& device, Parameter& parameter, std::span<const std::byte> blocks);

  /// By format, [elements]: all compute weights in it in declaration order, with gaps.
  const std::map<Format, device::Tensor>& flat_computes() const { return computes_; }

  /// [elements]: the flat gradient vector of a level, which data ranks exchange.
  View flat_gradient_sums(int level = 0) const;
  /// Where in that vector the sums of parameter `index` begin (all its gradients); for the number
  /// of parameters, the vector's end.
  int64_t gradient_begin(size_t index) const { return gradient_begins_.at(index); }
  void zero_gradient_sums(device::Device& device, int level);
  /// Makes every gradient_sum() refer to `level`.
  void select_level(int level);
  /// [elements]: the sums of shared()[index].uses[use], all parameters together. Of use 0 they are
  /// in the level that is selected. Others have one place for all levels, zeroed with each of them.
  View use_sums(size_t index, size_t use) const;

 private:
  /// A layer's declarations between begin_use and end_use.
  struct OpenUse {
    Use use;
    size_t begin = 0;      // of all parameters
    size_t num_again = 0;  // declarations that were there already
  };
  Parameter& declare_again(Parameter& known, Declaration declaration);
  bool has_master(const Parameter& parameter) const;
  void place_weights();
  void place_further_uses(device::Device& device);
  int64_t elements_of(const ParameterRun& run) const;  // of gradient sums, of one use
  std::deque<Parameter> parameters_;
  std::unordered_map<std::string_view, Parameter*> by_name_;  // names of the deque's
  std::optional<OpenUse> open_use_;
  std::vector<SharedWeights> shared_;
  std::vector<DerivedParameter> derived_;
  std::deque<Parameter> further_;  // uses, in the order of declaration
  Storage storage_;
  Ownership ownership_;
  DeclarationRule rule_;
  std::map<Format, device::Tensor> computes_;
  device::Tensor masters_;
  std::vector<device::Tensor> sums_;
  int level_ = 0;
  device::Tensor further_sums_;
  std::vector<int64_t> gradient_begins_{0};
};

/// Overwrites `host` (f32 or f64, the local part of the parameter, row major) with its initial
/// value.
void initial_value(const Parameter& parameter, uint64_t seed, DType dtype, void* host);

}  // namespace megalith::parameters
