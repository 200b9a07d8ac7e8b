// SPDX-License-Identifier: Apache-2.0
// A folder that comes into being whole: filled under a temporary name beside its place, made
// durable, then renamed. A crash before leaves the place as it was; what it leaves besides begins
// with ".tmp-".
#pragma once

#include <filesystem>
#include <string_view>

namespace megalith::checkpoint {

class StagedFolder {
 public:
  /// Creates the temporary folder. Its parent must exist. UserError where the person may not make
  /// one, SystemError when the disk or the machine refuses.
  explicit StagedFolder(std::filesystem::path target);
  /// Removes the temporary folder unless it was put in place.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  /// Where to write the files.
  const std::filesystem::path& path() const { return path_; }
  /// Syncs the folder and renames it to the target; a folder that is there is exchanged in one step
  /// and then removed (aside and then removed, where a file system cannot do that: see put_back).
  /// Durable when it returns.
  void put_in_place();

 private:
  int take_place(std::filesystem::path& aside) const;

  std::filesystem::path target_;
  std::filesystem::path path_;  // empty once in place
};

/// Whether a name is one that a folder got which had to go aside.
bool is_aside_name(std::string_view name);
/// For whoever removes what a crash left: if `left` is a folder that had to go aside for a new one
/// which did not come into its place, gives it its name back, durably. False: it may go.
bool put_back(const std::filesystem::path& left);

/// Takes a folder away such that no crash leaves half of it under its name.
void remove_folder(const std::filesystem::path& folder);

}  // namespace megalith::checkpoint
