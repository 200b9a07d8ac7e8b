// SPDX-License-Identifier: Apache-2.0
// The weights of a Hugging Face folder: model.safetensors, or the shards that
// model.safetensors.index.json lists. The map and the shards must name the same tensors, each once;
// shard names must be plain, and no link may lead out of the folder, except into the blobs of the
// hub's own cache, which consists of such links.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace megalith::checkpoint {

inline constexpr char kSingleName[] = "model.safetensors";
inline constexpr char kIndexName[] = "model.safetensors.index.json";

/// Throws IntegrityError if `file`, in the Hugging Face folder `folder` or below it, is or lies
/// behind a link that leads out of it. The links of the hub's cache, from snapshots/<commit>/ to
/// ../../blobs, are allowed.
void require_inside(const std::filesystem::path& file, const std::filesystem::path& folder);
/// The text of such a file, which is regular and of at most `limit` bytes; else IntegrityError.
std::string read_inside(const std::filesystem::path& file, const std::filesystem::path& folder,
                        int64_t limit);

class SafetensorsFolder {
 public:
  struct Location {
    const SafetensorsFile* file;
    const SafetensorsEntry* entry;
  };
  /// Opens every file and checks all headers. IntegrityError naming the file and the fault.
  explicit SafetensorsFolder(const std::filesystem::path& folder);
  /// All tensors by name.
  const std::map<std::string, Location>& tensors() const { return tensors_; }
  /// Null when absent.
  const Location* find(const std::string& name) const;

 private:
  void add(const std::filesystem::path& path);
  void open_shards(const std::filesystem::path& index_path);
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Location> tensors_;
};

}  // namespace megalith::checkpoint
