// SPDX-License-Identifier: Apache-2.0
// BERT's normaliser in one pass: ASCII goes through a table, runs of other characters through the
// four steps. That is the same as step after step over the whole, since no ASCII character is
// changed by its neighbours, nor changes them.
#pragma once

#include <string>
#include <string_view>

#include "tokenize/normalizer.h"

namespace megalith::tokenize {

/// Appends the normalised text; false if characters before the first that is left were taken away.
bool normalize_as_bert(const BertNormalizer& options, std::string_view text, std::string& out);
/// Appends the text in lower case, each character by itself.
void append_lower(std::string_view text, std::string& out);

}  // namespace megalith::tokenize
