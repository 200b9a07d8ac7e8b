// SPDX-License-Identifier: Apache-2.0
// White space around tags, comments, raw text and literals: what trim_blocks, lstrip_blocks and the
// signs leave of it, as Jinja2 3.1.6 has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/chat_fixture.h"

namespace megalith::chat {
namespace {

void expect_each(std::initializer_list<Case> cases) {
  for (const auto& [source, expected] : cases)
    EXPECT_EQ(fault_of(source), "no fault: " + std::string(expected)) << source;
}

TEST(ChatWhitespace, BlocksTakeTheirLine) {
  expect_each({{"a\n  {% if 1 %}\n  b\n  {% endif %}\n  c", "a\n  b\n  c"},
               {"  {% if 1 %}x{% endif %}", "x"},
               {"a  {% if 1 %}x{% endif %}  \n b", "a  x  \n b"},
               {"{% set a = 1 %}\n\n{{ a }}\n", "\n1"},
               {"{% set a = 1 %}  {% set b = 2 %}\nx", "  x"},
               {"{% set a = 1 %}\n  {% set b = 2 %}\nx", "x"}});
}

TEST(ChatWhitespace, PrintsKeepTheirLine) {
  expect_each(
      {{"a\n  {{ 1 }}\nb\n", "a\n  1\nb"}, {"{{ 1 }}\n\n", "1\n"}, {"  {{ 1 }}  ", "  1  "}});
}

TEST(ChatWhitespace, SignsCutAllOrNothing) {
  expect_each({{"a \n {{- 1 -}} \n b", "a1b"},
               {"a \n {%- if 1 -%} \n b {%- endif -%} \n c", "abc"},
               {"a\n  {%+ if 1 %}b{% endif %}", "a\n  b"},
               {"{% if 1 +%}\nb{% endif +%}\nc", "\nb\nc"},
               {"a\xC2\xA0\xE3\x80\x80{{- 1 }}", "a1"},
               {"{{ -1 }}{{- 2 - 1 }}", "-11"},
               {"a\n{%- set b = 1 %}\n  c", "a  c"}});
}

TEST(ChatWhitespace, Comments) {
  expect_each({{"a\n  {# x #}\nb", "a\nb"},
               {"a {#- x -#} b", "ab"},
               {"a {# {{ 1 }} {% if %} #} b", "a  b"},
               {"a{# x +#}\nb", "a\nb"},
               {"a {#-#} b", "a b"}});
}

TEST(ChatWhitespace, RawText) {
  expect_each({{"{% raw %}{{ a }}{% if %}{% endraw %}b", "{{ a }}{% if %}b"},
               {"{%- raw -%}  {{ a }} {%- endraw -%}  b", "{{ a }}b"},
               {"{% raw %}\n a\n {% endraw %}\nb", "\n a\nb"}});
  EXPECT_THAT(fault_of("{% raw %} a"), testing::HasSubstr("the raw block has no end"));
}

TEST(ChatWhitespace, LineEnds) {
  expect_each({{"a\r\nb\rc\r\n", "a\nb\nc"},
               {"{% if 1 %}\r\na{% endif %}", "a"},
               {"", ""},
               {"\n", ""},
               {"\n\n", "\n"}});
}

TEST(ChatWhitespace, BracketsOfDictsEndNoTag) {
  expect_each({{"{{ {'a': {'b': 1}} }}", "{'a': {'b': 1}}"},
               {"{{ {'a': {'b': 1}}.a.b }}", "1"},
               {"{{ '}}' }}{{ '%}' }}{{ \"{{\" }}", "}}%}{{"},
               {"{% set x = {'a': '%}'} %}{{ x.a }}", "%}"},
               {"{ {a} {", "{ {a} {"}});
}

TEST(ChatWhitespace, EscapesOfLiterals) {
  expect_each({{R"({{ 'a\n\t\\\'\"b' }})", "a\n\t\\'\"b"},
               {R"({{ '\x41\u00e9\U0001F642\101\q' }})",
                "A\xC3\xA9\xF0\x9F\x99\x82"
                R"(A\q)"},
               {"{{ 'a\\\nb' }}", "ab"},
               {"{{ 'é\n' }}", "é\n"}});
  EXPECT_THAT(fault_of(R"({{ '\u12' }})"), testing::HasSubstr("an escape without its 4 digits"));
  EXPECT_THAT(fault_of(R"({{ '\ud83d' }})"), testing::HasSubstr("surrogate"));
  EXPECT_THAT(fault_of(R"({{ '\N{DASH}' }})"), testing::HasSubstr("not supported"));
}

TEST(ChatWhitespace, Numbers) {
  expect_each(
      {{"{{ 1_000 }} {{ 1.5e3 }} {{ 1e3 }} {{ 00 }} {{ 2.50 }}", "1000 1500.0 1000.0 0 2.5"},
       {"{{ [[1, 2]].0.1 }}", "2"}});
  for (const char* bad : {"{{ 012 }}", "{{ 0x1F }}", "{{ 99999999999999999999 }}", "{{ 1e999 }}"})
    EXPECT_THAT(fault_of(bad), testing::StartsWith("t.jinja:1:4: ")) << bad;
}

}  // namespace
}  // namespace megalith::chat
