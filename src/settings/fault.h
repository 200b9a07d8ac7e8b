// SPDX-License-Identifier: Apache-2.0
// What is wrong with a recipe, and where it was written. Faults are collected and reported all at
// once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace megalith::settings {

/// Where a value was written: in a file, or on the command line (line 0).
struct Position {
  std::string where;  // "recipe.yaml:3:11" or "--set model.layers=x"; empty: nowhere (a default)
  int line = 0;       // from 1
  int column = 0;     // from 1; on the command line the number of the option
};

/// The most faults shown at once: nobody reads more, and a file of nonsense holds thousands.
constexpr size_t kMostFaults = 100;

/// One option of the command line: "a.b=value" sets a key, "a.b=" (nothing after the sign) removes
/// it.
struct Override {
  std::string text;
  std::string option = "--set";  // as the person wrote it
};

struct Fault {
  std::string path;  // "model.layers"; empty when the fault is of the text itself
  Position at;
  std::string message;  // what is wrong and what to do
  /// Other fields that a rule looked at. The rule stays silent if one of them is itself at fault.
  std::vector<std::string> involved = {};

  /// "recipe.yaml:3:11: model.layers: must be at least 1, not 0"
  std::string text() const;
};

/// All faults in one line: the first kMostFaults in full, the rest as a number.
std::string one_line(const std::vector<Fault>& faults);

}  // namespace megalith::settings
