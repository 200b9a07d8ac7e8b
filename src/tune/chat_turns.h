// SPDX-License-Identifier: Apache-2.0
// A chat through its model's template, and which characters of the text are the assistant's.
#pragma once

#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "chat/conversation.h"
#include "tune/example_line.h"

namespace megalith::tune {

/// A text and the ranges of its bytes that are to be learned, in order.
struct MarkedText {
  std::string text;
  std::vector<Range> learned;
};

/// What an assistant's turn adds to the text with the generation prompt before it is learned, up to
/// the token that ends the turn, without white space behind that: what the model is to write when
/// asked. Where a template shows earlier turns otherwise than it showed them when they were the
/// last (without their reasoning, say), the chat becomes one text for each turn that is learned.
/// Templates that ask for the time are told one day, always the same. UserError when the template
/// refuses the chat, or shows a turn that does not begin where it asks for one.
std::vector<MarkedText> marked_texts(const chat::ChatFolder& folder, const ChatExample& chat);

}  // namespace megalith::tune
