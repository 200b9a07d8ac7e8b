// SPDX-License-Identifier: Apache-2.0
// A body, of which the first byte says whose it is: of a completion, a chat, texts to read, tokens.
// What is understood is answered, whole or in pieces. The model that it names may have marks.
#include "base/fuzz/fuzz_input.h"
#include "protocols/chat_completion.h"
#include "protocols/completion.h"
#include "protocols/embeddings.h"
#include "protocols/fuzz/check_prompt.h"
#include "protocols/protocols_fixture.h"
#include "protocols/tokens.h"

namespace {

using namespace megalith;
using namespace megalith::protocols;

void check_prepared(Prepared made, const ServedModel& model) {
  MEGA_CHECK(!made.sequences.empty());
  MEGA_CHECK_LE(std::ssize(made.sequences), model.most_sequences);
  std::vector<Written> written;
  std::string stream = made.reply->begin();
  for (const PreparedSequence& sequence : made.sequences) {
    check_prompt(sequence, model);
    Written& one = written.emplace_back();
    one.result = generated("ab", {0, 1}, {-1, -2}, "length");
    one.tokens = {{{0, -1}, {{1, -0.5}}, "a"}, {{1, -2}, {}, "b"}};
    one.result.prompt_logprobs.resize(sequence.prompt.size() - 1, -1);
    for (const Token& token : one.tokens)
      if (made.reply->streams) stream += made.reply->on_token(written.size() - 1, token);
    if (made.reply->streams) stream += made.reply->on_end(written.size() - 1, one);
  }
  const std::string text = made.reply->finish(std::move(written)).text;
  MEGA_CHECK(made.reply->streams || Json::accept(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const ServedModel served = small_model_with_marks();
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  fuzz::accepts([&] {
    const Json body = parse_body(text);
    const ServedModel& model = model_asked(served, body);
    switch (data[0] % 5) {
      case 0:
        return check_prepared(prepare_completion(body, model), model);
      case 1:
        return check_prepared(prepare_chat_completion(body, model), model);
      case 2:
        MEGA_CHECK(!prepare_embeddings(body, model).readings.empty());
        return;
      case 3:
        MEGA_CHECK(Json::accept(tokenize(body, model).text));
        return;
      default:
        MEGA_CHECK(Json::accept(detokenize(body, model).text));
    }
  });
  return 0;
}
