// SPDX-License-Identifier: Apache-2.0
// Text that tries to become markup.
#include "report/html.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace megalith::report {
namespace {

TEST(Html, MarkupBecomesText) {
  EXPECT_EQ(escape_html("<b a=\"1\" c='2'>&amp;</b>"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;&lt;/b&gt;");
  EXPECT_EQ(escape_html("tab\tline\n\xC3\xA9"), "tab\tline\n\xC3\xA9");
  EXPECT_EQ(escape_html(std::string_view("a\0b\x1B\r\x7F", 6)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Html, JsonInAScriptCannotEndItAndSaysTheSame) {
  const nlohmann::json json = {{"</ScRiPt><!--", "<script>&amp;"}};
  const std::string escaped = escape_json_for_script(json.dump());
  EXPECT_EQ(escaped.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(escaped), json);
}

TEST(Html, AnInlinedScriptCannotEndItself) {
  EXPECT_EQ(escape_script("a='</script>';b='</SCRIPT >';c='<!--'"),
            "a='<\\/script>';b='<\\/SCRIPT >';c='<\\!--'");
  EXPECT_EQ(escape_script("a</re/.exec('</scrip')"), "a</re/.exec('</scrip')");
}

TEST(Html, TemplateIsFilledInOnePass) {
  EXPECT_EQ(fill_template("{{a}}-{{b}}-{{a}}", {{"a", "{{b}}"}, {"b", "2"}}), "{{b}}-2-{{b}}");
  EXPECT_EQ(fill_template("plain { } }}", {}), "plain { } }}");
  EXPECT_THROW(fill_template("{{a}}", {}), InternalError);
  EXPECT_THROW(fill_template("", {{"a", ""}}), InternalError);
  EXPECT_THROW(fill_template("{{a", {{"a", ""}}), InternalError);
}

}  // namespace
}  // namespace megalith::report
