// SPDX-License-Identifier: Apache-2.0
#include "parameters/parameter_set.h"

#include <algorithm>

#include "base/integer.h"
#include "kernels/elementwise/pointwise.h"
#include "math/random.h"
#include "parameters/ownership.h"
#include "tensor/blocks.h"

namespace megalith::parameters {
namespace {

/// Elements are aligned to this many inside flat ranges, so that every view starts on a cache line.
constexpr int64_t kElementAlignment = 64;

int64_t aligned(int64_t elements) { return round_up(elements, kElementAlignment); }

View part_of(const device::Tensor& flat, int64_t& offset, const Shape& shape) {
  const DType dtype = flat.view.dtype();
  View view(flat.view.data() + offset * bytes_of(dtype), dtype, shape);
  offset += aligned(shape.num_elements());
  return view;
}

/// Of the compute representation, in elements of its format's type.
int64_t stored_elements(const Parameter& parameter) {
  return stored_shape(parameter.format(), parameter.local_shape()).num_elements();
}

Shape sum_shape(const Parameter& parameter) {
  const int partials = parameter.declaration().gradient_partials;
  return partials == 1 ? parameter.local_shape() : Shape{partials, parameter.local_elements()};
}

}  // namespace

int Parameter::local_canonical_shards() const {
  if (declaration_.canonical_shards == 1) return 1;
  const int64_t per_shard =
      exact_div<int64_t>(declaration_.shape[declaration_.shard.dim], declaration_.canonical_shards);
  return static_cast<int>(exact_div(declaration_.shard.extent(), per_shard));
}

int Parameter::canonical_shard(int local) const {
  if (declaration_.canonical_shards == 1) return 0;
  const Shard& shard = declaration_.shard;
  const int64_t per_shard =
      exact_div<int64_t>(declaration_.shape[shard.dim], declaration_.canonical_shards);
  const int64_t index = local * per_shard;
  const ShardRun run = shard.runs()[index < shard.count ? 0 : 1];
  return static_cast<int>(exact_div(run.begin + index - run.local, per_shard));
}

Parameter& ParameterSet::declare(Declaration declaration) {
  if (rule_) rule_(declaration);
  if (declaration.is_derived) declaration.trainable = false;
  if (Parameter* const known = find(declaration.name))
    return declare_again(*known, std::move(declaration));
  if (open_use_) declaration.is_copy = open_use_->use.number > 0;
  Parameter& parameter = parameters_.emplace_back(std::move(declaration));
  by_name_.emplace(parameter.name(), &parameter);
  const int64_t sums = parameter.has_gradient() ? aligned(sum_shape(parameter).num_elements()) : 0;
  gradient_begins_.push_back(gradient_begins_.back() + parameter.num_gradients() * sums);
  return parameter;
}

Parameter* ParameterSet::find(std::string_view name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

int64_t ParameterSet::local_elements() const {
  int64_t sum = 0;
  for (const Parameter& parameter : parameters_) sum += parameter.local_elements();
  return sum;
}

int64_t ParameterSet::global_elements() const {
  int64_t sum = 0;
  for (const Parameter& parameter : parameters_) sum += parameter.shape().num_elements();
  return sum;
}

void ParameterSet::allocate(device::Device& device, const Storage& storage) {
  MEGA_CHECK(computes_.empty(), "parameters allocated twice");
  MEGA_CHECK(storage.bucket_elements > 0 && storage.bucket_elements % kElementAlignment == 0,
             "buckets of {} elements", storage.bucket_elements);
  MEGA_CHECK(storage.owner >= 0 && storage.owner < storage.owners, "owner {} of {}", storage.owner,
             storage.owners);
  storage_ = storage;
  ownership_ = owned_ranges(parameters_, storage.owners, storage.bucket_elements);
  std::map<Format, int64_t> elements;  // of the compute weights
  int64_t master_elements = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    parameter.owned_ = owned_by(storage.owner)[i];
    parameter.format_ = parameter.declaration().format.value_or(plain_format(storage.compute));
    const bool is_plainly_stored = is_plain(parameter.format_);
    MEGA_CHECK(is_plainly_stored || (parameter.declaration().may_be_in_blocks &&
                                     !(storage.training && parameter.trainable())),
               "{} is declared in {}, which it cannot be", parameter.name(), parameter.format_);
    if (storage.training && !is_plainly_stored) parameter.widens_to_ = storage.compute;
    elements[parameter.format_] += aligned(stored_elements(parameter));
    if (has_master(parameter)) master_elements += aligned(parameter.owned_.count);
  }
  using device::MemoryClass;
  for (const auto& [format, count] : elements) {
    computes_[format] = device.arena(MemoryClass::weights).tensor(dtype_of(format), Shape{count});
  }
  if (master_elements > 0) {
    masters_ = device.arena(MemoryClass::optimizer).tensor(storage.master, Shape{master_elements});
  }
  place_weights();
  if (storage.training) {
    for (int level = 0; level < storage.gradient_levels; ++level) {
      sums_.push_back(device.arena(MemoryClass::gradients)
                          .tensor(storage.master, Shape{gradient_begins_.back()}));
    }
    select_level(0);
  }
  place_further_uses(device);
}

/// True if the master is kept apart from the compute weights.
bool ParameterSet::has_master(const Parameter& parameter) const {
  return storage_.training && parameter.trainable() &&
         dtype_of(parameter.format_) != storage_.master;
}

void ParameterSet::place_weights() {
  std::map<Format, int64_t> offsets;
  int64_t master_offset = 0;
  for (Parameter& parameter : parameters_) {
    const Format format = parameter.format_;
    parameter.compute_ =
        part_of(computes_[format], offsets[format], stored_shape(format, parameter.local_shape()));
    parameter.master_ = parameter.compute_;
    if (!has_master(parameter)) continue;
    parameter.master_ =
        part_of(masters_, master_offset,
                parameter.owns_all() ? parameter.local_shape() : Shape{parameter.owned_.count});
  }
}

/// Use after use, each as the first use lies in a level.
void ParameterSet::place_further_uses(device::Device& device) {
  if (further_.empty()) return;
  for (Parameter& further : further_) {
    further.compute_ = further.owner_->compute_;
    further.format_ = further.owner_->format_;
    further.widens_to_ = further.owner_->widens_to_;
  }
  if (!storage_.training) return;
  int64_t elements = 0;
  for (const SharedWeights& shared : shared_)
    elements += (std::ssize(shared.uses) - 1) * elements_of(shared.parameters);
  further_sums_ =
      device.arena(device::MemoryClass::gradients).tensor(storage_.master, Shape{elements});
  int64_t offset = 0;
  for (Parameter& further : further_) {
    if (further.trainable())
      further.gradient_sums_ = {part_of(further_sums_, offset, sum_shape(further))};
  }
}

void ParameterSet::select_level(int level) {
  level_ = level;
  const device::Tensor& flat = sums_.at(static_cast<size_t>(level));
  int64_t offset = 0;
  for (Parameter& parameter : parameters_) {
    parameter.gradient_sums_.clear();
    if (!parameter.has_gradient()) continue;
    for (int which = 0; which < parameter.num_gradients(); ++which) {
      parameter.gradient_sums_.push_back(part_of(flat, offset, sum_shape(parameter)));
    }
    if (!parameter.trainable()) continue;
    // The reduced gradient takes the place of the first partial row of the first buffer: the tree
    // over the rows reads row 0 before it writes it.
    parameter.gradient_ =
        View(parameter.gradient_sums_[0].data(), flat.view.dtype(), parameter.local_shape());
  }
}

View ParameterSet::flat_gradient_sums(int level) const {
  return sums_.at(static_cast<size_t>(level));
}

void ParameterSet::zero_gradient_sums(device::Device& device, int level) {
  device.fill_zero(flat_gradient_sums(level));
  if (!further_sums_.view.absent()) device.fill_zero(further_sums_);
}

void ParameterSet::refresh_compute(device::Device& device) {
  kernels::Exec exec(device);
  for (Parameter& parameter : parameters_) {
    if (has_master(parameter)) kernels::cast(exec, parameter.master(), parameter.mutable_compute());
    parameter.mark_changed();
  }
}

void initial_value(const Parameter& parameter, uint64_t seed, DType dtype, void* host) {
  const Declaration& d = parameter.declaration();
  const Shape local = parameter.local_shape();
  const uint64_t key = random_key(seed, d.name);
  const int64_t row_elements =
      d.shape.num_dims() > 0 ? d.shape.num_elements() / std::max<int64_t>(d.shape[0], 1) : 1;
  int64_t filled = 0;
  // The key of an element is its global index.
  d.shard.for_each_run(d.shape, [&](int64_t begin, int64_t at, int64_t count) {
    filled += count;
    for (int64_t element = begin; element < begin + count; ++element, ++at) {
      double value = 0;
      if (d.init.kind == Init::Kind::ones) value = 1;
      if (d.init.kind == Init::Kind::constant) value = d.init.value;
      if (d.init.kind == Init::Kind::normal)
        value = d.init.std * normal(key, static_cast<uint64_t>(element));
      if (d.init.zero_rows_from >= 0 && element / row_elements >= d.init.zero_rows_from) value = 0;
      // Through f32 in every case, so that a model in double starts from the same values.
      const auto rounded = static_cast<float>(value);
      if (dtype == DType::f64) {
        static_cast<double*>(host)[at] = rounded;
      } else {
        MEGA_CHECK_EQ(dtype, DType::f32);
        static_cast<float*>(host)[at] = rounded;
      }
    }
  });
  MEGA_CHECK_EQ(filled, local.num_elements());
}

void ParameterSet::load(device::Device& device, Parameter& parameter, DType dtype,
                        const void* host) {
  MEGA_CHECK(is_plain(parameter.format_), "{} is in {}, and is to be loaded so", parameter.name(),
             parameter.format_);
  kernels::Exec exec(device);
  const bool separate = has_master(parameter);
  MEGA_CHECK(!separate || dtype == storage_.master, "a master in {} from {}", storage_.master,
             dtype);
  // What is held whole in the type that comes: the master, or weights that are stored so.
  View held;
  if (separate && parameter.owns_all()) held = parameter.master_;
  if (!separate && dtype_of(parameter.format_) == dtype) held = parameter.compute_;
  if (!held.absent()) {
    device.wait(device.copy_to_device(held, host));
    if (separate) kernels::cast(exec, held, parameter.mutable_compute());
  } else {
    const device::Tensor whole = exec.workspace.tensor(dtype, parameter.local_shape());
    device::Ticket copied = device.copy_to_device(whole, host);
    kernels::cast(exec, whole, parameter.mutable_compute());
    if (separate) copied = device.copy(parameter.owned_master(), parameter.owned_part(whole.view));
    device.wait(copied);
  }
  parameter.mark_changed();
}

void ParameterSet::load_blocks(device::Device& device, Parameter& parameter,
                               std::span<const std::byte> blocks) {
  const Shape shape = parameter.local_shape();
  std::vector<std::byte> tiles(static_cast<size_t>(parameter.compute_.bytes()));
  to_tiles(parameter.format_, blocks, shape[0], shape[1], tiles);
  device.wait(device.copy_to_device(parameter.compute_, tiles.data()));
  parameter.mark_changed();
}

void ParameterSet::initialise(device::Device& device, uint64_t seed) {
  for (Parameter& parameter : parameters_) {
    const DType dtype = storage_.master;
    MEGA_CHECK(dtype == DType::f32 || dtype == DType::f64, "initialising {} storage", dtype);
    if (!is_plain(parameter.format_)) continue;
    std::vector<std::byte> host;
    if (!device.is_trace()) {
      host.resize(static_cast<size_t>(parameter.local_elements() * bytes_of(dtype)));
      initial_value(parameter, seed, dtype, host.data());
    }
    load(device, parameter, dtype, host.data());
  }
}

}  // namespace megalith::parameters
