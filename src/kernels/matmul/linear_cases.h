// SPDX-License-Identifier: Apache-2.0
// Sizes of the linear operations that the tests and the benchmarks share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace megalith::kernels::matmul {

struct LinearCase {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
  int k_shards = 1;
  std::string name() const {
    return fmt::format("{}x{}x{}{}", rows, inputs, outputs,
                       k_shards > 1 ? fmt::format("_{}_shards", k_shards) : "");
  }
};

/// Each hits something: none, one and few rows (decoding); primes; one more and one less than tiles
/// of either instruction set; several blocks of k, with and without a remainder, and of rows;
/// shards of all kinds (3 is not a power of two, 80 = 8 * 10 is shorter than a vector).
inline std::vector<LinearCase> awkward_cases() {
  return {{0, 5, 7},         {1, 1, 1},        {1, 64, 48},     {1, 67, 131},   {2, 33, 64},
          {3, 128, 65},      {5, 31, 17},      {7, 97, 33},     {8, 768, 40},   {13, 16, 31},
          {14, 32, 32},      {15, 17, 33},     {16, 40, 100},   {17, 8, 1},     {29, 1, 63},
          {31, 811, 67},     {43, 1601, 35},   {40, 80, 50, 8}, {6, 80, 50, 8}, {19, 96, 21, 3},
          {33, 1600, 30, 2}, {2, 1600, 34, 2}, {20, 24, 24, 8}, {61, 53, 59},   {2531, 40, 37}};
}

/// The products of a 124M GPT-2 with 4096 tokens, its vocabulary in chunks of rows, small ones, and
/// decoding.
inline std::vector<LinearCase> speed_cases() {
  return {{4096, 768, 3072}, {4096, 3072, 768}, {4096, 768, 768},  {4096, 768, 2304},
          {512, 768, 50304}, {256, 128, 512},   {1024, 256, 1024}, {4096, 768, 3072, 8}};
}
inline std::vector<LinearCase> decode_cases() {
  return {{1, 768, 3072},  {1, 3072, 768},   {1, 768, 50304}, {1, 2048, 8192}, {4, 2048, 8192},
          {8, 2048, 8192}, {16, 2048, 8192}, {1, 4096, 4096}, {1, 4096, 11008}};
}

}  // namespace megalith::kernels::matmul
