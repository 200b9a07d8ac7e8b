// SPDX-License-Identifier: Apache-2.0
// Two queues under one lock: jobs not begun (workers take them) and all jobs in order (the caller
// takes the front when it is done). A chunk is about half a megabyte, so the lock is cold.
#include "data/encode_pipeline.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace megalith::data {
namespace {

/// Those that are not blank, without their ends.
void for_each_line(std::string_view text, FunctionRef<void(std::string_view)> visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) visit(line);
  }
}

// Four chunks per thread keep all busy while one encodes a slow document; at least 64 MiB lets one
// huge document be read while another is encoded.
int64_t flight_budget(int threads) {
  return std::max<int64_t>(int64_t{64} << 20, int64_t{threads} * (int64_t{2} << 20));
}

}  // namespace

EncodePipeline::EncodePipeline(ChunkSource source, EncoderFactory encoders, std::string field,
                               int threads, EncodedUnit unit)
    : source_(std::move(source)),
      field_(std::move(field)),
      unit_(unit),
      max_bytes_in_flight_(flight_budget(threads)) {
  MEGA_CHECK_GE(threads, 1);
  std::vector<EncodeFunction> encode;
  for (int i = 0; i < threads; ++i) encode.push_back(encoders());
  threads_.emplace_back([this] { read(); });
  for (EncodeFunction& one : encode) {
    threads_.emplace_back([this, mine = std::move(one)] { work(mine); });
  }
}

EncodePipeline::~EncodePipeline() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  room_.notify_all();
  todo_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool EncodePipeline::push(std::shared_ptr<Job> job) {
  const int64_t size = job->chunk.size();
  std::unique_lock lock(mutex_);
  room_.wait(lock, [&] {
    return cancelled_ || bytes_in_flight_ == 0 || bytes_in_flight_ + size <= max_bytes_in_flight_;
  });
  if (cancelled_) return false;
  bytes_in_flight_ += size;
  ordered_.push_back(job);
  if (job->done) {
    front_.notify_one();
  } else {
    unstarted_.push_back(std::move(job));
    todo_.notify_one();
  }
  return true;
}

void EncodePipeline::read() {
  while (true) {
    auto job = std::make_shared<Job>();
    try {
      if (!source_(job->chunk)) break;
    } catch (...) {
      job->error = std::current_exception();
      job->done = true;
    }
    const bool failed = job->done;
    if (!push(std::move(job)) || failed) break;
  }
  {
    const std::lock_guard lock(mutex_);
    read_all_ = true;
  }
  todo_.notify_all();
  front_.notify_one();
}

void EncodePipeline::work(const EncodeFunction& encode) {
  DocumentParser parser(field_);
  while (true) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      todo_.wait(lock, [&] { return cancelled_ || read_all_ || !unstarted_.empty(); });
      if (cancelled_ || unstarted_.empty()) return;
      job = std::move(unstarted_.front());
      unstarted_.pop_front();
    }
    EncodedChunk& encoded = job->encoded;
    try {
      parser.for_each(job->chunk, [&](std::string_view text) {
        const size_t units = encoded.lengths.size();
        const auto encode_one = [&](std::string_view piece) {
          const size_t before = encoded.ids.size();
          encode(piece, encoded.ids);
          encoded.lengths.push_back(static_cast<int64_t>(encoded.ids.size() - before));
        };
        unit_ == EncodedUnit::line ? for_each_line(text, encode_one) : encode_one(text);
        encoded.documents.push_back(static_cast<int64_t>(encoded.lengths.size() - units));
        encoded.text_bytes += static_cast<int64_t>(text.size());
      });
    } catch (...) {
      job->error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      job->done = true;
    }
    front_.notify_one();
  }
}

bool EncodePipeline::next(EncodedChunk& encoded) {
  std::shared_ptr<Job> job;
  {
    std::unique_lock lock(mutex_);
    front_.wait(lock, [&] { return ordered_.empty() ? read_all_ : ordered_.front()->done; });
    if (ordered_.empty()) return false;
    job = std::move(ordered_.front());
    ordered_.pop_front();
    bytes_in_flight_ -= job->chunk.size();
  }
  room_.notify_one();
  if (job->error) std::rethrow_exception(job->error);
  encoded = std::move(job->encoded);
  return true;
}

}  // namespace megalith::data
