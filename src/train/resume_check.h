// SPDX-License-Identifier: Apache-2.0
// May this recipe go on from that checkpoint? Keys are judged by the table of config/resume.h;
// what the table leaves to content (data, tokenizer) is compared here.
#pragma once

#include <span>
#include <string>

#include "checkpoint/reader.h"
#include "config/recipe.h"
#include "data/batch_source.h"
#include "text/tokenizer.h"

namespace megalith::train {

/// Where a checkpoint records RunInputs' base: "base" of one that holds no model, but what
/// trains beside its weights.
std::string_view base_key(const config::Recipe& recipe);

/// UserError naming every change that is refused or needs `--allow` and did not get it; says which
/// changes are gone along with. `data_fingerprint` is the source's; `tokenizer` may be null; `base`
/// is RunInputs'.
void check_resume(const config::Recipe& recipe, const data::BatchSource& source,
                  const std::string& data_fingerprint, const text::Tokenizer* tokenizer,
                  const std::string& base, const checkpoint::Reader& reader,
                  std::span<const std::string> allow);

}  // namespace megalith::train
