// SPDX-License-Identifier: Apache-2.0
// How well a model predicts a text: perplexity over tokens and words, bits per byte.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "inference/inference_engine.h"

namespace megalith::evaluate {

struct Perplexity {
  int64_t tokens = 0;              // predicted ones
  int64_t words = 0;               // runs of non-blank bytes
  int64_t bytes = 0;               // of the whole text
  double nll = 0;                  // nats, summed
  double perplexity() const;       // exp(nll / tokens)
  double word_perplexity() const;  // exp(nll / words)
  double bits_per_byte() const;    // nll / (bytes ln 2)
};

/// Called with the number of tokens done.
using OnProgress = std::function<void(int64_t)>;

/// Scores `ids`, the tokens of `text`, in windows of the model's context: every token but the first
/// is predicted once. The first window predicts its whole; each further one starts half a context
/// later and predicts only what is new, so that a token sees at least half a context of what came
/// before (strided evaluation). Collective over the ranks of the model.
Perplexity perplexity(inference::InferenceEngine& model, std::span<const int32_t> ids,
                      std::string_view text, const OnProgress& on_progress = {});

/// Scores documents apart from each other, as a model trained on end-of-document tokens sees them:
/// the first token is predicted from the end-of-document token alone, the others and the
/// end-of-document token that closes it from the document. `text` holds the documents with one byte
/// between them, for which that token stands. Documents longer than the context go through windows
/// as above.
Perplexity document_perplexity(inference::InferenceEngine& model,
                               std::span<const std::vector<int32_t>> documents,
                               int32_t end_of_document, std::string_view text,
                               const OnProgress& on_progress = {});

/// Runs of bytes other than ASCII blanks.
int64_t count_words(std::string_view text);

}  // namespace megalith::evaluate
