// SPDX-License-Identifier: Apache-2.0
#include "train/resume_check.h"

#include <fmt/ranges.h>

#include "base/integer.h"
#include "base/log.h"
#include "config/resume.h"
#include "models/recipe_model.h"

namespace megalith::train {
namespace {

using Faults = std::vector<std::string>;

/// A key that names files, as --allow takes it, or a list whose items have such keys.
struct FilesKey {
  const char* name;
  const char* path = name;  // of one such value, by which its rule is found
};

/// A fault where the content of files changed and --allow does not name their key.
void judge_content(const FilesKey& key, bool changed, std::span<const std::string> allow,
                   Faults& faults) {
  if (!changed || config::is_allowed(key.name, allow)) return;
  faults.push_back(
      fmt::format("the content of {} is not what the run began with: {} (--allow {} goes on)",
                  key.name, config::resume_rule(key.path).reason, key.name));
}

/// Of the files that a run trains on.
FilesKey data_key(const config::Recipe& recipe) {
  if (!recipe.tunes()) return {"data.train", "data.train.0.path"};
  if (recipe.tune.data.empty()) return {"tune.tasks", "tune.tasks.0.data"};
  return {"tune.data"};
}

/// A fault where the weights of tune.model are not those that the run began with: what trains
/// beside weights fits these alone, and preferences are compared with what they said. --allow helps
/// other runs only, whose checkpoints have all weights.
void judge_base(const config::Recipe& recipe, const std::string& base, const nlohmann::json& state,
                std::span<const std::string> allow, Faults& faults) {
  const auto recorded = state.find(base_key(recipe));
  const bool changed = recorded != state.end() && *recorded != base;
  const bool beside = recipe.tune.trains_beside();
  if (!changed || !(beside || recipe.compares()))
    return judge_content({"tune.model"}, changed, allow, faults);
  faults.push_back(fmt::format("the weights of tune.model are not those that this run {}",
                               beside ? "began beside" : "compares with"));
}

/// Whether the key says what virtual tokens begin as, in a run whose reference log-probabilities
/// were computed with them.
bool is_compared_with(const config::Recipe& recipe, std::string_view path) {
  return recipe.compares() && recipe.tune.has_virtual_tokens() &&
         (path == "run.seed" || path == "tune.prompt_init" || path == "tune.prompt_text");
}

/// Makes faults of changes to such keys, whatever --allow names, and removes them from `changes`.
void judge_beginning(const config::Recipe& recipe, std::vector<config::Difference>& changes,
                     Faults& faults) {
  for (const config::Difference& change : changes) {
    if (!is_compared_with(recipe, change.path)) continue;
    faults.push_back(
        fmt::format("{} was {}, is {}: the log-probabilities that answers are compared with were "
                    "computed with virtual tokens that began as the old value says",
                    change.path, change.before, change.after));
  }
  std::erase_if(changes, [&](const config::Difference& change) {
    return is_compared_with(recipe, change.path);
  });
}

/// A fault where the new number of tensor shards pads the vocabulary to other rows than were saved:
/// allowing the change would not make them fit.
void judge_padding(const config::Recipe& before, const config::Recipe& now, int64_t vocab,
                   Faults& faults) {
  const auto rows_for = [&](const config::Recipe& recipe) {
    return models::model_of(before, vocab).padded_vocab(narrow<int>(recipe.parallel.tensor_shards));
  };
  if (before.parallel.tensor_shards == now.parallel.tensor_shards) return;
  const int64_t saved = rows_for(before), asked = rows_for(now);
  if (saved == asked) return;
  faults.push_back(fmt::format(
      "parallel.tensor_shards was {}, is {}: the vocabulary was saved padded to {} rows, and would "
      "now have {}",
      before.parallel.tensor_shards, now.parallel.tensor_shards, saved, asked));
}

}  // namespace

std::string_view base_key(const config::Recipe& recipe) {
  return recipe.tune.trains_beside() ? "base" : "tuned";
}

void check_resume(const config::Recipe& recipe, const data::BatchSource& source,
                  const std::string& data_fingerprint, const text::Tokenizer* tokenizer,
                  const std::string& base, const checkpoint::Reader& reader,
                  std::span<const std::string> allow) {
  const std::string folder = reader.folder().string();
  const auto text = reader.text("recipe.yaml");
  if (!text) throw IntegrityError("{}: recipe.yaml is missing", folder);
  const config::Recipe before = config::parse_recipe(
      *text, folder + "/recipe.yaml", std::span<const std::string>(), models::complete);
  config::Recipe now = recipe;
  models::complete(now.model);
  auto changes = config::differences(before, now);
  Faults faults;
  judge_beginning(now, changes, faults);
  const std::string forbidden = config::forbidden_changes(changes, allow);
  if (!forbidden.empty()) faults.push_back(forbidden);
  judge_padding(before, now, tokenizer != nullptr ? tokenizer->vocab_size() : 0, faults);
  const auto& state = reader.state();
  const auto recorded = state.find("data_fingerprint");
  const bool same_data =
      recorded == state.end() ||
      (recorded->is_string() && source.has_fingerprint(*recorded, data_fingerprint));
  judge_content(data_key(recipe), !same_data, allow, faults);
  judge_base(recipe, base, state, allow, faults);
  const auto saved = reader.text("tokenizer.json");
  judge_content(
      {"data.tokenizer"},
      saved.has_value() != (tokenizer != nullptr) || (saved && *saved != tokenizer->to_json()),
      allow, faults);
  if (!faults.empty()) {
    throw UserError(
        "{} was trained with another recipe ({}); use the old values or another run.out", folder,
        fmt::join(faults, "; "));
  }
  for (const config::Difference& change : changes) {
    if (config::resume_rule(change.path).judgement == config::OnResume::needs_allow) {
      log::warning("{} was {} and is {} from here on", change.path, change.before, change.after);
    }
  }
}

}  // namespace megalith::train
