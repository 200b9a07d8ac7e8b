// SPDX-License-Identifier: Apache-2.0
// Statements and expressions. What is expected is what Jinja2 3.1.6 gives, set up as transformers
// does (tests/oracle/chat_oracle.py compares far more).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/chat_fixture.h"

namespace megalith::chat {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

void expect_all(std::initializer_list<Case> cases, std::string_view variables = "{}") {
  for (const auto& [source, expected] : cases)
    EXPECT_EQ(fault_of(source, variables), "no fault: " + std::string(expected)) << source;
}

TEST(ChatLanguage, ChatMl) {
  EXPECT_EQ(rendered("{% for message in messages %}"
                     "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
                     "'<|im_end|>' + '\\n' }}"
                     "{% endfor %}"
                     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
                     R"({"add_generation_prompt": true, "messages": [
                         {"role": "system", "content": "Be brief."},
                         {"role": "user", "content": "Hi"}]})"),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(ChatLanguage, OperatorsBindAsInJinja) {
  expect_all(
      {{"{{ 'a' + 1 ~ 'b' + 'c' }}", "a1bc"},
       {"{{ 'x' ~ 2 * 3 }} {{ not 1 == 2 }} {{ -1|abs }} {{ 1 + 2|string|length }}", "x6 True 1 2"},
       {"{{ 1 in [1] and not 2 in [1] }} {{ 'a' ~ 'b' in 'cab' }}", "True True"},
       {"{{ 'ab' 'cd' }} {{ 'a' if x is defined else 'b' ~ 'c' }}", "abcd bc"}});
}

TEST(ChatLanguage, Arithmetic) {
  expect_all(
      {{"{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }}", "3 -4 1 2 -2"},
       {"{{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}", "3.5 3.0 1024 0.5"},
       {"{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e20 }} {{ 1e15 }} {{ 0.1 + 0.2 }}",
        "3.0 0.5 1e+20 1000000000000000.0 0.30000000000000004"},
       {"{{ -3 // -100.0 }} {{ 3 // -100.0 }} {{ -0.0 // 5 }} {{ 0.3 // 0.1 }}",
        "0.0 -1.0 -0.0 2.0"},
       {"{{ 2 + 3 * 4 - 5 }} {{ (2 + 3) * 4 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }}", "9 20 4 64"},
       {"{{ 'ab' * 3 }} {{ 2 * [1] }} {{ [1] + [2] }} {{ (1,) + (2,) }}",
        "ababab [1, 1] [1, 2] (1, 2)"},
       {"{{ True + 1 }} {{ 1 ~ 2 ~ none }}", "2 12None"}});
  EXPECT_THAT(fault_of("{{ 1 // 0 }}"), HasSubstr("division by zero"));
  EXPECT_THAT(fault_of("{{ 'a' + 1 }}"), HasSubstr("unsupported operand types for +"));
  EXPECT_THAT(fault_of("{{ 9223372036854775807 + 1 }}"), HasSubstr("beyond 64 bits"));
  EXPECT_THAT(fault_of("{{ 3 ** 100 }}"), HasSubstr("beyond 64 bits"));
}

TEST(ChatLanguage, Comparisons) {
  expect_all(
      {{"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 >= 2 != 1 }}", "True False True"},
       {"{{ 1 == 1.0 == True }} {{ 'a' == 1 }} {{ [1, 2] == [1, 2.0] }}", "True False True"},
       {"{{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }} {{ none == false }}", "False True False"},
       {"{{ 'b' > 'a' }} {{ [1, 2] < [1, 3] }} {{ 'é' > 'z' }}", "True True True"},
       {"{{ 'a' in 'cat' }} {{ 2 not in [1, 2] }} {{ 'k' in {'k': 0} }} {{ '' in '' }}",
        "True False True True"},
       {"{{ x in [1] }} {{ x == y }} {{ x == none }}", "False True False"}});
  EXPECT_THAT(fault_of("{{ 1 < 'a' }}"), HasSubstr("unsupported operand types for <"));
  EXPECT_THAT(fault_of("{{ x < 1 }}"), HasSubstr("'x' is undefined"));
  EXPECT_THAT(fault_of("{{ 1 in 'a' }}"), HasSubstr("'in' a text"));
}

TEST(ChatLanguage, LogicGivesOperands) {
  expect_all({{"{{ '' or 'b' }} {{ 'a' and 'b' }} {{ 0 and x.y }} {{ 1 or x.y }}", "b b 0 1"},
              {"{{ not '' }} {{ not x }} {{ not [0] }}", "True True False"},
              {"{{ 'y' if 1 else 'n' }}{{ 'y' if 0 else 'n' }}{{ 'y' if 0 }}", "yn"},
              {"{{ 1 if false else 2 if false else 3 }}", "3"}});
}

TEST(ChatLanguage, ItemsAttributesAndSlices) {
  constexpr std::string_view kVariables =
      R"({"m": {"role": "user", "items": 3, "n": null}, "l": [1, 2, 3, 4], "s": "aéb"})";
  expect_all(
      {{"{{ m.role }} {{ m['role'] }} {{ m['items'] }} {{ m.get('x', 5) }} {{ m.get('x') }}",
        "user user 3 5 None"},
       {"{{ m.absent }}|{{ m['absent'] }}|{{ l[9] }}|{{ m.n.x }}", "|||"},
       {"{{ l[-1] }} {{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[5:] }}",
        "4 [2, 3, 4] [1, 2, 3] [4, 3, 2, 1] [1, 3] []"},
       {"{{ l[-2:-4:-1] }} {{ l[2:0:-1] }} {{ l[-9:2] }} {{ l[:] }} {{ (1, 2, 3)[1:] }}",
        "[3, 2] [3, 2] [1, 2] [1, 2, 3, 4] (2, 3)"},
       {"{{ s[1] }} {{ s[-1] }} {{ s[::-1] }} {{ s[1:] }} {{ s|length }}", "é b béa éb 3"},
       {"{{ {(1, 2): 'x'}[1, 2] }} {{ {(): 'y'}[] }} {{ {(1,): 'z'}[1,] }}", "x y z"},
       {"{{ l.0 }} {{ {'a': {'b': 1}}.a.b }} {{ {1: 'x'}[1.0] }}", "1 1 x"},
       {"{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}", "role=user;items=3;n=None;"},
       {"{{ m.keys()|list }} {{ m.values()|list }} {{ 'role' in m.keys() }}",
        "['role', 'items', 'n'] ['user', 3, None] True"},
       {"{{ {'a': 1}.items() }} {{ {'a': 1}.keys() }} {{ range(2) }} {{ range(1, 9, 3)|list }}",
        "dict_items([('a', 1)]) dict_keys(['a']) range(0, 2) [1, 4, 7]"}},
      kVariables);
  EXPECT_THAT(fault_of("{{ x.y }}"), HasSubstr("'x' is undefined"));
  EXPECT_THAT(fault_of("{{ m.a.b }}", kVariables), HasSubstr("'dict object' has no attribute 'a'"));
  EXPECT_THAT(fault_of("{{ m.n.strip() }}", kVariables),
              HasSubstr("'None' has no attribute 'strip'"));
  EXPECT_THAT(fault_of("{{ l[1:2:0] }}", kVariables), HasSubstr("the step of a slice is 0"));
  EXPECT_THAT(fault_of("{{ l.append(5) }}", kVariables), HasSubstr("unsafe"));
  EXPECT_THAT(fault_of("{{ s.format(1) }}", kVariables),
              HasSubstr("the method 'format' of str is not supported"));
}

TEST(ChatLanguage, ValuesPrintAsPythonPrintsThem) {
  expect_all(
      {{"{{ none }} {{ true }} {{ 1.0 }} {{ 1e-5 }} {{ 123456789.125 }} {{ -0.0 }}",
        "None True 1.0 1e-05 123456789.125 -0.0"},
       {"{{ [1, 'a', none, 2.5, [true]] }}", "[1, 'a', None, 2.5, [True]]"},
       {"{{ {'a': 'it\\'s', 'b': '\"', 1: 'x\\n'} }}", R"({'a': "it's", 'b': '"', 1: 'x\n'})"},
       {"{{ () }} {{ (1,) }} {{ (1, 2) }} {{ [] }} {{ {} }}", "() (1,) (1, 2) [] {}"},
       {"{{ '\\é\\｜\\🙂\\q' }}", R"(\xe9\uff5c\U0001f642\q)"},
       {"{{ ['é', '\\x00', '\\u200b', '\\xa0'] }}", R"(['é', '\x00', '\u200b', '\xa0'])"}});
}

TEST(ChatLanguage, LoopsTellWhereTheyAre) {
  expect_all(
      {{"{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }} "
        "{% endfor %}",
        "10TrueFalse 21FalseFalse 32FalseTrue "},
       {"{% for x in [1, 2, 3] %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}",
        "<1>2;1<2>3;2<3>;"},
       {"{% for x in [1, 2] %}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }} "
        "{{ loop.cycle('a', 'b') }};{% endfor %}",
        "221 a;210 b;"},
       {"{% for x in [] %}x{% else %}none{% endfor %}", "none"},
       {"{% for x in [1, 2, 3, 4] if x % 2 == 0 %}{{ loop.index }}:{{ x }}/{{ loop.length }} "
        "{% endfor %}",
        "1:2/2 2:4/2 "},
       {"{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }} {% endfor %}", "12 34 "},
       {"{% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}", "True False True "},
       {"{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
        "13"},
       {"{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "1"},
       {"{% for x in [1] %}{% break %}{% else %}none{% endfor %}", "none"},
       {"{% for x in y %}x{% endfor %}", ""},
       {"{% for x in 1, 2 %}{% for y in 'ab' %}{{ x }}{{ y }}{{ loop.index }} {% endfor %}"
        "{{ loop.index }};{% endfor %}",
        "1a1 1b2 1;2a1 2b2 2;"}});
  EXPECT_THAT(fault_of("{% for x in 3 %}{% endfor %}"), HasSubstr("'int' object is not iterable"));
  EXPECT_THAT(fault_of("{% for a, b in [(1,)] %}{% endfor %}"), HasSubstr("1 values for 2 names"));
}

TEST(ChatLanguage, AFilterOfALoopSeesWhatItsBodyDoes) {
  expect_all(
      {{"{% set n = namespace(stop=false) %}"
        "{% for x in [1, 2, 3] if not n.stop %}{{ x }}{% set n.stop = true %}{% endfor %}",
        "1"}});
}

TEST(ChatLanguage, ScopesEndWithTheirBlocks) {
  expect_all(
      {{"{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 9 %}{{ x }}{% endfor %}{{ x }}",
        "19191"},
       {"{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "2"},
       {"{% set n = namespace(a=1) %}{% for i in [1, 2] %}{% set n.a = n.a + i %}{% endfor %}"
        "{{ n.a }}",
        "4"},
       {"{% set a, b = 1, 'z' %}{{ b }}{{ a }}", "z1"},
       {"{% set x %}a{{ 1 + 1 }}{% set y = 5 %}{% endset %}{{ x }}{{ y }}", "a2"},
       {"{% set x | upper | trim %} ab {% endset %}[{{ x }}]", "[AB]"},
       {"{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "12"},
       {"{% filter upper %}ab{{ 'c' }}{% endfilter %}", "ABC"},
       {"{% generation %}{% set q = 1 %}g{{ q }}{% endgeneration %}{{ q }}", "g1"}});
  EXPECT_THAT(fault_of("{% set x.y = 1 %}"), HasSubstr("attributes can be set on a namespace"));
  EXPECT_THAT(fault_of("{% set n = namespace(_a=1) %}"), HasSubstr("underscore"));
}

// As in Jinja a scope that sets a name before it reads it has the name from its beginning.
TEST(ChatLanguage, NamesThatAreSetLater) {
  constexpr std::string_view kGiven = R"({"s": "S", "l": [1, 2]})";
  for (
      const auto& [source, expected] : std::initializer_list<Case>{
          {"{% for i in l %}{{ s }}{% endfor %}{% set s = 1 %}", ""},
          {"{{ s }}{% for i in l %}{{ s }}{% endfor %}{% set s = 1 %}", "SSS"},
          {"{% macro f() %}{{ s }}{% endmacro %}{{ f() }}{% set s = 1 %}{{ f() }}", "1"},
          {"{% for i in l %}{% for j in l %}{{ s }}{% endfor %}{% set s = i %}{{ s }}{% endfor %}",
           "12"},
          {"{% for i in l %}{{ s }}{% endfor %}{% if l %}{% set s = 1 %}{% endif %}{{ s }}", "SS1"},
          {"{% for i in l %}{{ s }}{% endfor %}{% if 0 %}{% set s = 1 %}{% elif 1 %}{% set s = 2 %}"
           "{% else %}{% set s = 3 %}{% endif %}{{ s }}",
           "SS2"},
          {"{% for i in l %}{{ s }}{% endfor %}{% set s %}x{% endset %}", ""},
          {"{% with %}{% for i in l %}{{ s }}{% endfor %}{% set s = 1 %}{% endwith %}{{ s }}",
           "SSS"},
          {"{% for i in [] %}{% else %}{% for i in l %}{{ s }}{% endfor %}{% set s = 1 %}{{ s }}"
           "{% endfor %}",
           "1"}})
    EXPECT_EQ(rendered(source, kGiven), expected) << source;
}

TEST(ChatLanguage, Macros) {
  expect_all(
      {{"{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}"
        "{{ f(1) }} {{ f(1, c=5) }} {{ f(b=3, a=4) }} {{ f(1, 2, 3) }} {{ f() }}",
        "121 125 434 123 2"},
       {"{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
        "3210"},
       {"{% set x = 1 %}{% macro f() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}", "2"},
       {"{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, z=4) }}",
        "(2, 3){'z': 4}"},
       {"{% macro f(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) f(5) %}{{ y + 1 }}{% endcall %}",
        "<6>"},
       {"{% macro f() %} a {% endmacro %}[{{ f() | trim }}]{{ f() is string }}", "[a]True"}});
  EXPECT_THAT(fault_of("{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}"), HasSubstr("at most 1"));
  EXPECT_THAT(fault_of("{% macro f(a) %}{% endmacro %}{{ f(b=2) }}"),
              HasSubstr("takes no keyword argument 'b'"));
  EXPECT_THAT(fault_of("{{ 3(1) }}"), HasSubstr("cannot be called"));
  EXPECT_THAT(fault_of("{{ nothing() }}"), HasSubstr("'nothing' is undefined"));
}

TEST(ChatLanguage, Functions) {
  expect_all(
      {{"{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%Y-%m-%d %H:%M:%S %A%%%Z') }}",
        "05 Mar 2025|2025-03-05 14:07:09 Wednesday%"},
       {"{{ dict(a=1, b=2) }} {{ dict([('x', 1)], y=2) }}", "{'a': 1, 'b': 2} {'x': 1, 'y': 2}"},
       {"{{ namespace(a=1).a }}{{ namespace({'b': 2}).b }}{{ namespace().c }}", "12"}});
  EXPECT_EQ(fault_of("a\n {{ raise_exception('Roles must ' ~ 'alternate') }}"),
            "t.jinja:2:20: the template says: Roles must alternate");
  EXPECT_THAT(fault_of("{{ range(100001) }}"), HasSubstr("range gives more than 100000"));
}

TEST(ChatLanguage, FaultsNameTheirPlace) {
  for (const auto& [source, expected] : std::initializer_list<Case>{
           {"{{ 1 +", "t.jinja:1:1: the tag has no end (}})"},
           {"a\nbé{{ 1 + }}", "t.jinja:2:10: expected a value, not '}}'"},
           {"{% for x in y %}", "t.jinja:1:17: the template ends before {% endfor %}"},
           {"{% endif %}", "t.jinja:1:4: there is no statement 'endif'"},
           {"{% include 'x' %}", "t.jinja:1:4: the statement 'include' is not supported"},
           {"{% for x in y recursive %}", "t.jinja:1:15: loops that are 'recursive'"},
           {"{% break %}", "t.jinja:1:10: 'break' outside of a loop"},
           {"{{ f(*a) }}", "t.jinja:1:6: arguments from a list or dict (*) are not supported"},
           {"{{ 'a }}", "t.jinja:1:4: the text has no end"},
           {"{{ (1] }}", "t.jinja:1:6: unexpected ']'"},
           {"{{ 1 $ 2 }}", "t.jinja:1:6: unexpected character '$'"},
           {"{# a", "t.jinja:1:1: the comment has no end"},
           {"{{ 1|nope }}", "t.jinja:1:6: there is no filter 'nope'"},
           {"{{ 1|urlize }}", "t.jinja:1:6: the filter 'urlize' is not supported"},
           {"{{ 1 is nope }}", "t.jinja:1:9: there is no test 'nope'"},
           {"{% set true = 1 %}", "t.jinja:1:8: true cannot be assigned to"},
           {"\n\n{{ [1, 2].x.y }}", "t.jinja:3:12: 'list object' has no attribute 'x'"}})
    EXPECT_THAT(fault_of(source), StartsWith(expected)) << source;
}

}  // namespace
}  // namespace megalith::chat
