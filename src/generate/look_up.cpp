// SPDX-License-Identifier: Apache-2.0
#include "generate/look_up.h"

#include <algorithm>

namespace megalith::generate {

std::vector<int32_t> look_up_continuation(std::span<const int32_t> ids, int64_t count) {
  constexpr size_t kLongest = 4, kShortest = 2;
  if (count <= 0) return {};
  for (size_t run = std::min(kLongest, ids.size()); run >= kShortest; --run) {
    const auto last = ids.last(run);
    for (size_t end = ids.size() - 1; end >= run; --end) {
      if (!std::ranges::equal(ids.subspan(end - run, run), last)) continue;
      const auto next = ids.subspan(end);
      const auto most = std::min(next.size(), static_cast<size_t>(count));
      return {next.begin(), next.begin() + static_cast<ptrdiff_t>(most)};
    }
  }
  return {};
}

}  // namespace megalith::generate
