// SPDX-License-Identifier: Apache-2.0
// Typed look-ups in a config.json, with the class's defaults; null counts as absent. A wrong type
// is a UserError naming file and key.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::models {

class ConfigKeys {
 public:
  /// `prefix` stands before keys in messages ("rope_scaling.").
  ConfigKeys(const nlohmann::json& json, const std::string& where, std::string prefix = "")
      : json_(json), where_(where), prefix_(std::move(prefix)) {}

  const std::string& where() const { return where_; }
  /// Null when absent.
  const nlohmann::json* find(const char* key) const;
  /// `names` are spellings of one setting; two that disagree are refused.
  int64_t integer(std::initializer_list<const char*> names, int64_t otherwise) const;
  /// The same of a size: at least 1 where it is given.
  int64_t size(std::initializer_list<const char*> names, int64_t otherwise) const;
  double number(const char* name, double otherwise) const;
  bool boolean(const char* name, bool otherwise) const;
  std::string text(const char* name, const char* otherwise) const;
  std::vector<double> numbers(const char* name) const;
  std::vector<std::string> texts(const char* name) const;
  /// There, but null: some classes mean "none" by it, where absence means their default.
  bool is_null(const char* key) const;
  /// Refuses what changes the arithmetic and has no code: any other value of the key.
  void only(const char* name, bool needed) const;
  void only(const char* name, double needed) const;
  void absent(const char* name, const char* what) const;
  /// Refuses every key that is neither in `harmless` (a space before and behind each) nor was asked
  /// for here, unless it is null or an empty list or object: it may change the arithmetic.
  void no_others(std::string_view harmless) const;

  /// A value in an error message: short, whatever the file holds.
  static std::string shown(const nlohmann::json& json);

 private:
  const nlohmann::json& json_;
  const std::string& where_;
  std::string prefix_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace megalith::models
