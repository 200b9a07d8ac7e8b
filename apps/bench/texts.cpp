// SPDX-License-Identifier: Apache-2.0
// megalith bench decode --batch N: prompts that are read and continued together by the generator of
// the server (generate/batch_generator.h), from the first pass to the last token.
#include <fmt/format.h>

#include <algorithm>

#include "apps/bench/figures.h"
#include "base/check.h"
#include "generate/batch_generator.h"
#include "trials/other_load.h"

namespace megalith::apps {
namespace {

/// When a text had its first token and its last.
struct TextSeconds {
  double first = 0, last = 0;
};
struct BatchSeconds {
  double first = 0;    // until all texts have a token
  double between = 0;  // between two tokens, the mean of the text that waits most
  double whole = 0;
};

/// Prompts that have nothing in common; the text of each is as long whatever its tokens are.
generate::Request request_of(const DecodeShape& d, int64_t vocab, int64_t number,
                             TextSeconds& seconds) {
  generate::Request request;
  for (int64_t i = 0; i < d.prompt; ++i)
    request.prompt.push_back(static_cast<int32_t>((1 + 31 * number + i) % vocab));
  request.options.max_new_tokens = d.tokens;
  request.options.sampling.temperature = 0;
  request.options.ignore_eos = true;
  request.on_token = [&seconds](const generate::TextToken&) {
    seconds.last = monotonic_seconds();
    if (seconds.first == 0) seconds.first = seconds.last;
  };
  return request;
}

BatchSeconds write_texts(generate::BatchGenerator& generator, const DecodeShape& d, int64_t vocab) {
  std::vector<TextSeconds> texts(static_cast<size_t>(d.batch));
  for (int64_t i = 0; i < d.batch; ++i) {
    const auto number = generator.submit(request_of(d, vocab, i, texts[static_cast<size_t>(i)]));
    MEGA_CHECK(number.has_value(), "the queue has no place for {}", i);
  }
  const double begin = monotonic_seconds();
  while (generator.step()) {
  }
  BatchSeconds seconds;
  for (const TextSeconds& text : texts) {
    const double between =
        (text.last - text.first) / static_cast<double>(std::max<int64_t>(d.tokens - 1, 1));
    seconds.first = std::max(seconds.first, text.first - begin);
    seconds.between = std::max(seconds.between, between);
    seconds.whole = std::max(seconds.whole, text.last - begin);
  }
  return seconds;
}

}  // namespace

int bench_texts(const DecodeShape& d, const BenchOptions& o, inference::InferenceEngine& engine,
                bool json) {
  const models::ModelSpec& spec = engine.spec();
  const bool reads = spec.is_encoder_decoder();
  generate::Scheduler::Limits limits;
  limits.sequences = d.batch;
  limits.tokens = std::max(limits.tokens, d.batch);
  limits.waiting = d.batch;
  const generate::BlockStore::Size size{.positions = (reads ? 1 : d.prompt) + d.tokens,
                                        .memory = reads ? d.prompt : 0};
  std::vector<int64_t> blocks =
      generate::BlockStore::needed(inference::kv_groups(spec), size, limits.tokens);
  for (int64_t& count : blocks) count *= d.batch;
  generate::BatchGenerator generator(engine, nullptr,
                                     {.limits = limits, .blocks = blocks, .keeps_prefixes = false});
  std::vector<double> first, between, rates, loads;
  for (int i = -1; i < o.samples; ++i) {  // one to warm up
    const trials::OtherLoad load;
    const BatchSeconds seconds = write_texts(generator, d, spec.vocab);
    if (i < 0) continue;
    loads.push_back(100 * load.share());
    first.push_back(1e3 * seconds.first);
    rates.push_back(static_cast<double>(d.batch * d.tokens) / seconds.whole);
    if (d.tokens > 1) between.push_back(1e3 * seconds.between);
  }
  report("decode.first_token", first, "ms", false, o.count(), json);
  if (!between.empty()) report("decode.between_tokens", between, "ms", false, o.count(), json);
  report("decode.written_tokens_per_second", rates, "tokens/s", true, o.count(), json);
  report("decode.other_programs", loads, "% of the cores", false, o.count(), json);
  return 0;
}

}  // namespace megalith::apps
