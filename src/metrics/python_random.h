// SPDX-License-Identifier: Apache-2.0
// The numbers of Python's module `random` (MT19937: Matsumoto and Nishimura 1998), draw for draw,
// so that which examples are shown, which documents are left and which resamples an error is taken
// from are those of tools written in Python. Nothing else here draws from it: base and math have
// keyed generators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace megalith::metrics {

class PythonRandom {
 public:
  /// random.Random(seed).
  explicit PythonRandom(uint64_t seed);

  /// random(): in [0, 1), of 53 bits.
  double uniform();
  /// randrange(n); n >= 1.
  uint32_t below(uint32_t n);
  /// sample(range(n), k), in order; k <= n.
  std::vector<uint32_t> sample(uint32_t n, uint32_t k);
  /// The order into which shuffle() brings range(n).
  std::vector<uint32_t> shuffled(uint32_t n);
  /// choices(range(n), k=size of drawn): [int(random() * n), ...].
  void choices(uint32_t n, std::vector<uint32_t>& drawn);

 private:
  static constexpr size_t kState = 624;
  void begin(uint32_t seed);
  void refill();
  uint32_t next();
  std::array<uint32_t, kState> state_;
  size_t used_ = kState;
};

}  // namespace megalith::metrics
