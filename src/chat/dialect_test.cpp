// SPDX-License-Identifier: Apache-2.0
// Jinja set up otherwise than for chats: white space stays, and what is not there is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "chat/template.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

using ::testing::HasSubstr;

constexpr Dialect kPlain{.trims_blocks = false, .keeps_last_line_end = true, .is_strict = true};

std::string render(std::string_view source, const Dialect& dialect) {
  Budget budget{Limits{}};
  Dict variables;
  const auto text = [&](const char* bytes) { return Value::text(bytes, budget); };
  Dict inner;
  inner.set(text("there"), text("in"), budget);
  variables.set(text("x"), text("X"), budget);
  variables.set(text("d"), make_dict(inner, budget), budget);
  return Template(source, "t", {}, dialect).render(variables, {});
}

std::string refused(std::string_view source) {
  try {
    render(source, kPlain);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Dialect, WhiteSpaceAroundBlocksStays) {
  const char* const source = "a\n  {% if x %}\n{{ x }}\n  {% endif %}\n{# c #}\nb\n";
  EXPECT_EQ(render(source, kPlain), "a\n  \nX\n  \n\nb\n");
  EXPECT_EQ(render(source, {}), "a\nX\nb");
  // What a template asks for itself is cut in both.
  EXPECT_EQ(render("a  {%- if x -%}  b{% endif %}", kPlain), "ab");
  EXPECT_EQ(render("{% raw %}\n {{ x }}{% endraw %}\n", kPlain), "\n {{ x }}\n");
}

TEST(Dialect, WhatIsNotThereIsRefusedUnlessThatIsAsked) {
  EXPECT_THAT(refused("a{{ y }}"), HasSubstr("t:1:5: 'y' is undefined"));
  for (const char* const source : {"{{ d.gone }}", "{{ d['gone'] ~ x }}"})
    EXPECT_THAT(refused(source), HasSubstr("gone")) << source;
  for (const char* const source : {"{% if y %}{% endif %}", "{% for a in y %}{% endfor %}",
                                   "{{ y | upper }}", "{{ y is none }}", "{{ y or x }}"})
    EXPECT_THAT(refused(source), HasSubstr("'y' is undefined")) << source;
  EXPECT_THAT(refused("{{ x | tojson }}"), HasSubstr("tojson"));
  EXPECT_EQ(render("{{ y is defined }} {{ d.gone is undefined }} {{ d.there is defined }}", kPlain),
            "False True True");
  EXPECT_EQ(render("{{ y | default('z') }}{{ x if x is defined else y }}", kPlain), "zX");
  EXPECT_EQ(render("{{ y }}{{ d.gone }}", {}), "");
}

}  // namespace
}  // namespace megalith::chat
