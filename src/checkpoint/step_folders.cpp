// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/step_folders.h"

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "checkpoint/own_file.h"

namespace megalith::checkpoint {

namespace fs = std::filesystem;

StepFolders step_folders(const fs::path& checkpoints) {
  StepFolders steps;
  const fs::file_type kind = kind_of(checkpoints);
  if (kind == fs::file_type::symlink) {
    throw UserError(
        "{}: is a link, and a run's checkpoints lie in its own folder; remove the link, or let "
        "run.out as a whole be one",
        checkpoints.string());
  }
  if (kind != fs::file_type::directory) return steps;
  try {
    for (const auto& entry : fs::directory_iterator(checkpoints)) {
      const int64_t step = step_of_folder(entry.path().filename().string());
      if (step >= 0) steps[step] = entry.path();
    }
  } catch (const fs::filesystem_error& error) {
    throw SystemError("{} (readdir): {}", checkpoints.string(), error.code().message());
  }
  return steps;
}

Reader open_own_step(const fs::path& folder, AtWork at_work) {
  if (kind_of(folder) == fs::file_type::symlink)
    throw IntegrityError("{}: is a link; a run's checkpoints are its own", folder.string());
  return Reader(folder, std::move(at_work));
}

std::optional<Reader> find_newest(const fs::path& checkpoints, bool verify, const AtWork& at_work) {
  std::string first_fault;
  size_t damaged = 0;
  for (const auto& [step, folder] : step_folders(checkpoints)) {
    try {
      Reader reader = open_own_step(folder, at_work);
      if (verify) reader.verify_all();
      return reader;
    } catch (const IntegrityError& error) {
      log::warning("passing over the damaged checkpoint {}: {}", folder.string(), error.what());
      if (first_fault.empty()) first_fault = error.what();
      ++damaged;
    }
  }
  if (damaged == 0) return std::nullopt;
  throw IntegrityError(
      "{}: none of {} checkpoints is whole ({}); restore one or choose another run.out (train "
      "--restart begins anew and keeps these aside)",
      checkpoints.string(), damaged, first_fault);
}

}  // namespace megalith::checkpoint
