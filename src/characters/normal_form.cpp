// SPDX-License-Identifier: Apache-2.0
#include "characters/normal_form.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <array>
#include <deque>

#include "base/error.h"

namespace megalith::characters {
namespace {

void require_success(UErrorCode status, const char* call) {
  if (U_FAILURE(status)) throw SystemError("ICU {} failed: {}", call, u_errorName(status));
}

// The forms restricted to the characters of Unicode 9.
struct Forms {
  Forms() {
    UErrorCode status = U_ZERO_ERROR;
    characters.applyPattern(u"[:age=9.0:]", status);
    characters.freeze();
    const std::array<const icu::Normalizer2*, 4> newest = {
        icu::Normalizer2::getNFCInstance(status), icu::Normalizer2::getNFDInstance(status),
        icu::Normalizer2::getNFKCInstance(status), icu::Normalizer2::getNFKDInstance(status)};
    require_success(status, "Normalizer2");
    for (const icu::Normalizer2* form : newest) filtered.emplace_back(*form, characters);
  }
  icu::UnicodeSet characters;
  std::deque<icu::FilteredNormalizer2> filtered;
};

}  // namespace

void append_normal_form(std::string& out, std::string_view text, NormalForm form) {
  if (text.size() > 0x7FFFFFFF)
    throw UserError("{} bytes are too many to normalise at once; cut the document", text.size());
  static const Forms forms;
  UErrorCode status = U_ZERO_ERROR;
  icu::StringByteSink<std::string> sink(&out);
  forms.filtered[static_cast<size_t>(form)].normalizeUTF8(
      0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink, nullptr, status);
  require_success(status, "normalizeUTF8");
}

}  // namespace megalith::characters
