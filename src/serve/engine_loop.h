// SPDX-License-Identifier: Apache-2.0
// The loop of the compute thread: takes requests from a mailbox, makes passes of the model, tells
// what came of them. One thread leads; of a model on several ranks the others follow, each by the
// same rounds. All other threads only use the mailbox.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "generate/batch_generator.h"
#include "inference/sequence_reader.h"
#include "protocols/reply.h"
#include "serve/adapters.h"
#include "serve/histogram.h"

namespace megalith::serve {

/// What happened to a request.
struct Event {
  enum class Kind : uint8_t {
    token,    // of a sequence that is being written
    ended,    // one sequence
    vectors,  // of what was read; the request has ended
    left,     // an adapter, whose number the ticket is: nobody uses it any more
    refused   // the request makes no sense to the engine; it has ended
  };
  Kind kind = Kind::token;
  uint64_t ticket = 0;
  size_t sequence = 0;
  protocols::Token token{};
  protocols::Written written{};
  std::vector<std::vector<double>> vectors{};
  std::string message{};
};

/// vLLM's bounds of tokens in a pass.
inline constexpr std::array kPassBounds{1.,   8.,    16.,   32.,   64.,   128.,  256.,
                                        512., 1024., 2048., 4096., 8192., 16384.};

/// How the engine is doing; of one moment.
struct EngineState {
  int64_t running = 0, waiting = 0, preemptions = 0;
  double cache_usage = 0;  // of the fullest group's blocks, 0 to 1
  int64_t blocks_in_use = 0, blocks = 0;
  int64_t passes = 0;
  int64_t prefix_queries = 0, prefix_hits = 0;     // tokens: looked for, and found
  Histogram pass_tokens = Histogram(kPassBounds);  // of passes
  double pass_begin = 0;                           // monotonic seconds; 0: none is being made
  std::vector<uint64_t> tickets;                   // that the engine works for
};

class EngineLoop {
 public:
  struct Options {
    generate::BatchGenerator::Options generator;
    bool writes = true;        // else it only reads texts
    int64_t most_queued = 32;  // sequences beyond those that may run at once
    kernels::Pooling pooling = kernels::Pooling::mean;
    int followers = 0;
    /// Tokens that are guessed at a time (generate::GenerateOptions): from earlier ones, or by a
    /// draft model. No text depends on it.
    int64_t lookup = 0, draft = 0;
  };
  explicit EngineLoop(Options options);

  /// The request's ticket; nothing where the queue is full. An event ends it, unless it is
  /// cancelled. `adapter`: one that is ready; empty: none.
  std::optional<uint64_t> submit(std::vector<protocols::PreparedSequence> sequences,
                                 std::string client, const std::string& adapter = "");
  /// Texts to read for vectors.
  std::optional<uint64_t> submit_reading(std::vector<inference::Reading> readings,
                                         const std::string& adapter = "");
  /// One that is absent is ready from here on: whoever submits later has it.
  void load(const std::string& adapter, PlaceAdapter place);
  /// One that is ready takes no new requests; it is absent, its memory free, when those that use it
  /// have ended. Its number, of which an event tells then.
  uint64_t unload(const std::string& adapter);
  AdapterState adapter_state(const std::string& adapter) const;
  /// Before the next pass; events of it that are under way may still come.
  void cancel(uint64_t ticket);
  /// lead() and follow() return before the next pass.
  void stop();
  /// Nobody leads any more, or ever will: follow() returns.
  void end_followers();
  EngineState state() const;
  /// Sequences that one request may have.
  int64_t most_sequences() const;

  /// Called by the leading thread with what happened in a round.
  using Deliver = std::function<void(std::vector<Event>)>;
  /// `tokenizer` may be null; so may `draft`, unless the options want its guesses. Throws what a
  /// pass of the model throws.
  void lead(inference::InferenceEngine& engine, const text::Tokenizer* tokenizer,
            const Deliver& deliver, inference::InferenceEngine* draft = nullptr);
  /// Follower 0, 1, ...: its part of the models.
  void follow(int follower, inference::InferenceEngine& engine, const text::Tokenizer* tokenizer,
              inference::InferenceEngine* draft = nullptr);

 private:
  struct Submission {
    uint64_t ticket = 0;
    double begin = 0;  // when it was submitted
    std::vector<protocols::PreparedSequence> sequences;
    std::string client;
    std::vector<inference::Reading> readings;
    uint64_t adapter = 0;  // its number; 0: none
  };
  /// One to have from now on, or without `place` to let go when nobody uses it.
  struct AdapterChange {
    uint64_t number = 0;
    PlaceAdapter place;
  };
  /// What all ranks do alike.
  struct Round {
    std::vector<uint64_t> cancelled;  // tickets
    std::vector<std::shared_ptr<const Submission>> submitted;
    std::vector<AdapterChange> adapters;
    bool steps = true;
    bool stops = false;
  };
  class Rank;
  struct LoadedAdapter {
    uint64_t number = 0;
    bool leaves = false;
  };
  std::optional<uint64_t> put(std::shared_ptr<Submission> submission, int64_t places,
                              const std::string& adapter);
  std::shared_ptr<const Round> next_round(bool is_idle);
  void begin_pass(const Round& round);
  void end_pass(const Rank& rank);
  void free_places(const std::vector<Event>& events);
  void forget_adapters(const std::vector<Event>& events);

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable mail_;
  std::vector<std::shared_ptr<const Submission>> submitted_;
  std::vector<uint64_t> cancelled_;
  std::vector<AdapterChange> changes_;
  std::map<std::string, LoadedAdapter> adapters_;  // by name
  uint64_t last_adapter_ = 0;
  bool stops_ = false;
  uint64_t last_ticket_ = 0;
  std::map<uint64_t, int64_t> places_;  // taken by each ticket
  int64_t num_places_ = 0;
  std::vector<std::deque<std::shared_ptr<const Round>>> rounds_;  // of each follower
  EngineState state_;
};

}  // namespace megalith::serve
