// SPDX-License-Identifier: Apache-2.0
#include "chat_values/python_literal.h"

#include <gtest/gtest.h>

#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

/// What repr() says of the literal that was read.
std::string read(std::string_view literal) {
  Budget budget{Limits{}};
  return repr(parse_literal(literal, budget), budget);
}

TEST(PythonLiteral, GivesBackWhatReprPrints) {
  for (const std::string_view printed :
       {"['a', \"it's\", 'say \"no\"']", "(1, 2.5, -3)", "('x',)", "{'a': [1, {}], 2: None}",
        "[True, False, None, []]", "'tab\\tnew\\nback\\\\'", "1e+30", "'caf\xC3\xA9'"})
    EXPECT_EQ(read(printed), printed);
}

TEST(PythonLiteral, ReadsWhatPeopleWrite) {
  EXPECT_EQ(read(" [ 'a' ,\n 'b', ] "), "['a', 'b']");
  EXPECT_EQ(read("'''it's\na text''' \" of two\""), "\"it's\\na text of two\"");
  EXPECT_EQ(read("'\\x41\\u00e9\\U0001F600\\101\\q'"),
            "'A\xC3\xA9\xF0\x9F\x98\x80"
            "A\\\\q'");
  EXPECT_EQ(read("(5)"), "5");
  EXPECT_EQ(read("+7"), "7");
}

TEST(PythonLiteral, RefusesWhatIsNone) {
  for (const std::string_view wrong :
       {"", "[1 2]", "[1,,2]", "['a'", "{'a' 1}", "open('x')", "a", "'\\ud800'", "'\\x4'", "1.2.3",
        "[1] + [2]", "'a\nb'", "b'x'", "99999999999999999999", "'\\N{DASH}'"})
    EXPECT_THROW(read(wrong), Fault) << wrong;
  EXPECT_THROW(read(std::string(100000, '[')), Fault);
}

}  // namespace
}  // namespace megalith::chat
