// SPDX-License-Identifier: Apache-2.0
// What a hostile template may not do: each limit is one message that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/chat_fixture.h"

namespace megalith::chat {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string repeated(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(ChatLimits, SizeOfTheTemplate) {
  Limits limits;
  limits.template_bytes = 10;
  EXPECT_EQ(rendered("0123456789", "{}", limits), "0123456789");
  EXPECT_EQ(fault_of("0123456789a", "{}", limits),
            "t.jinja: a template of 11 bytes; the most is 10");
  EXPECT_THAT(fault_of("a\xFF"), HasSubstr("t.jinja"));
}

TEST(ChatLimits, Steps) {
  Limits few;
  few.steps = 1000;
  const std::string loops =
      repeated("{% for i in range(100000) %}", 4) + repeated("{% endfor %}", 4);
  for (const std::string& endless : {loops, std::string("{% for i in range(999) %}{% endfor %}")})
    EXPECT_THAT(fault_of(endless, "{}", few), HasSubstr("the template takes more than 1000 steps"));
  // Looking through long texts is counted as well.
  EXPECT_THAT(fault_of("{% set a = 'a' * 1000000 %}{% for i in range(1000) %}{{ 'b' in a }}"
                       "{% endfor %}",
                       "{}", few),
              HasSubstr("more than 1000 steps"));
}

TEST(ChatLimits, Memory) {
  Limits small;
  small.memory_bytes = size_t{1} << 20;
  for (const char* grows :
       {"{{ 'a' * 9999999999 }}", "{{ [1] * 9999999999 }}", "{{ 'a'.ljust(9999999999) }}",
        "{{ 'a'|indent(9999999999) }}", "{{ ('a' * 999999)|replace('a', 'b' * 999999) }}",
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor "
        "%}",
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor "
        "%}",
        "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor "
        "%}",
        "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor "
        "%}"
        "{% set y = n.x|string %}",
        "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor "
        "%}"
        "{% set y = n.x|tojson %}",
        "{% set x %}{% for i in range(9999) %}{{ 'a' * 99999 }}{% endfor %}{% endset %}"})
    EXPECT_THAT(fault_of(grows, "{}", small),
                HasSubstr("the template makes values of more than 1048576 bytes"))
        << grows;
}

// What is small many times over is counted with what it takes beside its bytes.
TEST(ChatLimits, ManySmallValues) {
  Limits small;
  small.memory_bytes = size_t{1} << 20;
  for (const char* grows :
       {"{% set x = ('a ' * 50000).split() %}", "{{ (',' * 50000)|list|length }}",
        "{{ [x]|sort(attribute=',' * 50000) }}",
        "{% for i in range(9999) %}{% macro f() %}{% endmacro %}{% endfor %}",
        "{% for i in range(99999) %}{% set x = namespace() %}{% endfor %}"})
    EXPECT_THAT(fault_of(grows, "{}", small), HasSubstr("makes values of more than 1048576 bytes"))
        << grows;
}

TEST(ChatLimits, WorkWordByWordIsCounted) {
  Limits few;
  few.steps = 100'000;
  for (const char* works : {"x.title()", "x|title", "x[-5:]", "x[1:3]"})
    EXPECT_THAT(fault_of(fmt::format("{{% set x = 'a ' * 100000 %}}{{% for i in range(20) %}}"
                                     "{{% set y = {} %}}{{% endfor %}}",
                                     works),
                         "{}", few),
                HasSubstr("more than 100000 steps"))
        << works;
}

TEST(ChatLimits, ComparingIsCounted) {
  Limits few;
  few.steps = 100'000;
  EXPECT_THAT(fault_of("{% set n = namespace(x=[1], y=[1]) %}{% for i in range(99) %}"
                       "{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}{% endfor %}"
                       "{{ n.x == n.y }}",
                       "{}", few),
              HasSubstr("more than 100000 steps"));
}

TEST(ChatLimits, NamesAndArguments) {
  std::string sets, arguments;
  for (int i = 0; i < 5000; ++i) sets += "{% set a" + std::to_string(i) + " = 1 %}";
  Limits few;
  few.steps = 1'000'000;
  EXPECT_EQ(rendered(sets + "{{ a0 }}", "{}", few), "1");
  EXPECT_THAT(fault_of(sets + "{% for i in range(10000) %}{{ a4999 }}{% endfor %}", "{}", few),
              HasSubstr("more than 1000000 steps"));
  for (int i = 0; i < 256; ++i) arguments += "a" + std::to_string(i) + "=1,";
  EXPECT_THAT(fault_of("{{ dict(" + arguments + ") }}"),
              HasSubstr("a call with more than 255 named arguments"));
  EXPECT_THAT(fault_of("{% macro f(" + arguments + ") %}{% endmacro %}"),
              HasSubstr("a macro with more than 255 parameters"));
}

TEST(ChatLimits, Output) {
  Limits limits;
  limits.output_bytes = 5;
  EXPECT_EQ(rendered("abcde", "{}", limits), "abcde");
  EXPECT_THAT(fault_of("abc{{ 'def' }}", "{}", limits), HasSubstr("prints more than 5 bytes"));
}

TEST(ChatLimits, NestingOfTheTemplate) {
  for (const auto& [open, close] : std::initializer_list<std::pair<const char*, const char*>>{
           {"(", ")"}, {"[", "]"}, {"-", ""}, {"not ", ""}, {"{1: ", "}"}}) {
    const std::string deep = "{{ " + repeated(open, 50000) + "1" + repeated(close, 50000) + " }}";
    EXPECT_THAT(fault_of(deep), HasSubstr("nested deeper than 160 levels")) << open;
  }
  for (const char* chain : {" + 1", " and 1", "|abs", ".a", "[0]", "()", " if 1 else 1"})
    EXPECT_THAT(fault_of("{{ 1" + repeated(chain, 1000) + " }}"),
                HasSubstr("nested deeper than 160 levels"))
        << chain;
  const std::string blocks = repeated("{% if 1 %}", 1000) + repeated("{% endif %}", 1000);
  EXPECT_THAT(fault_of(blocks), HasSubstr("nested deeper than 160 levels"));
  EXPECT_EQ(rendered("{{ 1" + repeated(" + 1", 100) + " }}"), "101");
  EXPECT_EQ(rendered(repeated("{% if 1 %}", 100) + "x" + repeated("{% endif %}", 100)), "x");
}

TEST(ChatLimits, MacrosThatCallThemselves) {
  EXPECT_THAT(fault_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
              HasSubstr("calls itself deeper than 400 levels"));
  EXPECT_THAT(
      fault_of("{% macro f() %}{{ caller() }}{% endmacro %}"
               "{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}"),
      HasSubstr("calls itself deeper than 400 levels"));
  EXPECT_THAT(fault_of("{{ [1]|map('map', 'map', 'map')|list }}"), HasSubstr("int"));
}

TEST(ChatLimits, ValuesWithinValues) {
  EXPECT_THAT(fault_of("{% set n = namespace(x=[]) %}{% for i in range(1000) %}"
                       "{% set n.x = [n.x] %}{% endfor %}"),
              HasSubstr("values within values deeper than 160 levels"));
  // A namespace may hold itself; nothing of it is left behind.
  EXPECT_THAT(fault_of("{% set n = namespace() %}{% set n.n = [n] %}{{ n.n }}"),
              HasSubstr("'Namespace' cannot be printed"));
  EXPECT_EQ(rendered("{% set n = namespace() %}{% set n.n = n %}{{ n.n.n == n }}"), "True");
  EXPECT_EQ(rendered("{% set n = namespace() %}{% for x in [1] %}{% set n.l = loop %}{% endfor %}"
                     "{{ n.l.index }}"),
            "1");
}

TEST(ChatLimits, ScopesOfMacrosLeaveNothingBehind) {
  // Under AddressSanitizer: a macro holds its scope, whose names hold the macro.
  EXPECT_EQ(rendered("{% for i in [1, 2] %}{% macro f() %}{{ i }}{% endmacro %}{% set g = f %}"
                     "{{ g() }}{% endfor %}"),
            "12");
}

}  // namespace
}  // namespace megalith::chat
