// SPDX-License-Identifier: Apache-2.0
// How well words of texts are tagged: token by token, and by the entities that tags of the form
// B-TYPE, I-TYPE, O (E-TYPE and S-TYPE too) mark, as seqeval counts them by default: an entity is
// right when its type, its begin and its end are (conlleval, Tjong Kim Sang & De Meulder 2003).
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
/// Those of one text, in order. An entity also begins with an I-TYPE or E-TYPE behind O or another
/// type, and ends before a B-TYPE or S-TYPE. The types are those of the tags' own memory.
std::vector<Entity> entities_of(std::span<const std::string_view> tags);

/// Whether all names are O or of the form, and not all O.
bool mark_entities(std::span<const std::string> names);

/// f1, precision and recall of entities over all texts (0 where that is 0 / 0), and accuracy of
/// tokens; where the names mark no entities the last alone. `labels` and `predictions` are numbers
/// of names, text behind text, as many of each as `lengths` says. At least one.
Scores scores_of_tags(std::span<const std::string> names, std::span<const double> labels,
                      std::span<const double> predictions, std::span<const double> lengths);

}  // namespace megalith::metrics
