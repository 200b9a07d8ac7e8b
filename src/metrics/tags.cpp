// SPDX-License-Identifier: Apache-2.0
#include "metrics/tags.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::metrics {
namespace {

/// A tag in its parts; of O the type is empty.
struct Tag {
  char place = 'O';
  std::string_view type;
};

Tag parsed(std::string_view tag) {
  if (tag.empty() || tag == "O") return {};
  // "B" alone marks an entity too, of no type's name.
  return {tag.front(), tag.size() > 2 ? tag.substr(2) : std::string_view("_")};
}

bool begins_entity(const Tag& before, const Tag& here) {
  if (here.place == 'O') return false;
  if (here.place == 'B' || here.place == 'S') return true;
  return before.place == 'O' || before.place == 'E' || before.place == 'S' ||
         before.type != here.type;
}

bool is_of_form(std::string_view name) {
  constexpr std::string_view kPlaces = "BIES";
  return name.size() > 2 && name[1] == '-' && kPlaces.find(name[0]) != std::string_view::npos;
}

double quotient(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::vector<Entity> entities_of(std::span<const std::string_view> tags) {
  std::vector<Entity> entities;
  Tag before;
  size_t begin = 0;
  for (size_t i = 0; i <= tags.size(); ++i) {
    const Tag here = i < tags.size() ? parsed(tags[i]) : Tag{};
    const bool begins = begins_entity(before, here);
    if (before.place != 'O' && (begins || here.place == 'O'))
      entities.push_back({before.type, begin, i});
    if (begins) begin = i;
    before = here;
  }
  return entities;
}

bool mark_entities(std::span<const std::string> names) {
  return std::ranges::any_of(names, is_of_form) &&
         std::ranges::all_of(names, [](const std::string& n) { return n == "O" || is_of_form(n); });
}

Scores scores_of_tags(std::span<const std::string> names, std::span<const double> labels,
                      std::span<const double> predictions, std::span<const double> lengths) {
  MEGA_CHECK(labels.size() == predictions.size() && !labels.empty());
  const bool of_entities = mark_entities(names);
  if (!are_finite(predictions)) {
    if (!of_entities) return {{"accuracy", kNoScore}};
    return {
        {"f1", kNoScore}, {"precision", kNoScore}, {"recall", kNoScore}, {"accuracy", kNoScore}};
  }
  int64_t right_tokens = 0, right = 0, wanted = 0, said = 0;
  size_t begin = 0;
  for (const double length : lengths) {
    const size_t end = begin + static_cast<size_t>(length);
    MEGA_CHECK_LE(end, labels.size());
    std::vector<std::string_view> is, was_said;
    for (size_t i = begin; i < end; ++i) {
      right_tokens += labels[i] == predictions[i] ? 1 : 0;
      if (!of_entities) continue;
      is.push_back(names[static_cast<size_t>(labels[i])]);
      was_said.push_back(names[static_cast<size_t>(predictions[i])]);
    }
    const std::vector<Entity> true_ones = entities_of(is), said_ones = entities_of(was_said);
    wanted += std::ssize(true_ones);
    said += std::ssize(said_ones);
    right += std::ranges::count_if(said_ones, [&](const Entity& e) {
      return std::ranges::find(true_ones, e) != true_ones.end();
    });
    begin = end;
  }
  MEGA_CHECK_EQ(begin, labels.size());
  const double accuracy = quotient(right_tokens, std::ssize(labels));
  if (!of_entities) return {{"accuracy", accuracy}};
  const double precision = quotient(right, said), recall = quotient(right, wanted);
  const double sum = precision + recall;
  return {{"f1", sum == 0 ? 0 : 2 * precision * recall / sum},
          {"precision", precision},
          {"recall", recall},
          {"accuracy", accuracy}};
}

}  // namespace megalith::metrics
