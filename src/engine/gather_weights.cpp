// SPDX-License-Identifier: Apache-2.0
#include "engine/gather_weights.h"

#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace megalith::engine {
namespace {

struct Piece {
  std::string name;
  Shard shard;
  int rank = 0;  // who sends it: the first that holds it
};

/// The pieces of all tensors, in one order on all ranks.
std::vector<Piece> pieces_of(Engine& engine) {
  nlohmann::json mine = nlohmann::json::array();
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    const Shard& shard = parameter.declaration().shard;
    mine.push_back({parameter.name(), shard.dim, shard.begin, shard.count});
  }
  std::map<std::pair<std::string, int64_t>, Piece> pieces;
  int rank = 0;
  for (const std::string& text : engine.mesh().world().exchange(mine.dump(), "weights.pieces")) {
    for (const nlohmann::json& p : nlohmann::json::parse(text)) {
      const Piece piece{p.at(0).get<std::string>(),
                        {p.at(1).get<int>(), p.at(2).get<int64_t>(), p.at(3).get<int64_t>()},
                        rank};
      pieces.try_emplace({piece.name, piece.shard.begin}, piece);
    }
    ++rank;
  }
  std::vector<Piece> list;
  for (auto& [key, piece] : pieces) list.push_back(std::move(piece));
  return list;
}

/// The place of a piece in the whole tensor.
View place_of(View whole, const Shard& shard) {
  if (shard.is_whole(whole.shape())) return whole;
  if (shard.dim == 0) return whole.rows(shard.begin, shard.count);
  MEGA_CHECK(shard.dim == 1 && whole.shape().num_dims() == 2, "a piece along dimension {} of {}",
             shard.dim, whole.shape());
  return whole.columns(shard.begin, shard.count);
}

}  // namespace

void gather_weights(Engine& engine, parameters::ParameterSet* into, device::Device* device) {
  comm::Communicator& world = engine.mesh().world();
  for (const Piece& piece : pieces_of(engine)) {
    if (piece.rank == world.rank() && world.rank() != 0) {
      world.wait(world.start_send(0, engine.parameters().find(piece.name)->compute(), piece.name));
    }
    if (world.rank() != 0) continue;
    parameters::Parameter* const whole = into->find(piece.name);
    MEGA_CHECK(whole != nullptr, "no parameter {} in the whole model", piece.name);
    const View place = place_of(whole->mutable_compute(), piece.shard);
    if (piece.rank == 0) {
      device->wait(device->copy(place, engine.parameters().find(piece.name)->compute()));
      continue;
    }
    const device::Tensor received =
        device->arena(device::MemoryClass::workspace).tensor(place.dtype(), place.shape());
    world.wait(world.start_receive(piece.rank, received, piece.name));
    device->wait(device->copy(place, received));
  }
}

}  // namespace megalith::engine
