// SPDX-License-Identifier: Apache-2.0
// Ranks as points of a grid with named axes. The layout says how long each axis is and in which
// order ranks fill them; it never changes the results (see canonical.h).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace megalith::parallel {

/// tensor: every layer is cut; data: every batch is cut; pipeline: the stack of layers is cut.
enum class Axis : uint8_t { tensor, data, pipeline };
inline constexpr int kNumAxes = 3;
std::string_view name_of(Axis axis);
inline std::string_view format_as(Axis axis) { return name_of(axis); }

/// How sums are cut. It belongs to the recipe and so to the arithmetic: a layout may use any number
/// of ranks that fits (ranks_fit) without changing a bit.
struct CanonicalSplit {
  int tensor_shards = 1;
  int data_shards = 1;
};

struct Layout {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;
  bool sequence = false;  // norms, dropouts and residuals cut along the tokens over the tensor axis
  int chunks = 1;         // model chunks per pipeline stage (interleaved schedule)
  std::array<Axis, kNumAxes> order = {Axis::tensor, Axis::data, Axis::pipeline};  // fastest first

  int size(Axis axis) const;
  int num_ranks() const { return tensor * pipeline * data; }
};

struct Coordinates {
  int tensor = 0;
  int pipeline = 0;
  int data = 0;
  int of(Axis axis) const;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

/// The model is cut into stages x chunks virtual stages, a model chunk each; the number, from the
/// front, of a stage's chunk.
inline int virtual_stage_of(const Layout& layout, int stage, int chunk) {
  return chunk * layout.pipeline + stage;
}

Coordinates coordinates_of(const Layout& layout, int rank);
int rank_of(const Layout& layout, const Coordinates& at);

/// Everything that is wrong with the layout by itself and with the canonical split: one sentence
/// per fault, with the recipe key and a value that fits. Empty if it is sound.
std::vector<std::string> layout_faults(const Layout& layout, const CanonicalSplit& split);

/// One rank's place in the grid and its groups.
class Mesh {
 public:
  /// Collective over `world`, which must have layout.num_ranks() ranks and outlive the mesh.
  Mesh(comm::Communicator& world, const Layout& layout);

  const Layout& layout() const { return layout_; }
  const Coordinates& at() const { return at_; }
  comm::Communicator& world() const { return world_; }
  /// The ranks that differ from this one on that axis only, in order of their coordinate.
  comm::Communicator& group(Axis axis) const { return *groups_[static_cast<size_t>(axis)]; }
  comm::Communicator& tensor() const { return group(Axis::tensor); }
  comm::Communicator& data() const { return group(Axis::data); }
  comm::Communicator& pipeline() const { return group(Axis::pipeline); }

  bool is_first_stage() const { return at_.pipeline == 0; }
  bool is_last_stage() const { return at_.pipeline == layout_.pipeline - 1; }

 private:
  comm::Communicator& world_;
  Layout layout_;
  Coordinates at_;
  std::array<std::unique_ptr<comm::Communicator>, kNumAxes> groups_;
};

}  // namespace megalith::parallel
