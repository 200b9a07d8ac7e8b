// SPDX-License-Identifier: Apache-2.0
// Messages in a file as the text that a chat model expects.
#pragma once

#include <string>

#include "chat/conversation.h"

namespace megalith::apps {

/// What --input of `tokenizer chat` and --messages of `generate` hold, for --help.
inline constexpr char kMessagesHelp[] =
    "JSON: [{\"role\": ..., \"content\": ...}, ...] or {\"messages\": [...], \"tools\": [...]}";

/// The file `messages` through the templates of `folder`; strftime_now tells the local time.
std::string chat_text(const chat::ChatFolder& folder, const std::string& messages,
                      bool add_generation_prompt);

}  // namespace megalith::apps
