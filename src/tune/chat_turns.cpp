// SPDX-License-Identifier: Apache-2.0
#include "tune/chat_turns.h"

#include <fmt/ranges.h>

#include <ctime>
#include <span>

#include "base/error.h"

namespace megalith::tune {
namespace {

/// 26 July 2024, noon: the day that Llama's templates take when there is none. The day of the run
/// would make other samples of the same file.
std::tm template_time() {
  std::tm time{};
  time.tm_year = 124;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 12;
  time.tm_wday = 5;
  time.tm_yday = 207;
  return time;
}

class Shown {
 public:
  Shown(const chat::ChatFolder& folder, const ChatExample& chat) : folder_(folder), chat_(chat) {}

  /// The text of the first `count` messages.
  std::string first(size_t count, bool asks) const {
    const auto messages = std::span(chat_.messages).first(count);
    const std::string tools =
        chat_.tools.empty() ? "" : fmt::format(", \"tools\": {}", chat_.tools);
    const auto conversation = chat::Conversation::parse(
        fmt::format("{{\"messages\": [{}]{}}}", fmt::join(messages, ", "), tools), "the chat");
    return folder_.render(conversation, asks, template_time());
  }

 private:
  const chat::ChatFolder& folder_;
  const ChatExample& chat_;
};

}  // namespace

std::vector<MarkedText> marked_texts(const chat::ChatFolder& folder, const ChatExample& chat) {
  const Shown shown(folder, chat);
  std::vector<MarkedText> turns;
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    if (!chat.learned[i]) continue;
    if (i == 0) throw UserError("the chat begins with an assistant's turn, which nothing asks for");
    const std::string before = shown.first(i, true);
    std::string text = shown.first(i + 1, false);
    if (!text.starts_with(before)) {
      throw UserError(
          "the chat template shows message {} otherwise than it asks for it; give another as "
          "tune.template: NAME.jinja",
          i);
    }
    const size_t end = text.find_last_not_of(" \t\r\n") + 1;
    if (end <= before.size()) throw UserError("the chat template shows nothing of message {}", i);
    turns.push_back({std::move(text), {{std::ssize(before), static_cast<int64_t>(end)}}});
  }
  MarkedText all = turns.back();
  for (const MarkedText& turn : std::span(turns).first(turns.size() - 1))
    if (!all.text.starts_with(turn.text)) return turns;
  all.learned.clear();
  for (const MarkedText& turn : turns) all.learned.push_back(turn.learned.front());
  return {std::move(all)};
}

}  // namespace megalith::tune
