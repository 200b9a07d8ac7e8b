// SPDX-License-Identifier: Apache-2.0
// Recipes as a flat list of (path, value), and what follows from comparing such lists.
#include <fmt/format.h>

#include <map>

#include "base/file.h"
#include "config/recipe.h"

namespace megalith::config {

using settings::FieldInfo;
using settings::InFingerprint;
using settings::join_path;
using settings::ListReference;
using settings::value_text;
using settings::ValueReference;
namespace {

struct Leaf {
  std::string path;
  std::string value;
  bool in_fingerprint;
};

class Flattener : public FieldVisitor {
 public:
  Flattener(std::string path, std::vector<Leaf>& leaves)
      : path_(std::move(path)), leaves_(leaves) {}

 protected:
  void on_value(const FieldInfo& info, const ValueReference& value) override {
    leaves_.push_back({join_path(path_, info.name), value_text(value),
                       info.in_fingerprint == InFingerprint::yes});
  }
  void on_section(const FieldInfo& info, FunctionRef<void(FieldVisitor&)> visit) override {
    Flattener inner(join_path(path_, info.name), leaves_);
    visit(inner);
  }
  void on_list(const FieldInfo& info, const ListReference& list) override {
    for (size_t i = 0; i < list.size(); ++i) {
      Flattener inner(fmt::format("{}.{}", join_path(path_, info.name), i), leaves_);
      list.visit_item(i, inner);
    }
  }

 private:
  std::string path_;
  std::vector<Leaf>& leaves_;
};

std::vector<Leaf> flatten(Recipe recipe) {
  resolve(recipe);
  std::vector<Leaf> leaves;
  Flattener flattener("", leaves);
  recipe.visit(flattener);
  return leaves;
}

std::map<std::string, std::string> by_path(const std::vector<Leaf>& leaves) {
  std::map<std::string, std::string> out;
  for (const Leaf& leaf : leaves) out.emplace(leaf.path, leaf.value);
  return out;
}

}  // namespace

std::vector<Difference> differences(const Recipe& before, const Recipe& after) {
  const std::vector<Leaf> old_leaves = flatten(before), new_leaves = flatten(after);
  const auto old_values = by_path(old_leaves), new_values = by_path(new_leaves);
  std::vector<Difference> out;
  for (const Leaf& leaf : old_leaves) {
    const auto now = new_values.find(leaf.path);
    const std::string value = now == new_values.end() ? "absent" : now->second;
    if (value != leaf.value) out.push_back({leaf.path, leaf.value, value});
  }
  for (const Leaf& leaf : new_leaves)
    if (!old_values.contains(leaf.path)) out.push_back({leaf.path, "absent", leaf.value});
  return out;
}

std::string fingerprint(const Recipe& recipe, const Recipe& standard) {
  const auto defaults = by_path(flatten(standard));
  Sha256 hash;
  for (const Leaf& leaf : flatten(recipe)) {
    if (!leaf.in_fingerprint) continue;
    const auto found = defaults.find(leaf.path);
    if (found != defaults.end() && found->second == leaf.value) continue;
    // Texts are quoted in values, so a line ends only here.
    const std::string line = leaf.path + "=" + leaf.value + "\n";
    hash.update(line.data(), line.size());
  }
  return hash.finish();
}

}  // namespace megalith::config
