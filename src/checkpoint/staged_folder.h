// SPDX-License-Identifier: Apache-2.0
// A folder that appears whole: it is filled under a temporary name beside its place, made durable,
// and renamed. A crash before that leaves its place unchanged; whatever else it leaves has a name
// that begins with ".tmp-".
#pragma once

#include <filesystem>
#include <string_view>

namespace megalith::checkpoint {

class StagedFolder {
 public:
  /// Creates the temporary folder, whose parent must exist. UserError if the user may not create
  /// one, SystemError if the disk or the machine refuses.
  explicit StagedFolder(std::filesystem::path target);
  /// Removes the temporary folder unless it has been put in place.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  /// The folder to write files into.
  const std::filesystem::path& path() const { return path_; }
  /// Syncs the folder and renames it to the target, durably. A folder already there is exchanged in
  /// one step and then removed; where the file system cannot exchange, it is moved aside first (see
  /// put_back).
  void put_in_place();

 private:
  int take_place(std::filesystem::path& aside) const;

  std::filesystem::path target_;
  std::filesystem::path path_;  // empty once in place
};

/// True for the names of folders that were moved aside.
bool is_aside_name(std::string_view name);
/// For removing what a crash left. If `left` is a folder that was moved aside for a new one that
/// never came, gives it its name back, durably, and returns true. False: it may be removed.
bool put_back(const std::filesystem::path& left);

/// Removes a folder in such a way that no crash leaves half of it under its name.
void remove_folder(const std::filesystem::path& folder);

}  // namespace megalith::checkpoint
