// SPDX-License-Identifier: Apache-2.0
// What each pass of one micro-batch through a model chunk takes from the arenas and gives back, in
// order, recorded once per kind of chunk. A plan plays it for every micro-batch: the arena is the
// same, so its marks are those of the passes themselves, at the cost of the calls alone.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "account/chunk_trace.h"
#include "account/rank_classes.h"

namespace megalith::account {

struct PassTape {
  enum class Kind : uint8_t { allocate, release, completed };
  struct Event {
    Kind kind = Kind::allocate;
    device::MemoryClass memory_class = device::MemoryClass::workspace;
    size_t object = 0;  // of the chunk; completed: its turn among those that backward names
    int64_t bytes = 0;  // of an allocation
  };
  std::vector<Event> events;
  device::Work work;
  std::map<std::string, int64_t> wire_bytes;  // by kind of collective
};

/// The passes of a model chunk. Objects are numbered through all of them but `batch`, which is
/// shared by the chunks that a micro-batch goes through on a rank.
struct ChunkTape {
  PassTape batch, input, forward, place_gradient, backward;
  size_t batch_objects = 0, objects = 0;
  size_t output = 0;  // the object that is the output of forward
  // Without alignment, what is sent: that output, and in backward the gradient of the input.
  int64_t output_bytes = 0, gradient_bytes = 0;
};

/// The tapes of a plan, each recorded when first asked for. Any thread may ask.
class ChunkTapes {
 public:
  /// Both must outlive this.
  ChunkTapes(const engine::Settings& settings, const device::Target& target);
  /// Of a chunk as the ranks at this place of the tensor axis run it; `recompute` counts from its
  /// first block.
  const ChunkTape& of(const models::Stage& stage, const layers::RecomputePolicy& recompute,
                      int tensor_rank);
  /// Kinds of chunks so far.
  size_t size() const { return tapes_.size(); }

 private:
  const engine::Settings& settings_;
  const device::Target& target_;
  std::vector<int64_t> layer_kinds_;
  bool tensor_ranks_are_alike_;
  std::mutex mutex_;
  std::map<ClassKey, ChunkTape> tapes_;
};

}  // namespace megalith::account
