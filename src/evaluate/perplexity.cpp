// SPDX-License-Identifier: Apache-2.0
#include "evaluate/perplexity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "evaluate/windows.h"

namespace megalith::evaluate {

double Perplexity::perplexity() const { return std::exp(nll / static_cast<double>(tokens)); }
double Perplexity::word_perplexity() const { return std::exp(nll / static_cast<double>(words)); }
double Perplexity::bits_per_byte() const {
  return nll / (static_cast<double>(bytes) * std::numbers::ln2);
}

int64_t count_words(std::string_view text) {
  int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
    words += !blank && !inside;
    inside = !blank;
  }
  return words;
}

void for_each_window(std::span<const int32_t> ids, int64_t context,
                     FunctionRef<void(std::span<const int32_t> window, int64_t first)> body) {
  if (ids.size() < 2)
    throw UserError("the text has {} tokens; at least 2 are needed to predict one", ids.size());
  if (context < 2)
    throw UserError("a context of {} tokens; at least 2 are needed to predict one", context);
  const auto total = static_cast<int64_t>(ids.size());
  const int64_t stride = std::max<int64_t>(1, context / 2);
  int64_t predicted = 1;  // tokens before this one are done
  for (int64_t begin = 0; predicted < total; begin += stride) {
    const int64_t end = std::min(begin + context, total);
    body(ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
         predicted - begin);
    predicted = std::max(predicted, end);
  }
}

Perplexity perplexity(inference::InferenceEngine& model, std::span<const int32_t> ids,
                      std::string_view text, const OnProgress& on_progress) {
  Perplexity result;
  result.words = count_words(text);
  result.bytes = static_cast<int64_t>(text.size());
  for_each_window(ids, model.context(), [&](std::span<const int32_t> window, int64_t first) {
    const std::vector<double> logprobs = model.score(window);
    for (int64_t token = first; token < std::ssize(window); ++token)
      result.nll -= logprobs[static_cast<size_t>(token - 1)];
    result.tokens += std::max<int64_t>(0, std::ssize(window) - first);
    if (on_progress) on_progress(result.tokens + 1);
  });
  return result;
}

Perplexity document_perplexity(inference::InferenceEngine& model,
                               std::span<const std::vector<int32_t>> documents,
                               int32_t end_of_document, std::string_view text,
                               const OnProgress& on_progress) {
  Perplexity result;
  result.words = count_words(text);
  result.bytes = static_cast<int64_t>(text.size());
  for (const std::vector<int32_t>& document : documents) {
    if (document.empty()) continue;
    const std::array<int32_t, 2> begin{end_of_document, document[0]};
    result.nll -= model.score(begin)[0];
    std::vector<int32_t> closed = document;
    closed.push_back(end_of_document);
    const Perplexity inside = perplexity(model, closed, "");
    result.nll += inside.nll;
    result.tokens += inside.tokens + 1;
    if (on_progress) on_progress(result.tokens);
  }
  if (result.tokens == 0) throw UserError("the text has no documents");
  return result;
}

}  // namespace megalith::evaluate
