// SPDX-License-Identifier: Apache-2.0
// What was run: one record per kernel or collective, with its necessary work. The trace kind fills
// it instead of computing; on a real device it adds measured time when profiling.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::device {

/// The work an operation cannot avoid. Masked blocks are not counted as FLOPs. A fused multiply-add
/// is two.
struct Work {
  double flops = 0;
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t bytes_wire = 0;  // sent by this rank
};

struct Record {
  std::string name;   // "linear_forward", "all_reduce"
  std::string scope;  // "layers.3.mlp", the innermost Scope
  int64_t calls = 0;
  Work work;
  double seconds = 0;  // 0 when traced
};

/// Accumulates by (name, scope), in order of first appearance.
class Recorder {
 public:
  void add(std::string_view name, const Work& work, double seconds);
  const std::vector<Record>& records() const { return records_; }
  Work total() const;
  void clear();

  void push_scope(std::string_view name);
  void pop_scope();

 private:
  std::vector<Record> records_;
  std::map<std::pair<std::string, std::string>, size_t, std::less<>> index_;
  std::string scope_;
  std::vector<size_t> scope_ends_;
};

}  // namespace megalith::device
