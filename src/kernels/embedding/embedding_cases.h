// SPDX-License-Identifier: Apache-2.0
// Sizes for tests and benches of embedding.
#pragma once

#include <cstdint>

namespace megalith::kernels {

struct EmbeddingCase {
  int64_t tokens, vocab, columns;
  int64_t vocab_begin = 0;
  int64_t gap = 0;
};

/// `vocab` rows are here, of ids that run from 0 to a little past them.
inline constexpr EmbeddingCase kEmbeddingCases[] = {{0, 3, 8},
                                                    {1, 1, 1},
                                                    {7, 5, 15},
                                                    {33, 11, 16, 4},
                                                    {129, 50, 67, 13, 3},
                                                    {300, 9, 257, 2, 1},
                                                    {57, 1000, 512, 100},
                                                    {64, 16, 640}};

inline constexpr EmbeddingCase kEmbeddingBenchCases[] = {{4096, 50304, 768}};

}  // namespace megalith::kernels
