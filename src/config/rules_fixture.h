// SPDX-License-Identifier: Apache-2.0
// Tests only: recipes with one fault each.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

#include "config/recipe.h"

namespace megalith::config {

/// A recipe without faults.
inline Recipe sound() {
  Recipe r;
  r.model.vocab = 100;
  r.train.steps = 10;
  return r;
}

/// A change that must be refused at a path, with words of the message.
struct Case {
  const char* name;
  std::function<void(Recipe&)> change;
  std::string path, message;
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Rules : public testing::TestWithParam<Case> {};

}  // namespace megalith::config
