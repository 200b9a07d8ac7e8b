// SPDX-License-Identifier: Apache-2.0
// Requests of all kinds to a toy model, and what becomes of them: alone, in company, with few
// blocks, on several ranks. Of the tests.
#pragma once

#include "generate/batch_generator.h"
#include "inference/inference_model.h"

namespace megalith::generate {

inline constexpr int64_t kContext = 256;

models::ModelSpec spec_named(std::string_view family);
void fill(inference::InferenceModel& model, device::Device& device, uint64_t seed = 3);

/// Greedy and drawn, long and short, some that begin alike.
std::vector<Request> requests_of(const models::ModelSpec& spec, size_t count);
/// The same, whose tokens are guessed: by look-up, or by a draft model.
std::vector<Request> guessed_requests(const models::ModelSpec& spec, size_t count);
std::vector<Request> drafted_requests(const models::ModelSpec& spec, size_t count);
/// Beam searches of all kinds beside some of the first.
std::vector<Request> searches(const models::ModelSpec& spec, size_t count);
/// All of the above in turn; guesses of a draft model among them.
std::vector<Request> mixed_requests(const models::ModelSpec& spec, size_t count);

struct Circumstances {
  parallel::Layout layout = {};
  int64_t sequences = 8;
  int64_t tokens = 64;
  int64_t blocks = 64;
  bool keeps = true;
  bool at_once = true;  // else each when the one before has ended
  std::vector<Request> (*requests)(const models::ModelSpec&, size_t) = requests_of;
  bool adapters = false;    // every third three requests have one of two, or none
  bool prompts = false;     // one of the two is of virtual tokens
  uint64_t draft_seed = 0;  // of a draft model's weights; the model's is 3
};

struct Outcome {
  std::vector<Generated> results;
  int64_t preemptions = 0;
};

Outcome run(const models::ModelSpec& spec, const Circumstances& setup, size_t count);
void expect_same(const Outcome& mine, const Outcome& alone, const char* what);

}  // namespace megalith::generate
