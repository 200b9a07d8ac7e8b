// SPDX-License-Identifier: Apache-2.0
// One thread reads, several parse and encode, and the caller receives results in the order of the
// input, whatever the number of threads. The bytes in flight are bounded, so memory does not grow
// with the input. An error is delivered at its place in that order, so the same input always fails
// in the same way.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "data/document_chunks.h"

namespace megalith::data {

/// Appends the ids of one document's text to `ids`.
using EncodeFunction = std::function<void(std::string_view text, std::vector<int32_t>& ids)>;
/// Makes one encoder for each thread.
using EncoderFactory = std::function<EncodeFunction()>;
/// Overwrites `chunk` with the next one of all inputs; false after the last.
using ChunkSource = std::function<bool(Chunk& chunk)>;

/// What is encoded by itself: a document, or each line of one that is not blank, without its end.
enum class EncodedUnit : uint8_t { document, line };

/// The documents of one chunk.
struct EncodedChunk {
  std::vector<int32_t> ids;        // of all documents
  std::vector<int64_t> lengths;    // of each unit
  std::vector<int64_t> documents;  // units of each
  int64_t text_bytes = 0;
};

class EncodePipeline {
 public:
  /// `field`: as in DocumentParser. Starts threads + 1 threads.
  EncodePipeline(ChunkSource source, EncoderFactory encoders, std::string field, int threads,
                 EncodedUnit unit = EncodedUnit::document);
  /// Drops what is in flight and joins the threads; waits for a read in progress.
  ~EncodePipeline();
  EncodePipeline(const EncodePipeline&) = delete;
  EncodePipeline& operator=(const EncodePipeline&) = delete;

  /// Overwrites `encoded` with the next chunk's documents; false after the last. Throws what
  /// reading, parsing or encoding threw.
  bool next(EncodedChunk& encoded);

 private:
  struct Job {
    Chunk chunk;
    EncodedChunk encoded;
    std::exception_ptr error;
    bool done = false;
  };
  void read();
  bool push(std::shared_ptr<Job> job);
  void work(const EncodeFunction& encode);

  ChunkSource source_;
  std::string field_;
  EncodedUnit unit_;
  int64_t max_bytes_in_flight_;
  std::mutex mutex_;
  std::condition_variable room_;   // for the reader
  std::condition_variable todo_;   // for the workers
  std::condition_variable front_;  // for the caller
  std::deque<std::shared_ptr<Job>> ordered_;
  std::deque<std::shared_ptr<Job>> unstarted_;
  int64_t bytes_in_flight_ = 0;
  bool read_all_ = false;
  bool cancelled_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace megalith::data
