// SPDX-License-Identifier: Apache-2.0
#include "chat/call_reader.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace megalith::chat {
namespace {

/// What pieces of this size come to: content, then each call's name and arguments.
std::vector<std::string> read_in_pieces(CallReader& reader, std::string_view text, size_t size) {
  std::vector<std::string> all(1);
  size_t calls = 0;
  const auto take = [&](const MessagePiece& piece) {
    all[0] += piece.content;
    for (const MessagePiece::Call& call : piece.calls) {
      EXPECT_EQ(call.name.empty(), call.index < calls);
      if (call.index == calls) {
        ++calls;
        all.push_back(call.name + " ");
      }
      all.back() += call.arguments;
    }
  };
  for (size_t at = 0; at < text.size(); at += size) take(reader.push(text.substr(at, size)));
  take(reader.finish());
  return all;
}

std::vector<std::string> tagged(std::string_view text, size_t size = 1000) {
  TaggedCalls reader({"f", "g"});
  return read_in_pieces(reader, text, size);
}

using Read = std::vector<std::string>;
constexpr std::string_view kF =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
constexpr std::string_view kG = "<tool_call>{\"arguments\": {}, \"name\": \"g\"}</tool_call>";

TEST(TaggedCalls, AreFoundHoweverTheTextIsCut) {
  const std::string text =
      "see <tool < " + std::string(kF) + "\n" + std::string(kG) + "\n\nand </tool_call> <tool_";
  for (size_t size = 1; size <= text.size(); ++size) {
    EXPECT_EQ(tagged(text, size),
              Read({"see <tool < and </tool_call> <tool_", "f {\"a\":1}", "g {}"}))
        << size;
  }
}

TEST(TaggedCalls, AreExactlyThat) {
  for (const char* inner :
       {"", "{}", "[]", "{\"name\": \"f\"}", "{\"name\": \"h\", \"arguments\": {}}",
        "{\"name\": \"f\", \"arguments\": 5}", "{\"name\": 5, \"arguments\": {}}",
        "{\"name\": \"f\", \"arguments\": {}, \"more\": 1}", "{\"name\": \"f\", \"arguments\": {}",
        "{\"name\": \"f\", \"name\": \"f\", \"arguments\": {}}"}) {
    const std::string text = "a <tool_call>" + std::string(inner) + "</tool_call> b";
    TaggedCalls reader({"f", "g"});
    EXPECT_EQ(read_in_pieces(reader, text, 3), Read({text}));
    EXPECT_FALSE(reader.has_called());
  }
  EXPECT_EQ(tagged("<tool_call>{\"name\": \"f\""), Read({"<tool_call>{\"name\": \"f\""}));
  EXPECT_EQ(tagged("x" + std::string(kF) + "y"), Read({"xy", "f {\"a\":1}"}));
}

TEST(ForcedCalls, AreFoundHoweverTheTextIsCut) {
  const std::string list =
      R"([ {"name": "f", "arguments": {"a": "}]\"{", "b": [{}]}}, {"name":"g","arguments":{}} ])";
  for (size_t size = 1; size <= list.size(); ++size) {
    ForcedCalls any(""), one("f");
    EXPECT_EQ(read_in_pieces(any, list, size), Read({"", R"(f {"a": "}]\"{", "b": [{}]})", "g {}"}))
        << size;
    EXPECT_TRUE(any.has_called());
    EXPECT_EQ(read_in_pieces(one, R"({"a": "}"})", size), Read({"", R"(f {"a": "}"})"}));
    EXPECT_TRUE(one.has_called());
  }
}

TEST(ForcedCalls, AreWholeWithTheirLastBracket) {
  for (const char* text :
       {"", "[", R"([{"name": "f)", R"([{"name": "f", "arguments": {"a": "]}"})"}) {
    ForcedCalls any("");
    any.push(text);
    EXPECT_FALSE(any.has_called()) << text;
  }
}

}  // namespace
}  // namespace megalith::chat
