// SPDX-License-Identifier: Apache-2.0
// megalith bench tokenizer: encoding of a text by one thread, whole, and in turn by as many threads
// as asked, each taking the next piece of it.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "apps/bench/figures.h"
#include "base/file.h"
#include "text/tokenizer.h"

namespace megalith::apps {
namespace {

/// Pieces of whole lines, about `bytes` long.
std::vector<std::string_view> pieces_of(std::string_view text, size_t bytes) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t end = bytes < text.size() ? text.find('\n', bytes) : std::string_view::npos;
    pieces.push_back(text.substr(0, end == std::string_view::npos ? end : end + 1));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

}  // namespace

int bench_tokenizer(const text::Tokenizer& tokenizer, const std::string& input,
                    const BenchOptions& o, bool json) {
  constexpr double kSeconds = 1;  // of a sample by one thread, at least
  constexpr size_t kPieceBytes = size_t{64} << 10;
  constexpr int64_t kMostTextBytes = int64_t{1} << 30;
  const std::string document = read_file(input, kMostTextBytes);
  const std::vector<std::string_view> pieces = pieces_of(document, kPieceBytes);
  const int threads = o.count();
  ThreadPool pool(threads);
  struct alignas(64) Lane {  // no two threads write to one cache line
    text::Encoder encoder;
    std::vector<int32_t> ids;
  };
  std::vector<Lane> lanes;
  for (int i = 0; i < threads; ++i) lanes.push_back({text::Encoder(tokenizer), {}});
  const auto alone = [&] {
    lanes[0].ids.clear();
    lanes[0].encoder.encode(document, lanes[0].ids, false);
  };
  const auto together = [&] {
    std::atomic<size_t> next = 0;
    pool.run([&](int thread) {
      Lane& lane = lanes[static_cast<size_t>(thread)];
      lane.ids.clear();
      for (size_t i = next++; i < pieces.size(); i = next++)
        lane.encoder.encode(pieces[i], lane.ids, false);
    });
  };
  const double megabytes = static_cast<double>(document.size()) / 1e6;
  together();
  alone();
  const int passes =
      1 + static_cast<int>(std::min(1e6, kSeconds * rate(megabytes, alone) / megabytes));
  std::vector<double> one, all, speedups;
  for (int i = 0; i < o.samples; ++i) {
    // Pass by pass in turn: what else the machine does then meets both alike.
    double alone_seconds = 0, together_seconds = 0;
    for (int pass = 0; pass < passes; ++pass) {
      alone_seconds += 1 / rate(1, alone);
      if (threads > 1) together_seconds += 1 / rate(1, together);
    }
    one.push_back(megabytes * passes / alone_seconds);
    if (threads == 1) continue;
    all.push_back(megabytes * passes / together_seconds);
    speedups.push_back(alone_seconds / together_seconds);
  }
  report("tokenizer.encode.1_threads", one, "MB/s", true, 1, json);
  if (threads == 1) return 0;
  report(fmt::format("tokenizer.encode.{}_threads", threads), all, "MB/s", true, threads, json);
  report("tokenizer.encode.speedup", speedups, "x", true, threads, json);
  return 0;
}

}  // namespace megalith::apps
