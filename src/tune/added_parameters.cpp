// SPDX-License-Identifier: Apache-2.0
#include "tune/added_parameters.h"

#include <fmt/format.h>

#include <memory>

#include "prompts/prompt_table.h"
#include "tune/ia3_modules.h"
#include "tune/lora_modules.h"
#include "tune/peft_folder.h"

namespace megalith::tune {
namespace {

template <typename Modules>
std::function<void(const std::filesystem::path&, const checkpoint::Reader&)> writer_of(
    const std::shared_ptr<const Modules>& modules, const config::TuneSection& tune) {
  return [modules, tune](const std::filesystem::path& folder, const checkpoint::Reader& reader) {
    write_peft_folder(folder, reader, *modules, tune);
  };
}

}  // namespace

std::optional<AddedParameters> added_parameters(const config::TuneSection& tune,
                                                const models::ModelSpec& spec, int tensor_shards) {
  if (tune.method == config::TuneMethod::lora) {
    const auto lora = std::make_shared<const LoraModules>(lora_modules(tune, spec, tensor_shards));
    // They live as long as the modules, of which they are a part.
    const std::shared_ptr<const low_rank::FactoredProducts> products(lora, &lora->products);
    return AddedParameters{
        fmt::format("lora: {} factors of rank {} beside {} products, {} parameters",
                    lora->of.modules.size(), tune.rank, products->products.size(),
                    lora->parameters),
        [products](engine::Settings& settings) {
          settings.factors = low_rank::factors_of(products, settings.masters);
        },
        writer_of(lora, tune)};
  }
  if (tune.method == config::TuneMethod::ia3) {
    const auto ia3 = std::make_shared<const Ia3Modules>(ia3_modules(tune, spec, tensor_shards));
    const std::shared_ptr<const ia3::MultipliedProducts> products(ia3, &ia3->products);
    return AddedParameters{fmt::format("ia3: {} vectors beside {} products, {} parameters",
                                       ia3->of.modules.size(), products->size(), ia3->parameters),
                           [products](engine::Settings& settings) {
                             settings.factors = ia3::vectors_of(products, settings.masters);
                           },
                           writer_of(ia3, tune)};
  }
  if (tune.method == config::TuneMethod::prompt) {
    const int64_t count = tune.virtual_tokens;
    return AddedParameters{
        fmt::format("prompt: {} virtual tokens, {} parameters", count, count * spec.table_width()),
        [count](engine::Settings& settings) {
          settings.virtual_tokens = prompts::table_of(count, settings.masters);
        },
        [tune, spec](const std::filesystem::path& folder, const checkpoint::Reader& reader) {
          write_prompt_folder(folder, reader, spec, tune);
        }};
  }
  return std::nullopt;
}

}  // namespace megalith::tune
