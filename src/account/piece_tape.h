// SPDX-License-Identifier: Apache-2.0
// What each pass of one micro-batch through a piece of the model takes from the arenas and gives
// back, in order, recorded once per kind of piece. A plan plays it for every micro-batch: the arena
// is the same, so its marks are those of the passes themselves, at the cost of the calls alone.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "account/piece_trace.h"
#include "account/rank_classes.h"

namespace megalith::account {

struct PassTape {
  enum class Kind : uint8_t { allocate, release, completed };
  struct Event {
    Kind kind = Kind::allocate;
    device::MemoryClass memory_class = device::MemoryClass::workspace;
    size_t object = 0;                  // of the piece; of `completed` none
    int64_t bytes = 0;                  // of an allocation
    parameters::ParameterRun run = {};  // completed, counted from the piece's first parameter
  };
  std::vector<Event> events;
  device::Work work;
  std::map<std::string, int64_t> wire_bytes;  // by kind of collective
};

/// The passes of a piece. Objects are numbered through all of them but `batch`, which is shared by
/// the pieces that a micro-batch goes through on a rank.
struct PieceTape {
  PassTape batch, input, forward, place_gradient, backward;
  size_t batch_objects = 0, objects = 0;
  size_t output = 0;         // the object that is the output of forward
  int64_t output_bytes = 0;  // without alignment: what is sent
};

/// The tapes of a plan, each recorded when first asked for. Any thread may ask.
class PieceTapes {
 public:
  /// Both must outlive this.
  PieceTapes(const engine::Settings& settings, const device::Target& target);
  /// Of a piece as the ranks at this place of the tensor axis run it; `recompute` counts from its
  /// first block.
  const PieceTape& of(const models::Stage& stage, const layers::RecomputePolicy& recompute,
                      int tensor_rank);
  /// Kinds of pieces so far.
  size_t size() const { return tapes_.size(); }

 private:
  const engine::Settings& settings_;
  const device::Target& target_;
  std::vector<int64_t> layer_kinds_;
  bool tensor_ranks_are_alike_;
  std::mutex mutex_;
  std::map<ClassKey, PieceTape> tapes_;
};

}  // namespace megalith::account
