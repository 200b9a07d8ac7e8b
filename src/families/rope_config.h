// SPDX-License-Identifier: Apache-2.0
// Rotary positions in config.json: transformers 4 has rope_theta beside rope_scaling, 5 one object
// rope_parameters. Both are read; both are written, so that either release opens the folder.
#pragma once

#include "families/config_keys.h"
#include "spec/layer_spec.h"

namespace megalith::models {

/// How a family spells them, and what its class has where a key is absent.
struct RopeKeys {
  const char* base = "rope_theta";
  double usual_base = 10000;
  /// The part of a head that turns. Null: all of it, another part is refused.
  const char* fraction = nullptr;
  double usual_fraction = 1;
  /// original_max_position_embeddings; 0: the class has no such setting of its own.
  int64_t usual_original = 0;
  /// transformers 4 wants rope_scaling to be `type` and the two lists of longrope, nothing else.
  bool brief_longrope = false;
};

/// What the angles are for.
struct RopeReach {
  int64_t head_dim = 0;
  int64_t context = 0;
};

/// UserError naming the key of a scaling that has no code here.
layers::RopeSpec read_rope(const ConfigKeys& keys, const RopeReach& reach,
                           const RopeKeys& names = {});
void write_rope(const layers::RopeSpec& rope, const RopeReach& reach, nlohmann::ordered_json& json,
                const RopeKeys& names = {});

/// Of models whose layers turn by different angles with a window and without (Gemma 3):
/// rope_parameters has an object for either; in transformers 4 rope_theta and rope_scaling are of
/// layers without, rope_local_base_freq of those with a window.
struct RopePair {
  layers::RopeSpec full, local;
};
/// How a family spells the bases in transformers 4, and what its class has where they are absent.
struct RopePairKeys {
  const char* full = "rope_theta";
  double usual_full = 1e6;
  const char* local = "rope_local_base_freq";
  double usual_local = 1e4;
};
RopePair read_rope_pair(const ConfigKeys& keys, const RopeReach& reach,
                        const RopePairKeys& names = {});
void write_rope_pair(const RopePair& ropes, const RopeReach& reach, nlohmann::ordered_json& json,
                     const RopePairKeys& names = {});

}  // namespace megalith::models
