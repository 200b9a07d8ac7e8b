// SPDX-License-Identifier: Apache-2.0
// What virtual tokens begin as (Lester et al. 2021, section 3.2), and where a template has them.
#pragma once

#include <string>
#include <vector>

#include "config/tune_section.h"
#include "store/model_source.h"
#include "text/tokenizer.h"

namespace megalith::tune {

/// The tokens whose rows they begin with: those of tune.prompt_text with special tokens that the
/// tokenizer adds, as PEFT has them, again and again, or draws from the first 5,000 of the
/// vocabulary; none where rows are drawn. UserError for a text without tokens, or with one that is
/// none of the vocabulary's. Of several tasks those of each, in their order, of a text that is its
/// own where it has one; a task more changes none of those before it. A function of the arguments
/// alone.
std::vector<int32_t> first_tokens(const config::TuneSection& tune, const text::Tokenizer& tokenizer,
                                  int64_t vocab, uint64_t seed);
/// Rows of the model's table of tokens times its scale, in f32 [ids, E]. Memory: the table, as
/// stored.
std::vector<float> rows_of_tokens(const store::ModelSource& model, std::span<const int32_t> ids);

/// A template in NeMo's form, given by a key of the recipe, without the mark of its virtual tokens.
/// UserError where they do not stand before all of it, where nothing else is in it, or unless there
/// are such tokens (`has_them`).
std::string without_virtual_mark(const std::string& text, const std::string& key, bool has_them);
/// UserError unless a template with a text of its own has each of so many marks once, in order, and
/// no other: with tune.virtual_token_splits, where the marks are left in the texts
/// (adapters/prompt_marks.h).
void require_virtual_marks(const std::string& text, const std::string& key, size_t marks);
/// UserError where the text of a file that is a chat template has such a mark.
void refuse_virtual_mark(const std::string& chat_template, const std::string& key,
                         const std::string& file);

}  // namespace megalith::tune
