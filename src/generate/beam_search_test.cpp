// SPDX-License-Identifier: Apache-2.0
// Beam search against one written plainly, that scores every text as a whole; and in any company,
// with few blocks, on several ranks.
#include "generate/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "generate/batch_testing.h"
#include "generate/generator.h"

namespace megalith::generate {
namespace {

using Ids = std::vector<int32_t>;

struct Text {
  Ids ids;
  double score = 0;
};

/// The definition, text by text. An end token is counted, and not kept.
class PlainSearch {
 public:
  PlainSearch(inference::InferenceEngine& engine, const Ids& prompt, const GenerateOptions& options)
      : engine_(engine), prompt_(prompt), options_(options) {}

  std::vector<Text> search() {
    std::vector<Text> running = {{}};
    for (int64_t length = 1; length <= options_.max_new_tokens; ++length) {
      std::vector<Text> all;
      for (const Text& text : running)
        for (int32_t id = 0; id < engine_.spec().vocab; ++id) all.push_back(with(text, id));
      std::ranges::stable_sort(all, std::ranges::greater{}, &Text::score);
      all.resize(static_cast<size_t>(options_.beams *
                                     std::max<int64_t>(2, 1 + std::ssize(options_.end_ids))));
      running.clear();
      for (size_t rank = 0; rank < all.size(); ++rank) {
        const bool has_end = std::ranges::count(options_.end_ids, all[rank].ids.back()) > 0;
        const bool ends = has_end || length == options_.max_new_tokens;
        if (ends && std::cmp_less(rank, options_.beams)) end(all[rank], length, has_end);
        if (!ends) running.push_back(all[rank]);
        if (std::ssize(running) == options_.beams) break;
      }
      if (running.empty() || is_done(running.front().score, length)) break;
    }
    return sorted();
  }

 private:
  /// The whole text's log-probability.
  Text with(const Text& text, int32_t id) {
    Text longer = text;
    longer.ids.push_back(id);
    std::vector<double> logprobs;
    if (engine_.spec().is_encoder_decoder()) {
      logprobs = engine_.score_target(prompt_, longer.ids);
    } else {
      Ids all = prompt_;
      all.insert(all.end(), longer.ids.begin(), longer.ids.end());
      logprobs = engine_.score(all);
      logprobs.erase(logprobs.begin(), logprobs.end() - std::ssize(longer.ids));
    }
    longer.score = std::accumulate(logprobs.begin(), logprobs.end(), 0.0);
    return longer;
  }
  double penalised(double sum, int64_t length) const {
    return sum / std::pow(static_cast<double>(length), options_.length_penalty);
  }
  void end(Text text, int64_t length, bool has_end) {
    text.score = penalised(text.score, length);
    if (has_end) text.ids.pop_back();
    ended_.push_back(text);
    std::ranges::stable_sort(ended_, std::ranges::greater{}, &Text::score);
    if (std::ssize(ended_) > options_.beams) ended_.pop_back();
  }
  bool is_done(double best, int64_t length) const {
    if (std::ssize(ended_) < options_.beams) return false;
    if (options_.early_stopping == EarlyStopping::at_once) return true;
    const bool longest =
        options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0;
    return ended_.back().score >= penalised(best, longest ? options_.max_new_tokens : length);
  }
  std::vector<Text> sorted() const { return ended_; }

  inference::InferenceEngine& engine_;
  Ids prompt_;
  GenerateOptions options_;
  std::vector<Text> ended_;
};

class Beams : public ::testing::TestWithParam<const char*> {};

TEST_P(Beams, AreThoseOfThePlainSearch) {
  const models::ModelSpec spec = spec_named(GetParam());
  const auto device = device::make_cpu_device(2);
  inference::InferenceModel model(spec, *device, {.tensor_shards = 2});
  fill(model, *device);
  int ended = 0;
  using Stopping = EarlyStopping;
  for (const auto& [stopping, penalty] : {std::pair{Stopping::at_once, 1.0},
                                          {Stopping::at_once, -1.0},
                                          {Stopping::likely, 1.0},
                                          {Stopping::likely, 0.0},
                                          {Stopping::never, 2.5},
                                          {Stopping::never, 1.0}}) {
    Request request{.prompt = {3, 1, 4, 1, 5}};
    request.options = {.max_new_tokens = 4, .beams = 3, .length_penalty = penalty, .best = 3};
    request.options.early_stopping = stopping;
    for (int32_t id = 0; id < 100; id += 3) request.options.end_ids.push_back(id);
    const std::vector<Text> plain =
        PlainSearch(model.engine(), request.prompt, request.options).search();
    Generated mine = generate(model.engine(), nullptr, std::move(request));
    std::vector<Generated> all = std::move(mine.others);
    all.insert(all.begin(), std::move(mine));
    ASSERT_EQ(all.size(), plain.size());
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].ids, plain[i].ids) << i;
      EXPECT_NEAR(all[i].score, plain[i].score, 1e-5) << i;
      EXPECT_EQ(all[i].finish_reason, all[i].ids.size() == 4 ? "length" : "stop");
      ended += all[i].finish_reason == "stop" ? 1 : 0;
    }
  }
  EXPECT_GT(ended, 0);
  EXPECT_LT(ended, 18);
}

TEST_P(Beams, DependOnNothingButThemselves) {
  const models::ModelSpec spec = spec_named(GetParam());
  constexpr size_t kRequests = 18;
  const Outcome alone = run(
      spec, {.sequences = 4, .tokens = 512, .keeps = false, .at_once = false, .requests = searches},
      kRequests);
  const auto same = [&](Circumstances setup, const char* what) {
    setup.requests = searches;
    const Outcome mine = run(spec, setup, kRequests);
    expect_same(mine, alone, what);
    return mine.preemptions;
  };
  same({}, "at once");
  const int64_t few = spec.is_encoder_decoder() ? 8 : 13;  // a decoder's own text is short
  EXPECT_GT(same({.sequences = 16, .tokens = 40, .blocks = few, .keeps = false}, "few blocks"), 0);
  same({.sequences = 16, .tokens = 40, .blocks = few}, "few blocks, kept");
  same({.sequences = 24, .tokens = 24}, "in short passes");
  same({.layout = {.tensor = 2}}, "two tensor ranks");
  same({.layout = {.pipeline = 2}}, "two stages");
}

INSTANTIATE_TEST_SUITE_P(Families, Beams, ::testing::Values("llama", "gemma3_text", "gpt2", "t5"));

TEST(BeamSearch, OneBeamIsGreedy) {
  const models::ModelSpec spec = spec_named("llama");
  const auto device = device::make_cpu_device(2);
  inference::InferenceModel model(spec, *device, {.tensor_shards = 2});
  fill(model, *device);
  const Ids prompt = {3, 1, 4};
  GenerateOptions options{.max_new_tokens = 9};
  options.sampling.temperature = 0;
  const Ids greedy = generate(model.engine(), nullptr, prompt, options).ids;
  BeamSearch search(options, 9);
  // One beam: its best candidate goes on.
  Ids ids;
  auto [cache, begun] = model.engine().begin(prompt, 9);
  while (!search.has_ended()) {
    std::vector<BeamSearch::Candidate> candidates;
    for (const auto& [choice, score] :
         best_tokens(model.engine().extend(cache, begun), search.candidates(), {}, {}, {}))
      candidates.push_back({0, choice, score});
    search.advance(std::move(candidates));
    if (!search.has_ended()) begun = {search.beams()[0].tokens.back().id};
  }
  const std::vector<BeamSearch::Beam> best = search.best();
  for (const Choice& choice : best.front().tokens) ids.push_back(choice.id);
  EXPECT_EQ(ids, greedy);
}

TEST(BeamSearch, IsRefusedWithWhatItCannotHave) {
  const models::ModelSpec spec = spec_named("llama");
  const auto device = device::make_cpu_device(2);
  inference::InferenceModel model(spec, *device, {.tensor_shards = 2});
  fill(model, *device);
  const auto refused = [&](GenerateOptions options) {
    const Ids prompt = {3, 1, 4};
    EXPECT_THROW(generate(model.engine(), nullptr, prompt, options), UserError);
  };
  refused({.beams = 0});
  refused({.beams = 65});
  refused({.beams = 2, .best = 3});
  refused({.stop = {"a"}, .beams = 2});
  refused({.sampling = {.temperature = 0.5}, .beams = 2});
  refused({.sampling = {.top_k = 5}, .beams = 2});
  refused({.beams = 2, .length_penalty = std::nan("")});
  refused({.length_penalty = 2});
  refused({.early_stopping = EarlyStopping::never});
}

}  // namespace
}  // namespace megalith::generate
