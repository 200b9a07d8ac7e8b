// SPDX-License-Identifier: Apache-2.0
// What virtual tokens begin as (Lester et al. 2021, section 3.2), and where they stand in a
// template.
#pragma once

#include <string>
#include <vector>

#include "config/tune_section.h"
#include "store/model_source.h"
#include "text/tokenizer.h"

namespace megalith::tune {

/// The tokens whose rows they begin as: those of tune.prompt_text, with the special tokens that the
/// tokenizer adds (as in PEFT), over and over; or tokens drawn from the first 5,000 of the
/// vocabulary; none where the rows themselves are drawn. UserError for a text without tokens, or
/// with a token that is not in the vocabulary. Of several tasks, those of each one in turn, from
/// its own text if it has one; another task at the end changes none of those before it. Depends on
/// the arguments alone.
std::vector<int32_t> first_tokens(const config::TuneSection& tune, const text::Tokenizer& tokenizer,
                                  int64_t vocab, uint64_t seed);
/// Rows of the model's table of tokens, times the table's scale, in f32 [ids, E]. Memory: that of
/// the table as it is stored.
std::vector<float> rows_of_tokens(const store::ModelSource& model, std::span<const int32_t> ids);

/// A template in NeMo's form, which a key of the recipe gives, without the mark at its beginning.
/// UserError where a mark stands elsewhere, where nothing follows it, or where the run has no
/// virtual tokens (`has_them`).
std::string without_virtual_mark(const std::string& text, const std::string& key, bool has_them);
/// UserError unless a template, which is no chat template, has each of so many marks once, in
/// order, and no others: with tune.virtual_token_splits they stay in the texts
/// (adapters/prompt_marks.h).
void require_virtual_marks(const std::string& text, const std::string& key, size_t marks);
/// UserError where a chat template, read from `file`, has such a mark.
void refuse_virtual_mark(const std::string& chat_template, const std::string& key,
                         const std::string& file);

}  // namespace megalith::tune
