// SPDX-License-Identifier: Apache-2.0
#include "train/leftovers.h"

#include <algorithm>

#include "base/file.h"

namespace megalith::train {
namespace {

namespace fs = std::filesystem;

/// Runs write files alone there; whatever else has such a name is not theirs.
bool is_leftover(const fs::directory_entry& entry) {
  return entry.is_regular_file() && is_temporary_name(entry.path().filename().string());
}

}  // namespace

void remove_leftovers(const fs::path& run) {
  for (const auto& entry : fs::directory_iterator(run))
    if (is_leftover(entry)) fs::remove(entry.path());
}

bool has_leftovers(const fs::path& run) {
  return std::ranges::any_of(fs::directory_iterator(run), is_leftover);
}

}  // namespace megalith::train
