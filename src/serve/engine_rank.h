// SPDX-License-Identifier: Apache-2.0
// One rank's part of the engine's loop: its batch generator, and which of its sequences belong to
// which request. All ranks of a model are given the same rounds. Private to the loop.
#pragma once

#include "serve/engine_loop.h"

namespace megalith::serve {

class EngineLoop::Rank {
 public:
  /// `leads`: makes events; the others write the same texts for nobody.
  Rank(const Options& options, inference::InferenceEngine& engine,
       inference::InferenceEngine* draft, const text::Tokenizer* tokenizer, bool leads);

  void take(const Round& round);
  /// One pass of the model; collective.
  void step();
  bool is_idle() const { return requests_.empty(); }
  /// What happened since the last call.
  std::vector<Event> take_events() { return std::exchange(events_, {}); }
  std::vector<uint64_t> tickets() const;
  const generate::BatchGenerator* generator() const { return generator_ ? &*generator_ : nullptr; }

 private:
  struct Sequence {
    uint64_t number = 0;  // the generator's; 0: it has ended
    protocols::Written written;
  };
  struct Request {
    std::deque<Sequence> sequences;  // at fixed addresses
    size_t left = 0;
    uint64_t adapter = 0;
  };
  void submit(const Submission& submission);
  void submit(const Submission& submission, size_t index, Request& request);
  void read(const Submission& submission);
  void cancel(uint64_t ticket);
  void let_go();
  void refuse(uint64_t ticket, const std::string& message);

  inference::InferenceEngine& engine_;
  kernels::Pooling pooling_;
  int64_t lookup_, draft_;
  bool leads_;
  std::optional<generate::BatchGenerator> generator_;
  std::map<uint64_t, Request> requests_;
  std::map<uint64_t, std::shared_ptr<const layers::Adapter>> adapters_;  // by number
  std::vector<uint64_t> leaving_;                                        // of these
  std::vector<uint64_t> over_;  // requests whose last sequence has ended in this pass
  std::vector<Event> events_;
};

}  // namespace megalith::serve
