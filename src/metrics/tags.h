// SPDX-License-Identifier: Apache-2.0
// How well the words of texts are tagged: accuracy over words, and F1 over the entities that tags
// B-TYPE, I-TYPE, O (E-TYPE and S-TYPE too) mark, as seqeval counts by default: an entity is right
// when its type and both its ends are (conlleval, Tjong Kim Sang & De Meulder 2003).
#pragma once

#include "metrics/classification.h"

namespace megalith::metrics {

/// Tokens [begin, end) of a text.
struct Entity {
  std::string_view type;
  size_t begin = 0;
  size_t end = 0;
  friend bool operator==(const Entity&, const Entity&) = default;
};
/// Those of one text, in order. An entity also begins with an I-TYPE or E-TYPE after O, after an
/// E or S tag or after another type, and ends before a B-TYPE or S-TYPE. `type` points into `tags`.
std::vector<Entity> entities_of(std::span<const std::string_view> tags);

/// Whether all names are O or of that form, and at least one is of it.
bool mark_entities(std::span<const std::string> names);

/// f1, precision and recall of entities over all texts (0 for 0 / 0) and accuracy of words; where
/// the names mark no entities, accuracy alone. `labels` and `predictions` are indices into `names`,
/// text after text, of `lengths` words each; at least one. All scores are NaN where a prediction is
/// not finite.
Scores scores_of_tags(std::span<const std::string> names, std::span<const double> labels,
                      std::span<const double> predictions, std::span<const double> lengths);

}  // namespace megalith::metrics
