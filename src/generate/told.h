// SPDX-License-Identifier: Apache-2.0
// What the ranks of the last stage found out from logits, told to all.
#pragma once

#include <vector>

#include "generate/sampling.h"

namespace megalith::generate {

/// Numbers, read in the order in which they were put.
class Told {
 public:
  Told() = default;
  explicit Told(std::vector<double> numbers) : numbers_(std::move(numbers)) {}

  void put(double number) { numbers_.push_back(number); }
  void put(const Choice& choice) {
    put(static_cast<double>(choice.id));
    put(choice.logprob);
  }
  void put(const std::vector<Choice>& choices) {
    put(static_cast<double>(choices.size()));
    for (const Choice& choice : choices) put(choice);
  }
  const std::vector<double>& numbers() const { return numbers_; }

  double number() { return numbers_.at(next_++); }
  Choice choice() {
    const auto id = static_cast<int32_t>(number());
    return {id, number()};
  }
  std::vector<Choice> choices() {
    std::vector<Choice> choices(static_cast<size_t>(number()));
    for (Choice& one : choices) one = choice();
    return choices;
  }

 private:
  std::vector<double> numbers_;
  size_t next_ = 0;
};

}  // namespace megalith::generate
