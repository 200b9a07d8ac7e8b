// SPDX-License-Identifier: Apache-2.0
// The whole training state as logical tensors, put together from the shards of all ranks: two runs
// are the same when their states are, whatever their layouts. Ranks that hold the same elements
// must agree on them to the bit; that is checked while they are put in.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tensor/dtype.h"
#include "tensor/shard.h"

namespace megalith::testing {

class LogicalState {
 public:
  /// Puts in masters, compute weights and both moments of a rank's part. Any rank's thread.
  void add(engine::Engine& engine);
  /// One tensor's shard, row major. Any thread.
  void add(const std::string& name, DType dtype, const Shape& shape, const Shard& shard,
           const void* local);

  /// The same of a run of the shard's elements.
  void add(const std::string& name, DType dtype, const Shape& shape, const Shard& shard,
           const void* run, const parameters::ElementRange& range);

  /// Elements that no rank put in, or on which ranks disagree: one line each; empty when sound.
  std::vector<std::string> faults() const;
  /// The digest that checkpoints record (checkpoint/state_digest.h), over what was put in.
  std::string digest() const;
  int64_t num_tensors() const { return static_cast<int64_t>(tensors_.size()); }

  /// The first element in which two states differ, in words; empty when they are the same.
  friend std::string difference(const LogicalState& a, const LogicalState& b);

 private:
  void add_scales(engine::Engine& engine);
  struct Whole {
    DType dtype = DType::f32;
    Shape shape;
    std::vector<std::byte> bytes;
    std::vector<bool> present;  // by element
  };
  mutable std::mutex mutex_;
  std::map<std::string, Whole> tensors_;
  std::vector<std::string> disagreements_;
};

std::string difference(const LogicalState& a, const LogicalState& b);

}  // namespace megalith::testing
