// SPDX-License-Identifier: Apache-2.0
#include "peft/added_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "bottlenecks/trained_bottlenecks.h"
#include "peft/bottleneck_modules.h"
#include "peft/ia3_modules.h"
#include "peft/lora_modules.h"
#include "peft/peft_folder.h"
#include "prompts/prompt_table.h"

namespace megalith::tune {
namespace {

template <typename Modules>
std::function<void(const std::filesystem::path&, const checkpoint::Reader&)> writer_of(
    const std::shared_ptr<const Modules>& modules, const config::TuneSection& tune) {
  return [modules, tune](const std::filesystem::path& folder, const checkpoint::Reader& reader) {
    write_peft_folder(folder, reader, *modules, tune);
  };
}

std::string and_head(const TrainedHead& head) {
  return head.tensors.empty() ? "" : fmt::format(", and a head of {}", head.parameters());
}

/// As a run says how many there are.
std::string count_of(const config::TuneSection& tune) {
  const std::string tokens = fmt::format("{} virtual tokens", tune.virtual_tokens);
  if (tune.tasks.empty()) return tokens;
  return fmt::format("{} for each of {} tasks", tokens, tune.tasks.size());
}

/// Rows before texts, themselves or behind an encoder, with what a run says of them.
AddedParameters virtual_tokens(const config::TuneSection& tune, const models::ModelSpec& spec,
                               const std::string& description,
                               std::function<layers::VirtualTokens(DType masters)> make) {
  return {description,
          [make = std::move(make)](engine::Settings& settings) {
            settings.virtual_tokens = make(settings.masters);
          },
          [tune, spec](const std::filesystem::path& folder, const checkpoint::Reader& reader) {
            write_prompt_folders(folder, reader, spec, tune);
          }};
}

AddedParameters encoded_tokens(config::TuneSection tune, const models::ModelSpec& spec) {
  const int64_t count = tune.num_virtual_rows(), width = spec.table_width();
  if (tune.encoder_hidden == 0) tune.encoder_hidden = std::max<int64_t>(width / 2, 1);
  const int64_t tasks = count / tune.virtual_tokens;
  const prompts::EncoderSpec encoder{tune.encoder, tune.encoder_hidden, tune.encoder_layers, tasks};
  const int64_t elements = prompts::trained_elements(count, width, encoder);
  return virtual_tokens(tune, spec,
                        fmt::format("p_tuning: {}, made by an encoder ({}): {} parameters",
                                    count_of(tune), tune.encoder, elements),
                        [=](DType masters) { return prompts::table_of(count, encoder, masters); });
}

}  // namespace

std::optional<AddedParameters> added_parameters(const config::TuneSection& tune,
                                                const models::ModelSpec& spec, int tensor_shards) {
  if (tune.method == config::TuneMethod::lora) {
    const auto lora = std::make_shared<const LoraModules>(lora_modules(tune, spec, tensor_shards));
    // They live as long as the modules, of which they are a part.
    const std::shared_ptr<const low_rank::FactoredProducts> products(lora, &lora->products);
    return AddedParameters{
        fmt::format("{}: {} factors of rank {} beside {} products, {} parameters{}",
                    tune.magnitudes ? "lora (DoRA)" : "lora", lora->of.modules.size(), tune.rank,
                    products->products.size(), lora->parameters, and_head(lora->of.head)),
        [products, has_head = !lora->of.head.tensors.empty()](engine::Settings& settings) {
          settings.factors = low_rank::factors_of(products, settings.masters);
          settings.trains_head = has_head;
        },
        writer_of(lora, tune)};
  }
  if (tune.method == config::TuneMethod::ia3) {
    const auto ia3 = std::make_shared<const Ia3Modules>(ia3_modules(tune, spec, tensor_shards));
    const std::shared_ptr<const ia3::MultipliedProducts> products(ia3, &ia3->products);
    return AddedParameters{
        fmt::format("ia3: {} vectors beside {} products, {} parameters{}", ia3->of.modules.size(),
                    products->size(), ia3->parameters, and_head(ia3->of.head)),
        [products, has_head = !ia3->of.head.tensors.empty()](engine::Settings& settings) {
          settings.factors = ia3::vectors_of(products, settings.masters);
          settings.trains_head = has_head;
        },
        writer_of(ia3, tune)};
  }
  if (tune.method == config::TuneMethod::adapter) {
    const BottleneckModules made = bottleneck_modules(tune, spec, tensor_shards);
    return AddedParameters{
        fmt::format("adapter: bottlenecks of {} behind {} products, {} parameters",
                    tune.adapter_dim, made.modules.size(), made.parameters),
        [size = tune.adapter_dim](engine::Settings& settings) {
          settings.factors = bottlenecks::bottlenecks_of(size, settings.masters);
        },
        [made, spec, tune](const std::filesystem::path& folder, const checkpoint::Reader& reader) {
          write_bottleneck_folder(folder, reader, made, spec, tune);
        }};
  }
  if (tune.method == config::TuneMethod::prompt) {
    const int64_t count = tune.num_virtual_rows();
    return virtual_tokens(
        tune, spec,
        fmt::format("prompt: {}, {} parameters", count_of(tune), count * spec.table_width()),
        [count](DType masters) { return prompts::table_of(count, masters); });
  }
  if (tune.method == config::TuneMethod::p_tuning) return encoded_tokens(tune, spec);
  return std::nullopt;
}

}  // namespace megalith::tune
