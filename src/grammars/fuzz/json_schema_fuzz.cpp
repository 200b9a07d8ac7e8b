// SPDX-License-Identifier: Apache-2.0
// A JSON schema, or behind the first byte "/" an expression: what is taken is walked by a fixed
// choice of tokens; the mask must be what trying every token gives, and no way a dead end.
#include "base/fuzz/fuzz_input.h"
#include "grammars/grammar_state.h"

namespace {

using namespace megalith;
using namespace megalith::grammars;

std::shared_ptr<const TokenTrie> tokens() {
  static const auto trie = [] {
    std::vector<std::string> texts = {"\": ", "\", \"", "{\"", "}}", "]}",
                                      "null", "\\u00",  "12",  "aa", "\xC3\xA9"};
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    return std::make_shared<const TokenTrie>(texts);
  }();
  return trie;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  fuzz::accepts([&] {
    const Grammar grammar = input.starts_with('/') ? Grammar::regex(input.substr(1))
                                                   : Grammar::parse_json_schema(input, "fuzz.json");
    GrammarState state(std::make_shared<TokenMatcher>(grammar, tokens()));
    std::vector<uint64_t> mask(mask_words(tokens()->num_ids()));
    for (size_t step = 0; step < 12; ++step) {
      state.mask(mask);
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < tokens()->num_ids(); ++id) {
        const bool has = ((mask[static_cast<size_t>(id) / 64] >> (id % 64)) & 1) != 0;
        GrammarState next = state;
        MEGA_CHECK_EQ(next.accept(id), has);
        if (has) allowed.push_back(id);
      }
      MEGA_CHECK(!allowed.empty() || state.can_end(), "a dead end");
      if (allowed.empty()) break;
      MEGA_CHECK(state.accept(allowed[(step * 7919 + size) % allowed.size()]));
    }
  });
  return 0;
}
