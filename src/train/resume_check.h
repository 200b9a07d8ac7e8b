// SPDX-License-Identifier: Apache-2.0
// May this recipe go on from that checkpoint? Keys are judged by the table of config/resume.h;
// what the table leaves to content (data, tokenizer) is compared here.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "checkpoint/reader.h"
#include "config/recipe.h"
#include "data/sampler.h"
#include "engine/settings.h"
#include "text/tokenizer.h"
#include "train/position.h"

namespace megalith::train {

/// What a checkpoint records for the start that goes on from it.
nlohmann::json state_json(const Position& position, const engine::Settings& settings,
                          const std::string& data_fingerprint);

/// UserError naming every change that is refused or needs `--allow` and did not get it; says which
/// changes are gone along with. `data_fingerprint` is the sampler's; `tokenizer` may be null.
void check_resume(const config::Recipe& recipe, const data::Sampler& sampler,
                  const std::string& data_fingerprint, const text::Tokenizer* tokenizer,
                  const checkpoint::Reader& reader, std::span<const std::string> allow);

}  // namespace megalith::train
