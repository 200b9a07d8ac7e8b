// SPDX-License-Identifier: Apache-2.0
// The body of an infer request behind its line Inference-Header-Content-Length, which may be empty.
#include "base/fuzz/fuzz_input.h"
#include "protocols/kserve.h"
#include "protocols/protocols_fixture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  using namespace megalith::protocols;
  static const ServedModel model = small_model();
  const std::string_view input = fuzz::text_of(data, size);
  const size_t cut = std::min(input.find('\n'), input.size());
  const std::string_view body = input.substr(std::min(cut + 1, input.size()));
  fuzz::accepts([&] {
    Prepared made = prepare_infer(body, input.substr(0, cut), "small", model);
    std::vector<Written> written;
    for (const PreparedSequence& sequence : made.sequences) {
      MEGA_CHECK(!sequence.prompt.empty());
      MEGA_CHECK_LE(std::ssize(sequence.prompt) + sequence.options.max_new_tokens, model.context);
      written.emplace_back();
    }
    MEGA_CHECK(!made.reply->finish(std::move(written)).text.empty());
  });
  return 0;
}
