// SPDX-License-Identifier: Apache-2.0
#include "evaluate/pair_encoder.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "chat_values/python_text.h"

namespace megalith::evaluate {

PairEncoder::PairEncoder(const text::Tokenizer& tokenizer, int32_t prefix, int64_t context)
    : encoder_(tokenizer),
      prefix_(prefix),
      context_(context),
      prefix_text_(tokenizer.decode(std::array{prefix}, true)) {}

/// With the special tokens that the tokenizer adds, unless the text begins with the first already.
std::vector<int32_t> PairEncoder::encode(std::string_view text) {
  std::vector<int32_t> ids;
  encoder_.encode(text, ids, !text.starts_with(prefix_text_));
  return ids;
}

ScoredIds PairEncoder::cut(std::vector<int32_t> before,
                           std::span<const int32_t> continuation) const {
  ScoredIds result{.scored = std::ssize(continuation), .tokens = std::ssize(continuation)};
  if (before.empty()) throw UserError("the context is white space alone, which has no tokens");
  if (continuation.empty())
    throw UserError("the continuation has no tokens of its own behind its context");
  if (result.scored > context_)
    throw UserError("a continuation of {} tokens is longer than the model's context of {}",
                    result.scored, context_);
  before.insert(before.end(), continuation.begin(), continuation.end());
  const int64_t lost = std::max<int64_t>(std::ssize(before) - context_ - 1, 0);
  before.erase(before.begin(), before.begin() + lost);
  result.ids = std::move(before);
  return result;
}

ScoredIds PairEncoder::pair(const tasks::Asked& asked) {
  if (asked.context.empty()) {
    std::vector<int32_t> ids;
    encoder_.encode(asked.continuation, ids, false);
    const bool begins = !ids.empty() && ids[0] == prefix_;
    return cut({prefix_}, std::span<const int32_t>(ids).subspan(begins ? 1 : 0));
  }
  const std::string_view context = chat::strip(asked.context, chat::Side::right);
  const std::vector<int32_t> whole = encode(asked.context + asked.continuation);
  if (context != last_context_ || last_ids_.empty()) {
    last_context_ = context;
    last_ids_ = encode(context);
  }
  const size_t length = std::min(last_ids_.size(), whole.size());
  return cut(last_ids_, std::span<const int32_t>(whole).subspan(length));
}

std::vector<ScoredIds> PairEncoder::rolling(const std::string& text) {
  const std::vector<int32_t> all = encode(text);
  const std::span<const int32_t> ids = all;
  std::vector<ScoredIds> windows;
  const auto add = [&](size_t first, size_t begin,
                       size_t end) {  // reads from first, scores [begin, end)
    ScoredIds& window = windows.emplace_back();
    if (begin == 0) window.ids.push_back(prefix_);
    window.ids.insert(window.ids.end(), ids.begin() + static_cast<ptrdiff_t>(first),
                      ids.begin() + static_cast<ptrdiff_t>(end));
    window.scored = window.tokens = static_cast<int64_t>(end - begin);
  };
  const auto most = static_cast<size_t>(context_);
  size_t done = std::min(most, ids.size());
  if (done > 0) add(0, 0, done);
  while (done < ids.size()) {
    const size_t end = std::min(done + most, ids.size());
    add(end - most - 1, done, end);
    done = end;
  }
  return windows;
}

std::vector<int32_t> PairEncoder::context(const std::string& text, int64_t new_tokens) {
  const int64_t most = context_ - new_tokens;
  if (most < 1) {
    throw UserError("{} tokens to write leave no room in the model's context of {}", new_tokens,
                    context_);
  }
  std::vector<int32_t> ids = encode(text);
  const int64_t lost = std::max<int64_t>(std::ssize(ids) - most, 0);
  ids.erase(ids.begin(), ids.begin() + lost);
  if (ids.empty()) ids.push_back(prefix_);
  return ids;
}

}  // namespace megalith::evaluate
