// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/kept_checkpoints.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/staged_folder.h"
#include "checkpoint/step_folders.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;

/// What no checkpoint needs, or what one must get back: a save's, by its name.
bool is_leaving(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return is_temporary_name(name) || is_aside_name(name);
}

/// A damaged checkpoint has one of these two left. What has neither may be anybody's, or the rest
/// of one that is missed: it is not for us to remove.
bool is_recognisable(const fs::path& step) {
  return fs::exists(fs::symlink_status(step / kCommitName)) ||
         fs::exists(fs::symlink_status(step / kManifestName));
}

}  // namespace

Condition condition_of(const fs::path& step) {
  try {
    open_own_step(step);
    return Condition::whole;
  } catch (const NewerFormatError&) {
    return Condition::newer;
  } catch (const IntegrityError&) {
    return Condition::damaged;
  }
}

bool is_clean(const fs::path& folder) {
  return std::ranges::none_of(fs::directory_iterator(folder), is_leaving);
}

void clean_checkpoints(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_leaving(entry) && !put_back(entry.path())) fs::remove_all(entry.path());
  }
}

std::vector<fs::path> superfluous_checkpoints(const fs::path& folder, int64_t step,
                                              const KeptCheckpoints& rule, const AtWork& at_work) {
  StepFolders steps;
  for (const auto& [other, path] : step_folders(folder)) {
    if (other <= step) steps[other] = path;
  }
  const auto is_regular = [&](int64_t other) {
    return rule.regular > 0 && other % rule.regular == 0;
  };
  const auto places = static_cast<size_t>(std::max<int64_t>(rule.newest, 1));
  std::vector<int64_t> kept, untouched;
  for (const auto& [other, path] : steps) {
    const Condition condition = condition_of(path);
    if (at_work) at_work();
    if (condition == Condition::newer || !is_recognisable(path)) untouched.push_back(other);
    const bool room = kept.size() < places;
    const bool wanted = places >= 2 && is_regular(other) && std::ranges::none_of(kept, is_regular);
    if ((!room && !wanted) || condition != Condition::whole) continue;
    if (!room) kept.pop_back();
    kept.push_back(other);
  }
  std::vector<int64_t> best;
  if (rule.best) {
    for (const int64_t other : kept)
      if (const auto its = rule.best(Reader(steps.at(other), at_work))) best.push_back(*its);
  }
  std::vector<fs::path> superfluous;
  for (const auto& [other, path] : steps) {
    const bool stays =
        std::ranges::find(kept, other) != kept.end() ||
        (std::ranges::find(best, other) != best.end() && condition_of(path) == Condition::whole) ||
        std::ranges::find(untouched, other) != untouched.end();
    if (!stays) superfluous.push_back(path);
  }
  return superfluous;
}

void prune_checkpoints(const fs::path& folder, int64_t step, const KeptCheckpoints& kept,
                       const AtWork& at_work) {
  for (const fs::path& path : superfluous_checkpoints(folder, step, kept, at_work)) {
    remove_folder(path);
    if (at_work) at_work();
  }
}

void require_replaceable(const fs::path& step) {
  if (!fs::exists(fs::symlink_status(step))) return;
  try {
    open_own_step(step);
  } catch (const IntegrityError&) {
    // What is damaged may go.
  }
}

}  // namespace megalith::checkpoint
