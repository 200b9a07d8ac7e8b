// SPDX-License-Identifier: Apache-2.0
// Which matrix products `fast` numerics gives to a library is found by measuring, and so may come
// out otherwise the next time. A run keeps to what it began with: the choices are part of its
// checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "device/target.h"

namespace megalith::train {

struct ProductChoices {
  std::string isa;        // of the run so far: "avx512"
  std::string library;    // and the version of its library
  uint32_t products = 0;  // as Target::library_products
};

/// What `target` chooses, by name.
nlohmann::json choices_json(const device::Target& target);
/// IntegrityError when it is not what choices_json gives.
ProductChoices choices_from(const nlohmann::json& json);
/// Those of the newest checkpoint below `run`; nothing when there is none, when it is damaged, or
/// when its arithmetic was exact.
std::optional<ProductChoices> recorded_choices(const std::filesystem::path& run);

}  // namespace megalith::train
