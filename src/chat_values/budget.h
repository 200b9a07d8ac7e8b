// SPDX-License-Identifier: Apache-2.0
// What a template may cost. Templates come with models, which anybody may have made: a loop in one
// must not hold a server, nor a doubled string fill its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "base/error.h"

namespace megalith::chat {

/// A mistake in a template or in what it does. Template adds the name, the line and the column and
/// throws a UserError; nothing else catches it.
class Fault : public std::runtime_error {
 public:
  template <typename... Args>
  explicit Fault(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

/// Published templates have up to 30 KB and 15 levels, and take some thousand steps for a message.
struct Limits {
  size_t template_bytes = size_t{256} << 10;
  size_t nesting = 160;                     // levels of the tree, and of lists within lists
  size_t calls = 400;                       // levels of what is being evaluated, macros in macros
  int64_t steps = 5'000'000;                // nodes evaluated, and parts of long texts looked at
  size_t output_bytes = size_t{64} << 20;   // the text of the conversation
  size_t memory_bytes = size_t{256} << 20;  // all values that were made, those given back too
};

/// Counts against the limits of one rendering. Each method throws a Fault naming the limit.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}
  const Limits& limits() const { return limits_; }

  void step(int64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps)
      throw Fault("the template takes more than {} steps; does it loop?", limits_.steps);
  }
  /// Looking at so many bytes.
  void look(size_t bytes) { step(static_cast<int64_t>(bytes / 64)); }
  /// Making a value of so many bytes.
  void make(size_t bytes) {
    memory_ += bytes;
    if (bytes > limits_.memory_bytes || memory_ > limits_.memory_bytes)
      throw Fault("the template makes values of more than {} bytes", limits_.memory_bytes);
    look(bytes);
  }
  void print(size_t bytes) {
    look(bytes);
    output_ += bytes;
    if (output_ > limits_.output_bytes)
      throw Fault("the template prints more than {} bytes", limits_.output_bytes);
  }

  /// One more level of evaluation as long as it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.levels_ > budget_.limits_.calls) {
        --budget_.levels_;
        throw Fault("the template is nested or calls itself deeper than {} levels",
                    budget_.limits_.calls);
      }
    }
    ~Level() { --budget_.levels_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  Limits limits_;
  int64_t steps_ = 0;
  size_t output_ = 0;
  size_t memory_ = 0;
  size_t levels_ = 0;
};

}  // namespace megalith::chat
