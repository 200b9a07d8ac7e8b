// SPDX-License-Identifier: Apache-2.0
// What is wrong with a recipe, and where it was written. Faults are collected and reported all at
// once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace megalith::config {

/// Where a value was written: in a file, or on the command line (line 0).
struct Position {
  std::string where;  // "recipe.yaml:3:11" or "--set model.layers=x"; empty: nowhere (a default)
  int line = 0;       // from 1
  int column = 0;     // from 1; on the command line the number of the option
};

/// No person reads more in one go; a file of nonsense holds thousands.
constexpr size_t kMostFaults = 100;

/// One option of the command line: "a.b=value" gives a value, "a.b=" (nothing after the sign) takes
/// the key out.
struct Override {
  std::string text;
  std::string option = "--set";  // as the person wrote it
};

struct Fault {
  std::string path;  // "model.layers"; empty when the fault is of the text itself
  Position at;
  std::string message;  // what is wrong and what to do
  /// Further fields that a rule looked at. A rule says nothing when one of them is itself at fault.
  std::vector<std::string> involved = {};

  /// "recipe.yaml:3:11: model.layers: must be at least 1, not 0"
  std::string text() const;
};

/// All of them in one line, the first kMostFaults by name.
std::string one_line(const std::vector<Fault>& faults);

}  // namespace megalith::config
