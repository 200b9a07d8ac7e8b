// SPDX-License-Identifier: Apache-2.0
#include "train/product_choices.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "checkpoint/reader.h"
#include "checkpoint/step_folders.h"
#include "kernels/matmul/product_class.h"

namespace megalith::train {

nlohmann::json choices_json(const device::Target& target) {
  nlohmann::json names = nlohmann::json::array();
  for (int i = 0; i < kernels::kNumProductClasses; ++i) {
    const kernels::ProductClass c = kernels::product_class(i);
    if (takes_library(target, c)) names.push_back(name_of(c));
  }
  return {{"isa", std::string(name_of(target.isa))},
          {"library", kernels::library_version()},
          {"library_products", names}};
}

ProductChoices choices_from(const nlohmann::json& json) {
  try {
    ProductChoices choices{json.at("isa").get<std::string>(), json.at("library").get<std::string>(),
                           0};
    for (const auto& name : json.at("library_products").get<std::vector<std::string>>()) {
      int i = 0;
      while (i < kernels::kNumProductClasses && name_of(kernels::product_class(i)) != name) ++i;
      if (i == kernels::kNumProductClasses)
        throw IntegrityError("checkpoint: it chose for products '{}', which are none", name);
      choices.products |= uint32_t{1} << i;
    }
    return choices;
  } catch (const nlohmann::json::exception& error) {
    throw IntegrityError("checkpoint: its choices of products cannot be read: {}", error.what());
  }
}

std::optional<ProductChoices> recorded_choices(const std::filesystem::path& run) {
  const checkpoint::StepFolders steps = checkpoint::step_folders(run / "checkpoints");
  for (const auto& [step, folder] : steps) {
    std::optional<checkpoint::Reader> reader;
    try {
      reader.emplace(checkpoint::open_own_step(folder));
    } catch (const IntegrityError&) {
      continue;  // the resume says so; it goes on from an older one, as this does
    }
    const auto found = reader->state().find("products");
    if (found == reader->state().end()) return std::nullopt;
    try {
      return choices_from(*found);
    } catch (const IntegrityError& error) {
      throw IntegrityError("{}: {}", folder.string(), error.what());
    }
  }
  return std::nullopt;
}

}  // namespace megalith::train
