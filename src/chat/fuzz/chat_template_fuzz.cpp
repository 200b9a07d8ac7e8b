// SPDX-License-Identifier: Apache-2.0
// A chat template, and behind a line "%%" the messages for it (some of ours if there is none).
#include "base/fuzz/fuzz_input.h"
#include "chat/conversation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  constexpr std::string_view kMark = "\n%%\n";
  const std::string_view input = fuzz::text_of(data, size);
  const size_t cut = std::min(input.find(kMark), input.size());
  std::string_view messages =
      R"({"messages": [{"role": "user", "content": " Hi\n"}, {"role": "assistant", "content":
          [{"type": "text", "text": "é"}], "tool_calls": [{"function": {"name": "f",
          "arguments": {"a": 1.5, "b": [true, null]}}}]}], "tools": [{"type": "function"}]})";
  if (cut < input.size()) messages = input.substr(cut + kMark.size());
  // Small, so that an input that reaches a limit does so at once.
  chat::Limits limits;
  limits.template_bytes = size_t{64} << 10;
  limits.steps = 100'000;
  limits.output_bytes = size_t{1} << 20;
  limits.memory_bytes = size_t{4} << 20;
  fuzz::accepts([&] {
    const chat::Template parsed(input.substr(0, cut), "fuzz.jinja", limits);
    const auto conversation = chat::Conversation::parse(messages, "messages.json");
    chat::Budget budget{chat::Limits()};
    const auto variables = conversation.variables({{"bos_token", "<s>"}}, true, budget);
    std::tm now{};
    now.tm_mday = 1;
    const std::string text = parsed.render(variables, now);
    MEGA_CHECK_LE(text.size(), limits.output_bytes);
    MEGA_CHECK(text == parsed.render(variables, now), "two renderings differ");
  });
  return 0;
}
