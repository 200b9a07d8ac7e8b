// SPDX-License-Identifier: Apache-2.0
#include "tune/peft_folder.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "base/file.h"
#include "checkpoint/safetensors_writer.h"

namespace megalith::tune {
namespace {

using Values = std::vector<float>;

constexpr char kConfigName[] = "adapter_config.json";
constexpr char kTensorsName[] = "adapter_model.safetensors";

/// The values of a factor, whole.
Values read(const checkpoint::Reader& reader, const std::string& name) {
  const checkpoint::TensorInfo* const info = reader.find(name);
  if (info == nullptr || info->dtype != DType::f32)
    throw IntegrityError("{}: tensor {} is missing, or not of f32", reader.folder().string(), name);
  Values values(static_cast<size_t>(info->shape.num_elements()));
  reader.read(name, Shard::whole(info->shape), values.data());
  return values;
}

/// Of our a [R, I], the module's rows.
Values first_of(const LoraModule& module, int64_t rank, const Values& a_RI) {
  const auto begin = a_RI.begin() + module.first * module.inputs;
  return {begin, begin + rank * module.inputs};
}

/// Of our packed b [P, O], the module's columns as [outputs, rank].
Values second_of(const LoraModule& module, int64_t rank, const Values& b_PO) {
  const int64_t ours = std::ssize(b_PO) / rank;
  Values b_OR(static_cast<size_t>(module.outputs * rank));
  for (const models::RowMove& move : module.moves) {
    for (int64_t row = 0; row < move.rows; ++row) {
      const int64_t column = move.ours + row / move.block * move.period + row % move.block;
      for (int64_t r = 0; r < rank; ++r)
        b_OR[static_cast<size_t>((move.first + row) * rank + r)] =
            b_PO[static_cast<size_t>(r * ours + column)];
    }
  }
  return b_OR;
}

std::string config_text(const LoraModules& lora, const config::TuneSection& tune) {
  nlohmann::ordered_json json = {{"base_model_name_or_path", tune.model},
                                 {"bias", "none"},
                                 {"fan_in_fan_out", lora.fan_in_fan_out},
                                 {"inference_mode", true},
                                 {"init_lora_weights", true},
                                 {"lora_alpha", tune.alpha},
                                 {"lora_dropout", tune.dropout},
                                 {"modules_to_save", nullptr},
                                 {"peft_type", "LORA"},
                                 {"r", tune.rank},
                                 {"target_modules", lora.targets},
                                 {"task_type", "CAUSAL_LM"},
                                 {"use_dora", false},
                                 {"use_rslora", tune.rank_stabilised}};
  return json.dump(2) + "\n";
}

}  // namespace

void write_peft_folder(const std::filesystem::path& folder, const checkpoint::Reader& reader,
                       const LoraModules& lora, const config::TuneSection& tune) {
  std::map<std::string, std::pair<Shape, Values>> tensors;  // by name, as the file has them
  Values a_RI, b_PO;
  std::string weight;
  for (const LoraModule& module : lora.modules) {
    if (module.weight != weight) {
      weight = module.weight;
      a_RI = read(reader, low_rank::first_factor(weight));
      b_PO = read(reader, low_rank::second_factor(weight));
    }
    const std::string name = "base_model.model." + module.name;
    tensors.emplace(name + ".lora_A.weight",
                    std::pair(Shape{tune.rank, module.inputs}, first_of(module, tune.rank, a_RI)));
    tensors.emplace(name + ".lora_B.weight", std::pair(Shape{module.outputs, tune.rank},
                                                       second_of(module, tune.rank, b_PO)));
  }
  std::vector<checkpoint::TensorContent> contents;
  for (const auto& [name, tensor] : tensors) {
    contents.push_back({name, DType::f32, tensor.first,
                        [&values = tensor.second](checkpoint::TensorContent::Sink sink) {
                          sink(std::as_bytes(std::span(values)));
                        }});
  }
  std::filesystem::create_directories(folder);
  checkpoint::write_safetensors(folder / kTensorsName, contents);
  write_file_durable(folder / kConfigName, config_text(lora, tune));
}

}  // namespace megalith::tune
