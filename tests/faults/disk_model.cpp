// SPDX-License-Identifier: Apache-2.0
#include "disk_model.h"

#include <algorithm>
#include <cstdio>

#include "base/check.h"

namespace megalith::faults {
namespace {

namespace fs = std::filesystem;

std::string name_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

void put(const fs::path& path, const std::string& content) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  MEGA_CHECK(file != nullptr);
  MEGA_CHECK_EQ(std::fwrite(content.data(), 1, content.size(), file), content.size());
  MEGA_CHECK_EQ(std::fclose(file), 0);
}

}  // namespace

DiskModel::DiskModel() : root_(std::make_shared<Node>()) { root_->is_folder = true; }

std::shared_ptr<DiskModel::Node> DiskModel::find(const std::string& path) const {
  if (const auto found = nameless_.find(path); found != nameless_.end()) return found->second;
  std::shared_ptr<Node> node = root_;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const auto found = node->entries.find(path.substr(begin, end - begin));
    MEGA_CHECK(found != node->entries.end(), "nothing is called {}", path);
    node = found->second;
    begin = end + 1;
  }
  return node;
}

DiskModel::Node& DiskModel::parent_of(const std::string& path) const {
  const size_t slash = path.rfind('/');
  return *find(slash == std::string::npos ? "" : path.substr(0, slash));
}

void DiskModel::change(Node& folder, std::function<void(Entries&)> change) {
  change(folder.entries);
  folder.pending.push_back(std::move(change));
}

void DiskModel::apply(const Operation& operation) {
  const std::string name = name_of(operation.path);
  switch (operation.call) {
    case Call::open:
      if (operation.created) {
        const auto node = std::make_shared<Node>();
        files_.push_back(node);
        if (operation.nameless) {
          nameless_[operation.path] = node;
          return;
        }
        change(parent_of(operation.path), [=](Entries& e) { e[name] = node; });
      } else {
        find(operation.path)->now.clear();
      }
      return;
    case Call::mkdir: {
      const auto node = std::make_shared<Node>();
      node->is_folder = true;
      return change(parent_of(operation.path), [=](Entries& e) { e[name] = node; });
    }
    case Call::write: {
      std::string& now = find(operation.path)->now;
      const auto begin = static_cast<size_t>(operation.offset);
      if (now.size() < begin + operation.data.size()) now.resize(begin + operation.data.size());
      now.replace(begin, operation.data.size(), operation.data);
      return;
    }
    case Call::truncate:
      return find(operation.path)->now.resize(static_cast<size_t>(operation.offset));
    case Call::sync: {
      Node& node = *find(operation.path);
      node.durable = node.now;
      node.durable_entries = node.entries;
      node.pending.clear();
      return;
    }
    case Call::unlink:
      return change(parent_of(operation.path), [=](Entries& e) { e.erase(name); });
    case Call::rename: {
      if (operation.nameless) {
        const std::string name_now = name_of(operation.to);
        const auto node = nameless_.at(operation.path);
        return change(parent_of(operation.to), [=](Entries& e) { e[name_now] = node; });
      }
      Node& folder = parent_of(operation.path);
      MEGA_CHECK(&folder == &parent_of(operation.to), "a rename between folders is not modelled");
      const std::string to = name_of(operation.to);
      if (operation.exchange) return change(folder, [=](Entries& e) { std::swap(e[name], e[to]); });
      return change(folder, [=](Entries& e) {
        e[to] = e[name];
        e.erase(name);
      });
    }
    case Call::look:
    case Call::read:
    case Call::close:
    case Call::thread:
    case Call::note:
      return;
  }
}

std::vector<const DiskModel::Node*> DiskModel::folders_with_changes() const {
  std::vector<const Node*> folders, open{root_.get()};
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!node->pending.empty()) folders.push_back(node);
    for (const Entries* entries : {&node->entries, &node->durable_entries})
      for (const auto& [name, child] : *entries)
        if (child->is_folder &&
            std::find(folders.begin(), folders.end(), child.get()) == folders.end())
          open.push_back(child.get());
  }
  return folders;
}

void DiskModel::write_node(const Node& node, const fs::path& path, Content content,
                           const std::map<const Node*, size_t>& kept_changes) {
  if (!node.is_folder) {
    const size_t half = (node.durable.size() + node.now.size()) / 2;
    return put(path, content == Content::durable ? node.durable
                     : content == Content::now   ? node.now
                                                 : node.now.substr(0, half));
  }
  fs::create_directories(path);
  Entries entries = node.durable_entries;
  const auto kept = kept_changes.find(&node);
  for (size_t i = 0; kept != kept_changes.end() && i < kept->second; ++i) node.pending[i](entries);
  for (const auto& [name, child] : entries)
    if (child != nullptr) write_node(*child, path / name, content, kept_changes);
}

void DiskModel::for_each_crash(const std::function<void(const Write&)>& visit) const {
  const std::vector<const Node*> folders = folders_with_changes();
  // All of the others' changes kept, or none, while one folder's are cut at every place.
  std::vector<std::map<const Node*, size_t>> choices{{}};
  for (const bool others : {false, true}) {
    std::map<const Node*, size_t> base;
    for (const Node* folder : folders) base[folder] = others ? folder->pending.size() : 0;
    for (const Node* folder : folders) {
      for (size_t kept = 0; kept <= folder->pending.size(); ++kept) {
        base[folder] = kept;
        if (std::find(choices.begin(), choices.end(), base) == choices.end())
          choices.push_back(base);
      }
      base[folder] = others ? folder->pending.size() : 0;
    }
  }
  std::vector<Content> contents{Content::now};
  const bool same = std::ranges::all_of(files_, [](const auto& f) { return f->durable == f->now; });
  if (!same) contents = {Content::durable, Content::half, Content::now};
  for (const auto& kept : choices)
    for (const Content content : contents)
      visit([&](const fs::path& folder) { write_node(*root_, folder, content, kept); });
}

}  // namespace megalith::faults
