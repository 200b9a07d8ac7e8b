// SPDX-License-Identifier: Apache-2.0
#include "objectives/sentence_pair.h"

namespace megalith::objectives {

void PairDraws::cut(SentencePair& pair, int64_t most) const {
  PhiloxBlock block = {};
  for (uint64_t t = 0; pair.size() > most; ++t) {
    if (t % 4 == 0) block = philox(key_, t / 4, 1);
    Range& longer = pair.a.size() > pair.b.size() ? pair.a : pair.b;
    if (block[t % 4] < uint32_t{1} << 31) {
      ++longer.begin;
    } else {
      --longer.end;
    }
  }
}

}  // namespace megalith::objectives
