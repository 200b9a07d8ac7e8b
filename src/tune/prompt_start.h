// SPDX-License-Identifier: Apache-2.0
// What virtual tokens begin as (Lester et al. 2021, section 3.2), and where a template has them.
#pragma once

#include <string>
#include <vector>

#include "config/tune_section.h"
#include "store/model_source.h"
#include "text/tokenizer.h"

namespace megalith::tune {

/// The tokens whose rows they begin with: those of tune.prompt_text, again and again, or draws from
/// the first 5,000 of the vocabulary; none where rows are drawn. UserError for a text without
/// tokens. A function of the arguments alone.
std::vector<int32_t> first_tokens(const config::TuneSection& tune, const text::Tokenizer& tokenizer,
                                  int64_t vocab, uint64_t seed);
/// Rows of the model's table of tokens times its scale, in f32 [ids, E].
std::vector<float> rows_of_tokens(const store::ModelSource& model, std::span<const int32_t> ids);

/// A template in NeMo's form without the mark of its virtual tokens. UserError where they do not
/// stand before all of it; `has_them`: unless there are such tokens.
std::string without_virtual_mark(const std::string& text, bool has_them);

}  // namespace megalith::tune
