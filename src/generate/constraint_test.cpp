// SPDX-License-Identifier: Apache-2.0
// A text keeps to its constraint, and ends where that lets it; end tokens that are banned or passed
// over.
#include <gtest/gtest.h>

#include <algorithm>

#include "generate/batch_testing.h"
#include "generate/generator.h"

namespace megalith::generate {
namespace {

constexpr int32_t kEndId = 7;

/// The tokens 90, 91, 92 ... and then, if it may end, none.
class Counting : public TokenConstraint {
 public:
  Counting(int32_t last, bool may_end, bool marks_end = false)
      : last_(last), may_end_(may_end), marks_end_(marks_end) {}
  void mask(std::span<uint64_t> allowed) const override {
    std::ranges::fill(allowed, 0);
    if (next_ > last_) return;
    allowed[static_cast<size_t>(next_ / 64)] = uint64_t{1} << (next_ % 64);
    if (marks_end_) allowed[0] = uint64_t{1} << kEndId;  // of no account
  }
  bool can_end() const override { return may_end_ && next_ > last_; }
  void accept(int32_t id) override {
    EXPECT_EQ(id, next_);
    ++next_;
  }
  std::unique_ptr<TokenConstraint> clone() const override {
    return std::make_unique<Counting>(*this);
  }

 private:
  int32_t next_ = 90, last_;
  bool may_end_, marks_end_;
};

Generated write(const GenerateOptions& options, std::unique_ptr<TokenConstraint> allowed) {
  const auto device = device::make_cpu_device(2);
  inference::InferenceModel model(spec_named("llama"), *device, {.tensor_shards = 2});
  fill(model, *device);
  BatchGenerator generator(model.engine(), nullptr, {.limits = {4, 48, 16}, .blocks = {40}});
  Generated result;
  Request request{.prompt = {1, 2, 3}, .options = options};
  request.allowed = std::move(allowed);
  request.on_end = [&](Generated end) { result = std::move(end); };
  generator.submit(std::move(request));
  while (generator.step()) {
  }
  return result;
}

TEST(TokenConstraint, HoldsTheTextToIt) {
  for (const double temperature : {0.0, 1.0}) {
    GenerateOptions options{.max_new_tokens = 20, .end_ids = {kEndId}};
    options.sampling = {.temperature = temperature, .bad_words = {{91}}};  // yields to it
    const std::vector<int32_t> expected = {90, 91, 92, 93};
    const Generated result = write(options, std::make_unique<Counting>(93, true, true));
    EXPECT_EQ(result.ids, expected);
    EXPECT_EQ(result.finish_reason, "stop");
    EXPECT_EQ(write(options, std::make_unique<Counting>(93, false)).finish_reason, "error");
    // Without an end token it ends of itself.
    options.end_ids = {};
    const Generated bare = write(options, std::make_unique<Counting>(93, true));
    EXPECT_EQ(bare.ids, expected);
    EXPECT_EQ(bare.finish_reason, "stop");
    EXPECT_EQ(write(options, std::make_unique<Counting>(93, false)).finish_reason, "error");
    options.max_new_tokens = 2;
    const Generated cut = write(options, std::make_unique<Counting>(93, true));
    EXPECT_EQ(cut.ids, (std::vector<int32_t>{90, 91}));
    EXPECT_EQ(cut.finish_reason, "length");
  }
}

TEST(MinTokens, KeepEndTokensAndStopTextsAway) {
  GenerateOptions options{.max_new_tokens = 40};
  options.sampling = {.temperature = 0};
  const Generated free = write(options, nullptr);
  options.end_ids = {free.ids[4]};
  const Generated ended = write(options, nullptr);
  EXPECT_EQ(ended.finish_reason, "stop");
  EXPECT_LE(ended.ids.size(), 4U);
  options.min_tokens = 10;
  const Generated longer = write(options, nullptr);
  EXPECT_GE(longer.ids.size(), 10U);
  EXPECT_EQ(std::ranges::find(longer.ids, free.ids[4]), longer.ids.end());
  options.ignore_eos = true;
  EXPECT_EQ(write(options, nullptr).ids, free.ids);
}

}  // namespace
}  // namespace megalith::generate
