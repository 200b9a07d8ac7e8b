// SPDX-License-Identifier: Apache-2.0
// What a disk may hold after a power cut, by the weakest reading of POSIX: of a file, the bytes as
// of its last fsync (or those of now, or some between); of a folder, the entries as of its last
// fsync, and of the changes since then the first few. Nothing else is promised, so nothing else is
// assumed.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "file_faults.h"

namespace megalith::faults {

class DiskModel {
 public:
  DiskModel();
  /// The same change as `operation` made (notes are none).
  void apply(const Operation& operation);
  /// Calls `visit` for every disk that a power cut at this moment could leave; `write` makes it in
  /// an empty folder.
  using Write = std::function<void(const std::filesystem::path& folder)>;
  void for_each_crash(const std::function<void(const Write& write)>& visit) const;

 private:
  struct Node;
  using Entries = std::map<std::string, std::shared_ptr<Node>>;
  struct Node {
    bool is_folder = false;
    std::string now, durable;  // of a file
    Entries entries, durable_entries;
    std::vector<std::function<void(Entries&)>> pending;  // changes since the folder's last fsync
  };
  enum class Content { durable, half, now };

  std::shared_ptr<Node> find(const std::string& path) const;
  Node& parent_of(const std::string& path) const;
  void change(Node& folder, std::function<void(Entries&)> change);
  std::vector<const Node*> folders_with_changes() const;
  static void write_node(const Node& node, const std::filesystem::path& path, Content content,
                         const std::map<const Node*, size_t>& kept_changes);

  std::shared_ptr<Node> root_;
  std::map<std::string, std::shared_ptr<Node>> nameless_;
  std::vector<std::shared_ptr<const Node>> files_;  // all that ever were
};

}  // namespace megalith::faults
