// SPDX-License-Identifier: Apache-2.0
#include "characters/nfc.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include "base/error.h"

namespace megalith::characters {

std::string to_nfc(std::string_view text) {
  if (text.size() > 0x7FFFFFFF)
    throw UserError("{} bytes are too many to normalise at once; cut the document", text.size());
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = icu::Normalizer2::getNFCInstance(status);
  std::string result;
  icu::StringByteSink<std::string> sink(&result, static_cast<int32_t>(text.size()));
  if (U_SUCCESS(status))
    normalizer->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())),
                              sink, nullptr, status);
  if (U_FAILURE(status)) throw SystemError("ICU normalizeUTF8 failed: {}", u_errorName(status));
  return result;
}

}  // namespace megalith::characters
