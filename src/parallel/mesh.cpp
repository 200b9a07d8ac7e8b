// SPDX-License-Identifier: Apache-2.0
#include "parallel/mesh.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "parallel/tree.h"

namespace megalith::parallel {
namespace {

constexpr Axis kAxes[] = {Axis::tensor, Axis::data, Axis::pipeline};

void set(Coordinates& at, Axis axis, int value) {
  switch (axis) {
    case Axis::tensor:
      at.tensor = value;
      return;
    case Axis::data:
      at.data = value;
      return;
    case Axis::pipeline:
      at.pipeline = value;
      return;
  }
}

/// The fault of one axis that is cut by a canonical number of shards.
void check_shards(std::vector<std::string>& faults, std::string_view axis, int ranks,
                  std::string_view key, int shards) {
  if (ranks < 1 || shards < 1 || ranks_fit(shards, ranks)) return;
  std::vector<int> fitting;
  for (int r = 1; r <= shards; ++r) {
    if (ranks_fit(shards, r)) fitting.push_back(r);
  }
  faults.push_back(
      fmt::format("parallel.{} {} does not fit parallel.{} {}: use {} (or another {}, which "
                  "changes the arithmetic)",
                  axis, ranks, key, shards, fmt::join(fitting, ", "), key));
}

}  // namespace

std::string_view name_of(Axis axis) {
  switch (axis) {
    case Axis::tensor:
      return "tensor";
    case Axis::data:
      return "data";
    case Axis::pipeline:
      return "pipeline";
  }
  return "unknown";
}

int Layout::size(Axis axis) const {
  return axis == Axis::tensor ? tensor : axis == Axis::data ? data : pipeline;
}

int Coordinates::of(Axis axis) const {
  return axis == Axis::tensor ? tensor : axis == Axis::data ? data : pipeline;
}

Coordinates coordinates_of(const Layout& layout, int rank) {
  MEGA_CHECK(rank >= 0 && rank < layout.num_ranks(), "rank {} of {}", rank, layout.num_ranks());
  Coordinates at;
  for (const Axis axis : layout.order) {
    set(at, axis, rank % layout.size(axis));
    rank /= layout.size(axis);
  }
  return at;
}

int rank_of(const Layout& layout, const Coordinates& at) {
  int rank = 0;
  for (auto axis = layout.order.rbegin(); axis != layout.order.rend(); ++axis) {
    rank = rank * layout.size(*axis) + at.of(*axis);
  }
  return rank;
}

std::vector<std::string> layout_faults(const Layout& layout, const CanonicalSplit& split) {
  std::vector<std::string> faults;
  const auto positive = [&](std::string_view key, int value) {
    if (value < 1) faults.push_back(fmt::format("parallel.{} is {}: use 1 or more", key, value));
  };
  for (const Axis axis : kAxes) positive(name_of(axis), layout.size(axis));
  positive("chunks", layout.chunks);
  positive("tensor_shards", split.tensor_shards);
  positive("data_shards", split.data_shards);
  check_shards(faults, "tensor", layout.tensor, "tensor_shards", split.tensor_shards);
  check_shards(faults, "data", layout.data, "data_shards", split.data_shards);
  if (layout.chunks > 1 && layout.pipeline == 1) {
    faults.push_back(fmt::format(
        "parallel.chunks {} needs parallel.pipeline of 2 or more: set parallel.chunks to 1",
        layout.chunks));
  }
  for (const Axis axis : kAxes) {
    const auto times = std::count(layout.order.begin(), layout.order.end(), axis);
    if (times != 1) {
      faults.push_back(fmt::format("parallel.order names {} {} times: name each axis once",
                                   name_of(axis), times));
    }
  }
  return faults;
}

Mesh::Mesh(comm::Communicator& world, const Layout& layout)
    : world_(world), layout_(layout), at_(coordinates_of(layout, world.rank())) {
  MEGA_CHECK_EQ(world.size(), layout.num_ranks());
  for (const Axis axis : kAxes) {
    std::vector<comm::Membership> table;
    for (int rank = 0; rank < world.size(); ++rank) {
      Coordinates at = coordinates_of(layout, rank);
      const int key = at.of(axis);
      set(at, axis, 0);
      table.push_back({rank_of(layout, at), key});
    }
    groups_[static_cast<size_t>(axis)] = world.split(table, name_of(axis));
  }
}

}  // namespace megalith::parallel
