// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

#include "characters/nfc.h"

namespace megalith::text {

std::string Normalizer::apply(std::string_view text) const {
  std::string composed = nfc ? characters::to_nfc(text) : std::string(text);
  if (!prepend_mark && !mark_spaces) return composed;
  std::string result;
  result.reserve(composed.size() + composed.size() / 2 + kSpaceMark.size());
  if (prepend_mark && !composed.empty()) result.append(kSpaceMark);
  for (const char c : composed) {
    if (mark_spaces && c == ' ') {
      result.append(kSpaceMark);
    } else {
      result.push_back(c);
    }
  }
  return result;
}

std::string unmark_spaces(std::string_view token) {
  std::string result;
  for (size_t at = 0; at < token.size();) {
    const bool mark = token.substr(at).starts_with(kSpaceMark);
    result.push_back(mark ? ' ' : token[at]);
    at += mark ? kSpaceMark.size() : 1;
  }
  return result;
}

}  // namespace megalith::text
