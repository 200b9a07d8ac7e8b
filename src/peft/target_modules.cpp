// SPDX-License-Identifier: Apache-2.0
#include "peft/target_modules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "adapters/module_names.h"
#include "base/error.h"
#include "families/families.h"
#include "families/hugging_face.h"
#include "spec/head_types.h"
#include "store/adapter_source.h"

namespace megalith::tune {
namespace {

constexpr std::string_view kWeight = ".weight";

std::string module_of(std::string_view weight) {
  return std::string(weight.substr(0, weight.size() - kWeight.size()));
}
std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

class Finder {
 public:
  Finder(std::span<const std::string> targets, TargetModules& made) : made_(made) {
    made_.targets.assign(targets.begin(), targets.end());
    for (const std::string& target : targets)
      names_.push_back({target, adapters::ModuleNames::listed({target})});
  }

  void add(const models::TensorMap& map) {
    const size_t before = made_.modules.size();
    for (const models::RowMove& move : map.moves) {
      const std::string name = module_of(move.name);
      known_.insert(last_part(name));
      if (!is_target(name)) continue;
      made_.fan_in_fan_out = move.transposed;
      found_.insert(last_part(name));
      module_named(name, before, map, move).moves.push_back(move);
    }
  }

  void finish(const std::string& family) {
    for (const Target& target : names_) {
      if (target.is_used) continue;
      throw UserError(
          "recipe: tune.targets: no product of the layers of model.family {} is called {:?}; there "
          "are {}",
          family, target.text, fmt::join(known_, ", "));
    }
    if (made_.targets.empty()) made_.targets.assign(found_.begin(), found_.end());
  }

 private:
  struct Target {
    std::string text;
    adapters::ModuleNames names;
    bool is_used = false;
  };
  bool is_target(const std::string& module) {
    bool any = names_.empty();
    for (Target& target : names_) {
      if (!target.names.contains(module)) continue;
      target.is_used = any = true;
    }
    return any;
  }
  /// One of this weight's, from number `begin` on: a module may be several runs of its rows.
  TargetModule& module_named(const std::string& name, size_t begin, const models::TensorMap& map,
                             const models::RowMove& move) {
    for (size_t i = begin; i < made_.modules.size(); ++i)
      if (made_.modules[i].name == name) return made_.modules[i];
    const int64_t outputs = move.shape[move.transposed ? 1 : 0];
    made_.modules.push_back({name, map.name, map.shape, outputs, {}, map.is_cut_by_columns});
    return made_.modules.back();
  }

  TargetModules& made_;
  std::vector<Target> names_;
  std::set<std::string> known_, found_;
};

}  // namespace

namespace {

TrainedHead head_of(const models::ModelSpec& spec, const models::ForeignTable& table,
                    int tensor_shards) {
  if (layers::head_type(spec.head.kind).has_logits) return {};
  std::vector<models::TensorMap> maps = models::tensor_maps(spec, table, tensor_shards);
  std::erase_if(maps, [](const models::TensorMap& map) { return !map.name.starts_with("head."); });
  return {std::move(maps), models::hugging_face_config(spec, DType::f32, {})};
}

}  // namespace

int64_t TrainedHead::parameters() const {
  int64_t sum = 0;
  for (const models::TensorMap& map : tensors) sum += map.shape.num_elements();
  return sum;
}

std::string_view peft_task(const models::ModelSpec& spec) {
  if (spec.is_encoder_decoder()) return "SEQ_2_SEQ_LM";
  if (spec.head.kind == layers::HeadKind::token_classification) return "TOKEN_CLS";
  if (spec.head.kind == layers::HeadKind::question_answering) return "QUESTION_ANS";
  return layers::head_type(spec.head.kind).has_logits ? "CAUSAL_LM" : "SEQ_CLS";
}

TargetModules target_modules(std::span<const std::string> targets, const models::ModelSpec& spec,
                             int tensor_shards) {
  const models::ForeignTable& table =
      models::family_named(spec.family, "recipe: tune.model").tensors;
  TargetModules made;
  made.task = peft_task(spec);
  Finder finder(targets, made);
  for (const models::TensorMap& map : store::adaptable_products(spec, table, tensor_shards))
    finder.add(map);
  finder.finish(spec.family);
  made.head = head_of(spec, table, tensor_shards);
  return made;
}

}  // namespace megalith::tune
