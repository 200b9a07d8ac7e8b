// SPDX-License-Identifier: Apache-2.0
// samples.jsonl: text that the model wrote during training, one JSON object per sample, in order of
// steps: {"step", "prompt", "text"}, where `text` is the continuation alone. A resume cuts it back
// like metrics.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "report/append_file.h"

namespace megalith::report {

struct TextSample {
  int64_t step = 0;
  std::string prompt;
  std::string text;

  /// One line with its '\n'. Bytes that are not UTF-8 become U+FFFD.
  std::string to_json_line() const;
  /// IntegrityError, without a path, if `line` is not such an object.
  static TextSample parse(std::string_view line);
};

/// Appends to samples.jsonl, as MetricsLog does to metrics.jsonl.
class SampleLog {
 public:
  explicit SampleLog(const std::filesystem::path& path, int64_t position = 0)
      : file_(open_lines(path, position)) {}
  void append(const TextSample& sample) { file_.append(sample.to_json_line()); }
  int64_t position() const { return file_.position(); }
  void sync() { file_.sync(); }

 private:
  AppendFile file_;
};

/// The most bytes of lines that one page shows: they are held in memory and embedded in it.
inline constexpr int64_t kMostSampleBytes = int64_t{128} << 20;

/// The part of a samples.jsonl that a page shows.
struct SampleTexts {
  std::vector<TextSample> newest;  // in order
  int64_t earlier = 0;             // samples before them, left out
};

/// The newest whole lines, at most `most_bytes` of them; a torn last line is ignored. UserError if
/// the file is absent, IntegrityError if any line is damaged.
SampleTexts read_samples(const std::filesystem::path& path, int64_t most_bytes = kMostSampleBytes);

}  // namespace megalith::report
