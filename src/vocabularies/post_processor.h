// SPDX-License-Identifier: Apache-2.0
// The special tokens around a text, spelled as in a tokenizer.json.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace megalith::vocabularies {

using Json = nlohmann::ordered_json;

/// A TemplateProcessing: `before` A `after`, of two texts one after the other; null where there is
/// nothing to add. `spelled` gives the token of an id.
Json template_of(const std::vector<int32_t>& before, const std::vector<int32_t>& after,
                 const std::function<std::string(int32_t)>& spelled);

/// BERT's: CLS A SEP, and CLS A SEP B SEP, of which B and what follows it are of type 1. RoBERTa
/// has two SEP between the texts, and one type.
Json pair_template_of(int32_t cls, int32_t sep, bool as_roberta,
                      const std::function<std::string(int32_t)>& spelled);

}  // namespace megalith::vocabularies
