// SPDX-License-Identifier: Apache-2.0
#include "apps/chat_text.h"

#include <ctime>

#include "base/file.h"

namespace megalith::apps {

std::string chat_text(const chat::ChatFolder& folder, const std::string& messages,
                      bool add_generation_prompt) {
  const auto conversation =
      chat::Conversation::parse(read_file(messages, chat::kMaxMessagesBytes), messages);
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return folder.render(conversation, add_generation_prompt, parts);
}

}  // namespace megalith::apps
