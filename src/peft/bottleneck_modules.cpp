// SPDX-License-Identifier: Apache-2.0
#include "peft/bottleneck_modules.h"

#include <nlohmann/json.hpp>
#include <span>

#include "adapters/bottleneck.h"
#include "base/error.h"
#include "base/file.h"
#include "bottlenecks/trained_bottlenecks.h"
#include "checkpoint/safetensors_writer.h"
#include "families/families.h"
#include "store/adapter_source.h"

namespace megalith::tune {
namespace {

constexpr char kHubConfigName[] = "adapter_config.json", kHubTensorsName[] = "adapter.safetensors";
constexpr char kAdapterName[] = "tuned";

/// AdapterHub derives the size from this: hidden divided by it, rounded down.
double reduction_factor(int64_t hidden, int64_t size) {
  const auto h = static_cast<double>(hidden), r = static_cast<double>(size);
  return hidden % size == 0 ? h / r : h / (r + 0.5);
}

nlohmann::ordered_json hub_config(int64_t hidden, const models::ModelSpec& spec,
                                  const config::TuneSection& tune) {
  const nlohmann::ordered_json config = {
      {"mh_adapter", true},
      {"output_adapter", true},
      {"non_linearity", "swish"},
      {"reduction_factor", reduction_factor(hidden, tune.adapter_dim)},
      {"original_ln_before", false},
      {"original_ln_after", true},
      {"residual_before_ln", true},
      {"adapter_residual_before_ln", false},
      {"ln_before", false},
      {"ln_after", false},
      {"is_parallel", false},
      {"scaling", 1.0},
      {"use_gating", false},
      {"inv_adapter", nullptr},
      {"cross_adapter", false},
      {"leave_out", nlohmann::ordered_json::array()},
      {"dropout", 0.0},
      {"phm_layer", false},
      {"init_weights", "bert"},
      {"stochastic_depth", 0.0}};
  return {{"config", config},          {"hidden_size", hidden}, {"model_name", tune.model},
          {"model_type", spec.family}, {"name", kAdapterName},  {"version", "adapters.1.2.0"}};
}

}  // namespace

BottleneckModules bottleneck_modules(const config::TuneSection& tune, const models::ModelSpec& spec,
                                     int tensor_shards) {
  if (!spec.is_causal() || spec.is_encoder_decoder()) {
    throw UserError(
        "recipe: tune.method: adapter is for decoder-only models, and model.family {} of "
        "tune.model is not one; set lora or ia3",
        spec.family);
  }
  const models::ForeignTable& table =
      models::family_named(spec.family, "recipe: tune.model").tensors;
  BottleneckModules made;
  for (const models::TensorMap& map : store::adaptable_products(spec, table, tensor_shards)) {
    if (!map.is_cut_by_columns) continue;
    const int64_t hidden = map.shape[0];
    made.modules.push_back(
        {map.name, map.moves.at(0).name, map.name.find(".attention.") != std::string::npos});
    made.hidden = hidden;
    made.parameters += 2 * tune.adapter_dim * hidden + tune.adapter_dim + hidden;
  }
  return made;
}

void write_bottleneck_folder(const std::filesystem::path& folder, const checkpoint::Reader& reader,
                             const BottleneckModules& modules, const models::ModelSpec& spec,
                             const config::TuneSection& tune) {
  std::vector<checkpoint::TensorContent> contents;
  for (const BottleneckModule& module : modules.modules) {
    const auto ours = bottlenecks::parameters_behind(module.weight);
    const auto theirs =
        adapters::bottleneck_tensors(module.name, module.of_attention, kAdapterName);
    for (size_t i = 0; i < ours.size(); ++i) {
      const checkpoint::TensorInfo* const info = reader.find(ours[i]);
      if (info == nullptr || info->dtype != DType::f32) {
        throw IntegrityError("{}: tensor {} is missing, or not of f32", reader.folder().string(),
                             ours[i]);
      }
      contents.push_back(
          {theirs[i], DType::f32, info->shape,
           [&reader, name = ours[i], shape = info->shape](checkpoint::TensorContent::Sink sink) {
             std::vector<float> values(static_cast<size_t>(shape.num_elements()));
             reader.read(name, Shard::whole(shape), values.data());
             sink(std::as_bytes(std::span(values)));
           }});
    }
  }
  std::filesystem::create_directories(folder);
  checkpoint::write_safetensors(folder / kHubTensorsName, contents);
  write_file_durable(folder / kHubConfigName,
                     hub_config(modules.hidden, spec, tune).dump(2) + "\n");
}

}  // namespace megalith::tune
