// SPDX-License-Identifier: Apache-2.0
#include "preferences/preference_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "tune/line_json.h"

namespace megalith::tune {
namespace {

constexpr const char* kChosen = "chosen";
constexpr const char* kRejected = "rejected";

const LineJson& answer_of(const LineJson& line, const char* key) {
  const LineJson* const answer = member(line, key);
  if (answer == nullptr) throw UserError("has no field {:?}", key);
  if (!answer->is_string() && !answer->is_array())
    throw UserError("has a field {:?} that is neither a text nor a list of messages", key);
  return *answer;
}

/// Bytes of both texts that are the same from the beginning on, as whole characters, and without a
/// space at their end: that is how words begin, and belongs to the answers.
size_t common_text(const std::string& a, const std::string& b) {
  auto same = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const auto is_inside = [&](const std::string& text) {
    return same < text.size() && (static_cast<unsigned char>(text[same]) & 0xC0u) == 0x80u;
  };
  while (same > 0 && (is_inside(a) || is_inside(b))) --same;
  return same > 0 && a[same - 1] == ' ' ? same - 1 : same;
}

PreferenceLine compared_texts(const LineJson& line) {
  std::string chosen = text_of(line, kChosen), rejected = text_of(line, kRejected), prompt;
  if (member(line, "prompt") != nullptr) {
    prompt = text_of(line, "prompt");
  } else {
    const size_t same = common_text(chosen, rejected);
    prompt = chosen.substr(0, same);
    chosen.erase(0, same);
    rejected.erase(0, same);
  }
  for (const auto& [key, answer] : {std::pair(kChosen, &chosen), std::pair(kRejected, &rejected)})
    if (answer->empty()) throw UserError("has an empty answer, field {:?}", key);
  return {PromptAndAnswer{prompt, chosen}, PromptAndAnswer{prompt, rejected}};
}

/// The messages `before`, and of an answer those from `begin` on.
ChatExample compared_chat(const LineJson& line, const LineJson& before, size_t begin,
                          const char* key) {
  const LineJson& answer = line[key];
  if (begin >= answer.size()) throw UserError("has an empty answer, field {:?}", key);
  ChatExample chat;
  for (const LineJson& message : before) add_message(message, false, chat);
  const size_t first = chat.messages.size();
  for (size_t i = begin; i < answer.size(); ++i) add_message(answer[i], true, chat);
  if (!chat.learned[first])
    throw UserError("has a field {:?} in which no assistant's turn follows the prompt", key);
  if (const LineJson* const tools = member(line, "tools")) chat.tools = tools->dump();
  return chat;
}

PreferenceLine compared_chats(const LineJson& line) {
  const LineJson &chosen = line[kChosen], &rejected = line[kRejected];
  const LineJson* const prompt = member(line, "prompt");
  LineJson before = LineJson::array();
  size_t begin = 0;
  if (prompt != nullptr && prompt->is_array()) {
    before = *prompt;
  } else {
    for (; begin < std::min(chosen.size(), rejected.size()) && chosen[begin] == rejected[begin];
         ++begin)
      before.push_back(chosen[begin]);
  }
  return {compared_chat(line, before, begin, kChosen),
          compared_chat(line, before, begin, kRejected)};
}

}  // namespace

PreferenceLine parse_preference_line(std::string_view text) {
  const LineJson line = parse_line(text);
  const LineJson &chosen = answer_of(line, kChosen), &rejected = answer_of(line, kRejected);
  if (chosen.is_array() != rejected.is_array())
    throw UserError("has one answer that is a text, and one that is a list of messages");
  const LineJson* const prompt = member(line, "prompt");
  if (prompt != nullptr && prompt->is_array() && !chosen.is_array())
    throw UserError("has answers that are texts to a prompt that is a list of messages");
  if (prompt != nullptr && !prompt->is_array() && !prompt->is_string())
    throw UserError("has a field \"prompt\" that is neither a text nor a list of messages");
  if (chosen == rejected) throw UserError("has two equal answers, of which neither is preferred");
  return chosen.is_array() ? compared_chats(line) : compared_texts(line);
}

}  // namespace megalith::tune
