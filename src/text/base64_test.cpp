// SPDX-License-Identifier: Apache-2.0
#include "text/base64.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace megalith::text {
namespace {

TEST(Base64, DecodesTheExamplesOfTheStandard) {
  const char* pairs[][2] = {{"", ""},
                            {"Zg==", "f"},
                            {"Zm8=", "fo"},
                            {"Zm9v", "foo"},
                            {"Zm9vYg==", "foob"},
                            {"Zm9vYmFy", "foobar"},
                            {"+/+/", "\xFB\xFF\xBF"}};
  for (const auto& [text, bytes] : pairs) EXPECT_EQ(decode_base64(text, "x"), bytes);
  EXPECT_EQ(decode_base64("AAAA", "x"), std::string(3, '\0'));
}

TEST(Base64, OtherTextIsRefused) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg=a", "=Zg=", "Z===", "Zm 9", "Zm9v\n", "-_-_"})
    EXPECT_THROW(decode_base64(text, "x"), UserError) << text;
}

}  // namespace
}  // namespace megalith::text
