// SPDX-License-Identifier: Apache-2.0
// Filters, tests and methods of texts, as Jinja2 3.1.6 and Python 3.11 have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/chat_fixture.h"

namespace megalith::chat {
namespace {

using testing::HasSubstr;

constexpr std::string_view kVariables = R"({
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"},
                 {"role": "user", "content": "V", "n": null}],
    "tool": {"name": "f", "parameters": {"b": [1, 2.0, true, null], "a": {}}, "e": []},
    "words": ["b", "A", "c", "a"]})";

void expect_same(std::initializer_list<Case> cases) {
  for (const auto& [source, expected] : cases)
    EXPECT_EQ(fault_of(source, kVariables), "no fault: " + std::string(expected)) << source;
}

TEST(ChatFilters, ToJsonIsPythons) {
  expect_same(
      {{"{{ tool|tojson }}",
        R"({"name": "f", "parameters": {"b": [1, 2.0, true, null], "a": {}}, "e": []})"},
       {"{{ {'b': [1, {}], 'a': []}|tojson(indent=2) }}",
        "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": []\n}"},
       {"{{ {'b': 1, 'a': (2,)}|tojson(sort_keys=true, separators=(',', ':')) }}",
        R"({"a":[2],"b":1})"},
       {"{{ 'é<&>\\'\"\\\\\\n\\t\\x01\\x7f🙂'|tojson }}", R"("é<&>'\"\\\n\t\u0001)"
                                                             "\x7F"
                                                             R"(🙂")"},
       {"{{ 'é🙂\\x7f'|tojson(true) }}", R"("\u00e9\ud83d\ude42\u007f")"},
       {"{{ {1: none, true: 1.5, none: 1}|tojson }}", R"({"1": 1.5, "null": 1})"},
       {"{{ [1]|tojson(indent='\t') }}", "[\n\t1\n]"},
       {"{{ tool|tojson|safe }}"
        "{{ ('a' ~ 'b'|safe) }}",
        R"({"name": "f", "parameters": {"b": [1, 2.0, true, null], "a": {}}, "e": []}ab)"}});
  EXPECT_THAT(fault_of("{{ x|tojson }}"), HasSubstr("Undefined has no form in JSON"));
  EXPECT_THAT(fault_of("{{ [1]|map('string')|tojson }}"), HasSubstr("generator has no form"));
}

TEST(ChatFilters, Text) {
  expect_same({{"[{{ '  a b\\n '|trim }}] {{ 'xxaxx'|trim('x') }} {{ 3|trim }}", "[a b] a 3"},
               {"{{ 'aB'|upper }} {{ 'aB'|lower }} {{ 'aB cD'|capitalize }} {{ 'straße'|upper }}",
                "AB ab Ab cd STRASSE"},
               {"{{ \"they're bill's-friends\"|title }}", "They're Bill's-Friends"},
               {"{{ 'aaa'|replace('a', 'b') }} {{ 'aaa'|replace('a', 'b', 2) }} "
                "{{ 'ab'|replace('', '-') }}",
                "bbb bba -a-b-"},
               {"{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb'|indent(2, true) }}|"
                "{{ 'a\\n\\nb'|indent(1, blank=true) }}|{{ 'a\\nb'|indent('> ') }}",
                "a\n    b\n\n    c|  a\n  b|a\n \n b|a\n> b"},
               {"{{ [1, 'a', none]|join(', ') }} {{ words|join }} {{ 'abc'|join('-') }}",
                "1, a, None bAca a-b-c"},
               {"{{ messages|join('+', attribute='content') }}", "S+U+V"},
               {"{{ 5|string + 'a' }} {{ 'two words, one'|wordcount }}", "5a 3"}});
}

// Python's Markup: what joins it with + is escaped, what is cut from it is one too, `~` gives plain
// text.
TEST(ChatFilters, SafeText) {
  expect_same(
      {{"{{ '<' + '<b>'|safe }} {{ '<b>'|safe + '<' }} {{ '<b>'|safe ~ '<' }}",
        "&lt;<b> <b>&lt; <b><"},
       {"{{ '[ARGS]' + {'a': '<'}|tojson|safe + 'x' }}", R"([ARGS]{"a": "<"}x)"},
       {"{{ '&<>\\'\"'|e }} {{ '<'|safe|e }} {{ '<'|safe|forceescape }} {{ 5|escape }}",
        "&amp;&lt;&gt;&#39;&#34; < &lt; 5"},
       {"{{ ['<'|safe, 'a'|safe * 2, ('-'|safe).join(['<', 1])] }}",
        "[Markup('<'), Markup('aa'), Markup('&lt;-1')]"},
       {"{{ ('a<'|safe).replace('a', '>') }} {{ 'a<'|safe|replace('a', '>') + '<' }}", "&gt;< ><<"},
       {"{{ ('a<'|safe)[0] + '<' }}{{ ('a<'|safe)[::-1] + '<' }}{{ ('a b'|safe).split()[0] + '<' "
        "}}",
        "a&lt;<a&lt;a&lt;"},
       {"{{ 'a'|safe|upper + '<' }} {{ 'a'|safe|title + '<' }} {{ 'a'|safe|first + '<' }}",
        "A&lt; A< a<"},
       {"{{ 'a'|safe == 'a' }} {{ 'a'|safe is string }} {{ 'a'|safe is escaped }}",
        "True True True"}});
}

TEST(ChatFilters, Lists) {
  expect_same(
      {{"{{ words|first }} {{ words|last }} {{ []|first }}{{ 'abc'|last }}", "b a c"},
       {"{{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ words|sort(true) }}",
        "['A', 'a', 'b', 'c'] ['A', 'a', 'b', 'c'] ['c', 'b', 'A', 'a']"},
       {"{{ words|unique|list }} {{ words|unique(true)|list }}",
        "['b', 'A', 'c'] ['b', 'A', 'c', 'a']"},
       {"{{ words|reverse|list }} {{ 'añb'|reverse }}", "['a', 'c', 'A', 'b'] bña"},
       {"{{ messages|map(attribute='role')|list }} {{ words|map('upper')|join }}",
        "['system', 'user', 'user'] BACA"},
       {"{{ messages|map(attribute='n', default='-')|list }}", "['-', '-', None]"},
       {"{{ [{}]|map(attribute='a.b.c', default='-')|list }}", "['-']"},
       {"{{ none|map('nope')|list }}{{ 0|selectattr('a.b')|list }}{{ false|reject|list }}",
        "[][][]"},
       {"{{ [{'a': 1, 'b': 'B'}, {'a': 1, 'b': 'a'}]|sort(attribute='a,b')|map(attribute='b')|join "
        "}}",
        "aB"},
       {"{{ messages|selectattr('role', 'equalto', 'user')|list|length }} "
        "{{ messages|rejectattr('role', '==', 'user')|map(attribute='content')|first }}",
        "2 S"},
       {"{{ messages|selectattr('n', 'defined')|list|length }} "
        "{{ messages|selectattr('n')|list|length }}",
        "1 0"},
       {"{{ [1, 2, 3]|select('odd')|list }} {{ [0, 1, '']|reject|list }}", "[1, 3] [0, '']"},
       {"{{ tool.parameters|dictsort }}", "[('a', {}), ('b', [1, 2.0, True, None])]"},
       {"{% for k, v in tool|items %}{{ k }} {% endfor %}", "name parameters e "},
       {"{% for role, all in messages|groupby('role') %}{{ role }}{{ all|length }}{% endfor %}"
        "{{ ([{'a': 'b'}, {'a': 'B'}]|groupby('a')|first).list|length }}",
        "system1user22"},
       {"{{ [3, 1, 2]|min }} {{ [3, 1, 2]|max }} {{ ['b', 'A']|min }}", "1 3 A"},
       {"{{ [1, 2, 3]|batch(2)|list }} {{ [1, 2, 3]|batch(2, 0)|list }}",
        "[[1, 2], [3]] [[1, 2], [3, 0]]"},
       {"{{ 'ab'|list }} {{ {'a': 1}|list }} {{ x|list }}", "['a', 'b'] ['a'] []"}});
  EXPECT_THAT(fault_of("{{ [1, 'a']|sort }}"), HasSubstr("unsupported operand types for <"));
  EXPECT_THAT(fault_of("{{ [1]|map('upper') }}"), HasSubstr("a generator cannot be printed"));
}

TEST(ChatFilters, AGeneratorIsTrueAndGivesItsItemsOnce) {
  expect_same(
      {{"{{ 'y' if [1]|select('even') else 'n' }}{{ 'y' if [1]|select('even')|list else 'n' }}",
        "yn"},
       {"{% set g = [1, 2, 3]|map('string') %}{{ g|first }}{{ g|list }}{{ g|list }}",
        "1['2', '3'][]"}});
  EXPECT_THAT(fault_of("{{ [1]|map('string')|length }}"), HasSubstr("'generator' has no length"));
}

TEST(ChatFilters, Numbers) {
  expect_same(
      {{"{{ '42'|int }} {{ ' 4_2 '|int }} {{ '4.9'|int }} {{ -4.9|int }} {{ 'x'|int(7) }} "
        "{{ none|int }} {{ true|int }} {{ 'ff'|int(base=16) }}",
        "42 42 4 -4 7 0 1 255"},
       {"{{ '1.5'|float }} {{ 2|float }} {{ 'x'|float }} {{ '1e3'|float(9) }} "
        "{{ 'inf'|float }}",
        "1.5 2.0 0.0 1000.0 inf"},
       {"{{ -3|abs }} {{ -2.5|abs }} {{ true|abs }}", "3 2.5 1"},
       {"{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 7|round }} "
        "{{ 2.1|round(method='ceil') }} {{ 2.19|round(1, 'floor') }}",
        "2.0 4.0 2.67 7 3.0 2.1"},
       {"{{ [1, 2.5]|sum }} {{ messages|sum(attribute='n.x', start=2) if 0 else 2 }}", "3.5 2"},
       {"{{ x|default('d') }} {{ ''|default('d') }}{{ ''|d('d', true) }} {{ none|d(1) }}",
        "d d None"},
       {"{{ words|length }} {{ 'né'|count }} {{ x|length }}", "4 2 0"}});
  EXPECT_THAT(fault_of("{{ x|int }}"), HasSubstr("'x' is undefined"));
  EXPECT_THAT(fault_of("{{ 5|length }}"), HasSubstr("'int' has no length"));
}

TEST(ChatFilters, Tests) {
  expect_same(
      {{"{{ x is defined }} {{ x is undefined }} {{ words is defined }} {{ 1 is defined }}",
        "False True True True"},
       {"{{ none is none }} {{ 0 is none }} {{ 'a' is string }} {{ 1 is string }}",
        "True False True False"},
       {"{{ 1 is number }} {{ true is number }} {{ true is integer }} {{ 1.0 is float }} {{ 1 is "
        "float }}",
        "True True False True False"},
       {"{{ true is boolean }} {{ 1 is boolean }} {{ true is true }} {{ 1 is true }} {{ false is "
        "false }}",
        "True False True False True"},
       {"{{ tool is mapping }} {{ words is mapping }} {{ words is iterable }} {{ 'a' is iterable "
        "}} "
        "{{ 1 is iterable }}",
        "True False True True False"},
       {"{{ words is sequence }} {{ tool is sequence }} {{ 'a' is sequence }} {{ 1 is sequence }} "
        "{{ x is sequence }} {{ none is iterable }}",
        "True True True False True False"},
       {"{{ 3 is odd }} {{ 3 is even }} {{ 9 is divisibleby 3 }} {{ 4 is not divisibleby(3) }}",
        "True False True True"},
       {"{{ 1 is eq 1 }} {{ 1 is ne 1 }} {{ 2 is gt(1) }} {{ 2 is le 1 }} {{ 1 is equalto 1.0 }} "
        "{{ 1 is in [1] }} {{ 'a' is not in 'cat' }}",
        "True False True False True True False"},
       {"{{ 'ab' is lower }} {{ 'AB1' is upper }} {{ '1' is upper }} {{ none is sameas none }}",
        "True True False True"},
       {"{{ range is callable }} {{ 'trim' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }}",
        "True True False True"}});
  EXPECT_THAT(fault_of("{{ 1 is odd is even }}"), HasSubstr("tests cannot follow one another"));
  EXPECT_THAT(fault_of("{{ 1 is eq }}"), HasSubstr("the test 'eq' takes 1 arguments, not 0"));
}

TEST(ChatFilters, MethodsOfTexts) {
  expect_same(
      {{"[{{ ' a '.strip() }}{{ ' a '.lstrip() }}{{ ' a '.rstrip() }}{{ 'xay'.strip('xy') }}]",
        "[aa  aa]"},
       {"{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} "
        "{{ ' a  b c '.split(none, 1) }} {{ ''.split() }} {{ ''.split(',') }}",
        "['a', 'b', 'c'] ['a', 'b,c'] ['a', 'b'] ['a', 'b c'] [] ['']"},
       {"{{ 'a,b,c'.rsplit(',', 1) }} {{ 'a=b=c'.partition('=') }} {{ 'abc'.partition('x') }}",
        "['a,b', 'c'] ('a', '=', 'b=c') ('abc', '', '')"},
       {"{{ '</think>x'.split('</think>')[-1] }} {{ 'a</t>b</t>c'.split('</t>')[-1] }}", "x c"},
       {"{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'a'.startswith('') }}",
        "True True True"},
       {"{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('bc') }} {{ 'aXa'.replace('a', 'b', "
        "1) }}",
        "bc a bXa"},
       {"{{ 'ab'.upper() }} {{ 'AB'.lower() }} {{ \"it's ok\".title() }} {{ 'aB'.capitalize() }}",
        "AB ab It'S Ok Ab"},
       {"{{ ', '.join(['a', 'b']) }} {{ 'éaa'.find('a') }} {{ 'aa'.rfind('a') }} {{ 'a'.find('x') "
        "}} "
        "{{ 'aaa'.count('aa') }}",
        "a, b 1 1 -1 1"},
       {"{{ 'a\\nb\\r\\nc\\n'.splitlines() }} {{ '12'.isdigit() }} {{ ''.isspace() }} {{ "
        "'é'.isalpha() }}",
        "['a', 'b', 'c'] True False True"},
       {"[{{ 'a'.ljust(3) }}{{ 'a'.rjust(3, '.') }}]", "[a  ..a]"}});
  EXPECT_THAT(fault_of("{{ 'a'.join([1]) }}"), HasSubstr("join needs a text, not 'int'"));
  EXPECT_THAT(fault_of("{{ 'a'.split('') }}"), HasSubstr("separator that is not empty"));
}

}  // namespace
}  // namespace megalith::chat
