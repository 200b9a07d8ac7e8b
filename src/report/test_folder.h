// SPDX-License-Identifier: Apache-2.0
// A folder for one test that removes itself, and one line of metrics to start from.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "report/metrics.h"

namespace megalith::report {

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "megalith-report-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw SystemError("mkdtemp {}", name);
    path_ = name;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }
  void put(const char* name, std::string_view content) const {
    File file(path_ / name, File::Mode::create_or_truncate);
    file.write(content);
  }

 private:
  std::filesystem::path path_;
};

/// Every number has an exact short form, so lines can be compared as text.
inline StepMetrics some_metrics(int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.tokens = 1024 * step;
  metrics.samples = 8 * step;
  metrics.loss = 10.5;
  metrics.lr = 0.25;
  metrics.grad_norm = 0.75;
  metrics.step_seconds = 0.5;
  metrics.tokens_per_second = 2048;
  metrics.mfu = 0.125;
  metrics.memory_bytes = 1 << 20;
  return metrics;
}

}  // namespace megalith::report
