// SPDX-License-Identifier: Apache-2.0
#include "peft/peft_folder.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "adapters/prompt_marks.h"
#include "base/file.h"
#include "checkpoint/safetensors_writer.h"
#include "prompts/prompt_table.h"

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
Values first_of(const TargetModule& module, int64_t first, int64_t rank, const Values& a_RI) {
  const auto begin = a_RI.begin() + first * module.inputs();
  return {begin, begin + rank * module.inputs()};
}

/// Of our packed b [P, O], or a vector [1, O], the module's columns as [outputs, rank].
Values second_of(const TargetModule& module, int64_t rank, const Values& b_PO) {
  const int64_t ours = module.shape[0];
  Values b_OR(static_cast<size_t>(module.outputs * rank));
  module.for_each_output([&](int64_t output, int64_t column) {
    for (int64_t r = 0; r < rank; ++r)
      b_OR[static_cast<size_t>(output * rank + r)] = b_PO[static_cast<size_t>(r * ours + column)];
  });
  return b_OR;
}

nlohmann::ordered_json config_of(const config::TuneSection& tune, const char* type,
                                 std::string_view task) {
  return {{"base_model_name_or_path", tune.model},
          {"inference_mode", true},
          {"modules_to_save", nullptr},
          {"peft_type", type},
          {"task_type", std::string(task)}};
}

std::string_view first_part(std::string_view name) { return name.substr(0, name.find('.')); }

/// modules_to_save: the head's modules as attributes of the model's class, without the prefix of
/// its body.
std::set<std::string> saved_modules(const TargetModules& modules) {
  const std::string_view body = first_part(modules.modules.front().name);
  std::set<std::string> saved;
  for (const models::TensorMap& map : modules.head.tensors) {
    for (const models::RowMove& move : map.moves) {
      std::string_view name = move.name;
      if (first_part(name) == body) name.remove_prefix(body.size() + 1);
      saved.emplace(first_part(name));
    }
  }
  return saved;
}

/// Names of the head's products, which target_modules, being ends of names, might match.
std::set<std::string> products_of_head(const TargetModules& modules) {
  std::set<std::string> products;
  for (const models::TensorMap& map : modules.head.tensors)
    for (const models::RowMove& move : map.moves)
      products.insert(move.name.substr(0, move.name.rfind('.')));
  return products;
}

nlohmann::ordered_json config_of(const TargetModules& modules, const config::TuneSection& tune,
                                 const char* type) {
  nlohmann::ordered_json config = config_of(tune, type, modules.task);
  config.update({{"fan_in_fan_out", modules.fan_in_fan_out}, {"target_modules", modules.targets}});
  if (modules.head.tensors.empty()) return config;
  config.update({{"modules_to_save", saved_modules(modules)},
                 {"exclude_modules", products_of_head(modules)}});
  return config;
}

/// Of the encoder that made the rows; its weights are not in the folder.
nlohmann::ordered_json encoder_of(const config::TuneSection& tune) {
  const bool is_lstm = tune.encoder == config::PromptEncoderKind::lstm;
  return {{"encoder_dropout", 0.0},
          {"encoder_hidden_size", tune.encoder_hidden},
          {"encoder_num_layers", tune.encoder_layers},
          {"encoder_reparameterization_type", is_lstm ? "LSTM" : "MLP"}};
}

/// How rows were initialised no longer matters: they are read from the folder.
nlohmann::ordered_json beginning() {
  return {{"prompt_tuning_init", "RANDOM"},
          {"prompt_tuning_init_text", nullptr},
          {"tokenizer_kwargs", nullptr},
          {"tokenizer_name_or_path", nullptr}};
}

using Tensors = std::map<std::string, std::pair<Shape, Values>>;  // by name, as the file has them

std::string tensor_name(const TargetModule& module, const char* suffix) {
  return "base_model.model." + module.name + suffix;
}

/// What trains whole, under the names of the model's folder.
void add_head(const checkpoint::Reader& reader, const TrainedHead& head, Tensors& tensors) {
  for (const models::TensorMap& map : head.tensors) {
    const Values ours = read(reader, map.name);
    for (const models::RowMove& move : map.moves) {
      Values theirs(static_cast<size_t>(move.shape.num_elements()));
      models::from_ours(map, move, sizeof(float), ours.data(), theirs.data());
      tensors.emplace("base_model.model." + move.name, std::pair(move.shape, std::move(theirs)));
    }
  }
}

/// Writes what is to be read beside an adapter, or removes an old one where there is nothing.
void write_beside(const std::filesystem::path& path, const std::string& text) {
  if (text.empty()) {
    std::filesystem::remove(path);
  } else {
    write_file_durable(path, text);
  }
}

/// `model`: the config.json, with its labels, of a classifier whose head is in the adapter;
/// `splits`: where virtual tokens stand (adapters/prompt_marks.h). They come first, so that no
/// adapter stands beside another one's.
void write(const std::filesystem::path& folder, const Tensors& tensors,
           const nlohmann::ordered_json& config, const std::string& model,
           const std::string& splits = {}) {
  std::vector<checkpoint::TensorContent> contents;
  for (const auto& [name, tensor] : tensors) {
    contents.push_back({name, DType::f32, tensor.first,
                        [&values = tensor.second](checkpoint::TensorContent::Sink sink) {
                          sink(std::as_bytes(std::span(values)));
                        }});
  }
  std::filesystem::create_directories(folder);
  write_beside(folder / "config.json", model);
  write_beside(folder / adapters::kSplitsName, splits);
  checkpoint::write_safetensors(folder / kTensorsName, contents);
  write_file_durable(folder / kConfigName, config.dump(2) + "\n");
}

/// Rows [P, E] that stand before texts, or in them.
void write_prompt(const std::filesystem::path& folder, Values rows, const models::ModelSpec& spec,
                  const config::TuneSection& tune) {
  Tensors tensors;
  tensors.emplace("prompt_embeddings",
                  std::pair(Shape{tune.virtual_tokens, spec.table_width()}, std::move(rows)));
  const bool is_encoded = tune.method == config::TuneMethod::p_tuning &&
                          tune.encoder != config::PromptEncoderKind::embedding;
  nlohmann::ordered_json config =
      config_of(tune, is_encoded ? "P_TUNING" : "PROMPT_TUNING", peft_task(spec));
  config.update({{"num_attention_heads", spec.layer(0).attention.heads},
                 {"num_layers", spec.num_layers()},
                 {"num_transformer_submodules", 1},
                 {"num_virtual_tokens", tune.virtual_tokens},
                 {"token_dim", spec.table_width()}});
  config.update(is_encoded ? encoder_of(tune) : beginning());
  const std::vector<int64_t> splits = tune.rows_of_marks();
  write(folder, tensors, config, {}, splits.empty() ? "" : adapters::splits_json(splits));
}

}  // namespace

void write_peft_folder(const std::filesystem::path& folder, const checkpoint::Reader& reader,
                       const LoraModules& lora, const config::TuneSection& tune) {
  Tensors tensors;
  Values a_RI, b_PO, m_O;
  std::string weight;
  for (size_t i = 0; i < lora.of.modules.size(); ++i) {
    const TargetModule& module = lora.of.modules[i];
    if (module.weight != weight) {
      weight = module.weight;
      a_RI = read(reader, low_rank::first_factor(weight));
      b_PO = read(reader, low_rank::second_factor(weight));
      if (tune.magnitudes) m_O = read(reader, low_rank::magnitudes_of(weight));
    }
    tensors.emplace(tensor_name(module, ".lora_A.weight"),
                    std::pair(Shape{tune.rank, module.inputs()},
                              first_of(module, lora.first[i], tune.rank, a_RI)));
    tensors.emplace(
        tensor_name(module, ".lora_B.weight"),
        std::pair(Shape{module.outputs, tune.rank}, second_of(module, tune.rank, b_PO)));
    if (!tune.magnitudes) continue;
    tensors.emplace(tensor_name(module, ".lora_magnitude_vector"),
                    std::pair(Shape{module.outputs}, second_of(module, 1, m_O)));
  }
  nlohmann::ordered_json config = config_of(lora.of, tune, "LORA");
  config.update({{"bias", "none"},
                 {"init_lora_weights", true},
                 {"lora_alpha", tune.alpha},
                 {"lora_dropout", tune.dropout},
                 {"r", tune.rank},
                 {"use_dora", tune.magnitudes},
                 {"use_rslora", tune.rank_stabilised}});
  add_head(reader, lora.of.head, tensors);
  write(folder, tensors, config, lora.of.head.config);
}

void write_peft_folder(const std::filesystem::path& folder, const checkpoint::Reader& reader,
                       const Ia3Modules& ia3, const config::TuneSection& tune) {
  Tensors tensors;
  for (const TargetModule& module : ia3.of.modules) {
    const Values l = read(reader, ia3::vector_beside(module.weight));
    const std::string name = tensor_name(module, ".ia3_l");
    if (module.is_cut_by_columns) {
      tensors.emplace(name, std::pair(Shape{1, module.inputs()}, l));
    } else {
      tensors.emplace(name, std::pair(Shape{module.outputs, 1}, second_of(module, 1, l)));
    }
  }
  nlohmann::ordered_json config = config_of(ia3.of, tune, "IA3");
  config.update({{"feedforward_modules", ia3.feedforward}, {"init_ia3_weights", true}});
  add_head(reader, ia3.of.head, tensors);
  write(folder, tensors, config, ia3.of.head.config);
}

void write_prompt_folders(const std::filesystem::path& folder, const checkpoint::Reader& reader,
                          const models::ModelSpec& spec, const config::TuneSection& tune) {
  const Values rows = read(reader, std::string(prompts::kTableName));
  if (tune.tasks.empty()) return write_prompt(folder, rows, spec, tune);
  auto first = rows.begin();
  for (const config::TuneTask& task : tune.tasks) {
    const auto end = first + tune.virtual_tokens * spec.table_width();
    write_prompt(folder / task.name, {first, end}, spec, tune);
    first = end;
  }
}

}  // namespace megalith::tune
