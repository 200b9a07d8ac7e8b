// SPDX-License-Identifier: Apache-2.0
// A YAML file of a task as a tree that knows its places, with what it includes merged in. Scalars
// have the types that PyYAML gives them (YAML 1.1); what it takes for a date, or for a number in
// another form than decimal digits, is neither number nor text here.
#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace megalith::tasks {

/// A node with the file it is from and the keys that lead to it.
class YamlNode {
 public:
  YamlNode(YAML::Node node, std::string file, std::string path)
      : node_(std::move(node)), file_(std::move(file)), path_(std::move(path)) {}

  /// UserError: FILE:LINE: PATH: what.
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    fail_with(fmt::format(format, std::forward<Args>(args)...));
  }

  bool is_map() const { return node_.IsMap(); }
  bool is_list() const { return node_.IsSequence(); }
  /// A null is as good as absent.
  bool is_null() const;
  bool is_text() const;  // a scalar that is no number, truth or null
  std::optional<int64_t> whole() const;
  std::optional<double> number() const;

  std::string text() const;  // a scalar of text; fails otherwise
  bool truth() const;
  std::vector<std::string> texts() const;  // a list of texts, or one
  std::vector<YamlNode> items() const;     // of a list
  /// Of a map, in order.
  std::vector<std::pair<std::string, YamlNode>> entries() const;
  nlohmann::ordered_json json() const;
  const std::string& file() const { return file_; }
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail_with(const std::string& what) const;
  const std::string& scalar() const;
  bool is_plain() const;
  void require_no_tag() const;

  YAML::Node node_;
  std::string file_, path_;
};

/// By key, the file's own before those of files that it includes (a later one before an earlier).
using YamlEntries = std::map<std::string, YamlNode>;
YamlEntries read_yaml(const std::filesystem::path& file);

}  // namespace megalith::tasks
