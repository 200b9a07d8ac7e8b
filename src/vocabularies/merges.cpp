// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/merges.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/one_line.h"

namespace megalith::vocabularies {
namespace {

void require_limits(std::span<const MergeToken> made, std::string_view where) {
  size_t bytes = 0;
  for (const MergeToken& token : made) {
    if (token.text.size() > kMaxTokenBytes)
      throw UserError("{}: the token \"{}\" has {} bytes, the most is {}", where,
                      one_line(token.text, 40), token.text.size(), kMaxTokenBytes);
    bytes += token.text.size();
  }
  if (bytes > kMaxTokensBytes)
    throw UserError("{}: its tokens have {} bytes, the most is {}", where, bytes, kMaxTokensBytes);
}

}  // namespace

// Ways to make one token stand in the order of their ids, as Hugging Face writes them.
Merges find_merges(std::span<const MergeToken> parts, std::vector<MergeToken> made,
                   std::string_view where) {
  require_limits(made, where);
  std::unordered_map<std::string_view, int32_t> ids;
  ids.reserve(parts.size());
  for (const MergeToken& part : parts) ids.emplace(part.text, part.id);
  std::stable_sort(made.begin(), made.end(),
                   [](const MergeToken& a, const MergeToken& b) { return a.score > b.score; });
  Merges merges;
  uint32_t rank = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    const std::string_view text = made[i].text;
    const size_t before = merges.pairs.size();
    if (i > 0 && made[i].score < made[i - 1].score) rank = static_cast<uint32_t>(before);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = ids.find(text.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(text.substr(cut));
      if (right != ids.end()) merges.pairs.emplace_back(left->second, right->second);
    }
    if (merges.pairs.size() > kMaxMerges)
      throw UserError("{}: there are more than {} ways to make its tokens", where, kMaxMerges);
    std::sort(merges.pairs.begin() + static_cast<ptrdiff_t>(before), merges.pairs.end());
    merges.ranks.resize(merges.pairs.size(), rank);
  }
  return merges;
}

}  // namespace megalith::vocabularies
