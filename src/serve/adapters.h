// SPDX-License-Identifier: Apache-2.0
// Adapters that a server may have loaded. Only names go around here: where the files are, who
// starts the server says, and no request can.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/sharded_model.h"
#include "layers/adapter.h"

namespace megalith::serve {

/// A rank's part of an adapter whose files were read; called on the rank's own thread.
using PlaceAdapter =
    std::function<std::shared_ptr<const layers::Adapter>(engine::ShardedModel& model)>;
/// Reads the files of an adapter, by its name; for any thread. Throws Error in words about them.
using OpenAdapter = std::function<PlaceAdapter(const std::string& name)>;

/// What may be done with one.
enum class AdapterState : uint8_t {
  absent,   // load
  ready,    // ask, unload
  leaving,  // wait: requests use it still
};

}  // namespace megalith::serve
