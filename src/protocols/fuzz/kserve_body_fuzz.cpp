// SPDX-License-Identifier: Apache-2.0
// A byte that says whose the request is, the model's or an adapter's, and the body of an infer
// request behind its line Inference-Header-Content-Length, which may be empty.
#include "base/fuzz/fuzz_input.h"
#include "protocols/fuzz/check_prompt.h"
#include "protocols/kserve.h"
#include "protocols/protocols_fixture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  using namespace megalith::protocols;
  if (size == 0) return 0;
  static const ServedModel served = small_model_with_marks();
  const size_t which = data[0] % (served.adapters.size() + 1);
  const ServedModel& model = which == 0 ? served : served.adapters[which - 1];
  const std::string_view input = fuzz::text_of(data + 1, size - 1);
  const size_t cut = std::min(input.find('\n'), input.size());
  const std::string_view body = input.substr(std::min(cut + 1, input.size()));
  fuzz::accepts([&] {
    Prepared made = prepare_infer(body, input.substr(0, cut), model.name, model);
    std::vector<Written> written;
    for (const PreparedSequence& sequence : made.sequences) {
      check_prompt(sequence, model);
      written.emplace_back();
    }
    MEGA_CHECK(!made.reply->finish(std::move(written)).text.empty());
  });
  return 0;
}
