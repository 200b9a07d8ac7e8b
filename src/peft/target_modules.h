// SPDX-License-Identifier: Apache-2.0
// The target modules of a recipe, beside whose products something trains: by the names that the
// model's own folder gives them, as parts of our products.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/foreign_map.h"

namespace megalith::tune {

/// A module as part of one of our products.
struct TargetModule {
  std::string name;    // "model.layers.0.self_attn.q_proj"
  std::string weight;  // ours that it is part of
  Shape shape;         // of that: [O, I]
  int64_t outputs = 0;
  std::vector<models::RowMove> moves;  // rows of the module to ours
  bool is_cut_by_columns = false;      // our weight is, over tensor ranks

  int64_t inputs() const { return shape[1]; }
  /// Calls body(output of the module, ours that it is).
  template <typename Body>
  void for_each_output(const Body& body) const {
    for (const models::RowMove& move : moves)
      for (int64_t row = 0; row < move.rows; ++row)
        body(move.first + row, move.ours + row / move.block * move.period + row % move.block);
  }
};

/// The head of a classifier, which trains whole beside them.
struct TrainedHead {
  std::vector<models::TensorMap> tensors;  // none: the model is no classifier
  std::string config;                      // config.json of the model, with its labels

  int64_t parameters() const;
};

struct TargetModules {
  std::vector<TargetModule> modules;  // in the order of our weights
  std::vector<std::string> targets;   // ends of names that stand for the modules
  bool fan_in_fan_out = false;        // the folder's weights are [in, out]
  std::string task;                   // PEFT's task_type
  TrainedHead head;
};

/// PEFT's task_type of a model.
std::string_view peft_task(const models::ModelSpec& spec);

/// Of the model that is trained: of the products of its layers, those whose names end with one of
/// `targets`, whole or from a point on; all without any. UserError when a target names none; the
/// message names some that do.
TargetModules target_modules(std::span<const std::string> targets, const models::ModelSpec& spec,
                             int tensor_shards);

}  // namespace megalith::tune
