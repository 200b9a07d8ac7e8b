// SPDX-License-Identifier: Apache-2.0
#include "grammars/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "grammars/grammar_fixture.h"

namespace megalith::grammars {
namespace {

using testing::HasSubstr;

std::string message_of(const auto& make) {
  try {
    make();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

struct Case {
  const char* source;
  std::vector<const char*> fit, do_not;
};

void expect(const Case& c, const Grammar& grammar) {
  for (const char* text : c.fit) EXPECT_TRUE(fits(grammar, text)) << c.source << " / " << text;
  for (const char* text : c.do_not) EXPECT_FALSE(fits(grammar, text)) << c.source << " / " << text;
}

TEST(Grammar, JsonSchemaByHand) {
  const Case cases[] = {
      {R"({"type": "null"})", {"null"}, {"", "nul", "true", " null", "null "}},
      {R"({"type": ["boolean", "null"]})", {"true", "false", "null"}, {"1"}},
      {R"({"type": "integer"})",
       {"0", "7", "-12", "999999999999999999"},
       {"-0", "01", "1.0", "1e3", "1000000000000000000", "-"}},
      {R"({"type": "number"})",
       {"0", "-0.5", "1.25e-3", "12E+5"},
       {"1.", ".5", "1e", "+1", "1e123"}},
      {R"({"type": "integer", "minimum": -5, "maximum": 120})",
       {"-5", "-1", "0", "9", "99", "100", "120"},
       {"-6", "121", "200", "-0", "00", "-50"}},
      {R"({"type": "integer", "exclusiveMinimum": 0.5, "maximum": 10})", {"1", "10"}, {"0", "11"}},
      {R"({"type": "number", "minimum": 0, "maximum": 1})",
       {"0", "1", "0.0", "1.0", "0.25", "0.999", "1.00"},
       {"1.1", "-0.1", "-0", "2", "1.001", "1e0"}},
      {R"({"type": "number", "exclusiveMinimum": -1.5, "exclusiveMaximum": 0.25})",
       {"-1.4999", "-1", "-0.5", "0", "0.2499", "0.0"},
       {"-1.5", "-1.50", "0.25", "0.250", "-2", "1"}},
      {R"({"type": "string"})",
       {"\"\"", R"("a\n\u00e9\ud83d\ude00é")"},
       {"\"", "\"\n\"", R"("\ud83d")", R"("\x")", "\"\xC3\""}},
      {R"({"type": "string", "minLength": 1, "maxLength": 2})",
       {"\"a\"", "\"éé\"", R"("\n\u0001")", "\"😀b\""},
       {"\"\"", "\"abc\"", R"("\u0041")"}},
      {R"({"type": "string", "pattern": "^[A-Z]{2}-\\d+$"})",
       {"\"AB-1\"", "\"AB-123\""},
       {"\"AB-\"", "\"aAB-1\"", "\"AB-1 \""}},
      {R"({"type": "string", "pattern": "b.?c"})",
       {"\"bc\"", "\"xxbyczz\"", R"("\"bc")"},
       {"\"b\"", "\"cb\""}},
      {R"({"type": "string", "pattern": "^a*$", "maxLength": 2})",
       {"\"\"", "\"a\"", "\"aa\""},
       {"\"aaa\"", "\"b\""}},
      {R"({"enum": ["a", "ab", 1, 12, null, {"x": [1, {}]}, []]})",
       {"\"a\"", "\"ab\"", "1", "12", "null", "{\"x\": [1, {}]}", "[]"},
       {"\"b\"", "2", "{}", "[1]"}},
      {R"({"type": "integer", "enum": [1, "a", 2.5]})", {"1"}, {"\"a\"", "2.5"}},
      {R"({"const": "x\"y"})", {R"("x\"y")"}, {"\"x\""}},
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
       {"[1]", "[1, 2]", "[1,2,3]", "[\n  1,\n  2\n]"},
       {"[]", "[1,]", "[1,2,3,4]", "[,1]"}},
      {R"({"type": "array", "prefixItems": [{"const": 1}, {"type": "null"}]})",
       {"[]", "[1]", "[1, null]"},
       {"[null]", "[1, null, 2]"}},
      {R"({"type": "array", "prefixItems": [{"const": 1}], "items": {"type": "null"},
           "minItems": 2})",
       {"[1, null]", "[1, null, null]"},
       {"[]", "[1]", "[1, 1]"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}},
           "required": ["a"]})",
       {"{\"a\": 1}", "{\"a\":1,\"b\":null}", "{ \"a\": 1 }"},
       {"{}", "{\"b\":null}", "{\"b\":null,\"a\":1}", "{\"a\":1,}", "{\"a\":1,\"c\":2}"}},
      {R"({"properties": {"a": true, "b": true, "c": true}, "required": ["b"]})",
       {"{\"b\":[{}]}", "{\"a\":1,\"b\":2}", "{\"b\":1,\"c\":2}", "{\"a\":1,\"b\":2,\"c\":3}"},
       {"{}", "{\"a\":1}", "{\"a\":1,\"c\":2}", "{\"c\":1,\"b\":2}"}},
      {R"({"properties": {"ab": {"const": 1}}, "additionalProperties": {"type": "null"}})",
       {"{}", "{\"ab\":1}", "{\"x\":null}", "{\"ab\":1,\"abc\":null,\"a\":null}", "{\"\":null}"},
       {"{\"ab\":null}", "{\"x\":1}", "{\"x\":null,\"ab\":1}", R"({"\u0061b":null})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1,
           "maxProperties": 2})",
       {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
       {"{}", "{\"a\":1,\"b\":2,\"c\":3}"}},
      {R"({"type": "object"})", {"{}", "{\"a\": [1, {\"b\": \"}\"}]}"}, {"[]", "{a:1}"}},
      {R"({})", {"[]", "1", "\"a\"", "[[[[]]]]", "{\"a\":null}"}, {"", "tru"}},
      {R"({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "null"}},
                     {"type": "array", "items": {"const": 1}}]})",
       {"3", "[]", "[null, null]", "[1, 1]"},
       {"[1, null]", "\"a\""}},
      {R"({"type": "object", "properties": {"k": {"type": "string"}}, "anyOf": [
           {"properties": {"k": {"const": "x"}, "v": {"type": "null"}}, "required": ["k"]},
           {"required": ["k"], "properties": {"k": {"const": "y"}}}]})",
       {"{\"k\":\"x\"}", "{\"k\":\"x\",\"v\":null}", "{\"k\":\"y\"}"},
       {"{\"k\":\"y\",\"v\":null}", "{}", "{\"k\":\"z\"}"}},
      {R"({"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"y": {"type": "null"}}}],
           "$defs": {"a": {"type": "object", "properties": {"x": {"type": "integer"}},
                           "required": ["x"]}}})",
       {"{\"x\":1}", "{\"x\":1,\"y\":null}"},
       {"{}", "{\"y\":null}"}},
      {R"({"$ref": "#/$defs/list", "$defs": {"list": {"anyOf": [{"type": "null"}, {"type": "object",
           "properties": {"next": {"$ref": "#/$defs/list"}}, "required": ["next"]}]}}})",
       {"null", "{\"next\":null}", "{\"next\":{\"next\":null}}"},
       {"{}", "{\"next\":1}"}},
      {R"({"type": "string", "nullable": true})", {"null", "\"a\""}, {"1"}},
      {R"({"type": "string", "format": "date"})",
       {"\"2024-02-29\"", "\"1999-12-31\""},
       {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"0000-01-01\"", "\"2024-1-1\""}},
      {R"({"type": "string", "format": "date-time"})",
       {"\"2024-02-29T23:59:59.5Z\"", "\"2024-01-01T00:00:00+01:30\""},
       {"\"2024-01-01\"", "\"2024-01-01T24:00:00Z\""}},
      {R"({"type": "string", "format": "uuid"})",
       {"\"123e4567-e89b-12d3-a456-426614174000\""},
       {"\"123e4567e89b12d3a456426614174000\""}},
      {R"({"type": "string", "format": "email"})",
       {"\"a.b+c@example.co.uk\""},
       {"\"a@b\"", "\"@b.co\""}},
      {R"({"type": "string", "format": "ipv4"})",
       {"\"255.0.10.99\""},
       {"\"256.1.1.1\"", "\"01.1.1.1\""}},
  };
  for (const Case& c : cases) expect(c, schema(c.source));
}

TEST(Grammar, WhitespaceIsBounded) {
  const char* source = R"({"type": "array", "items": {"type": "object", "properties": {"a": {}}}})";
  const std::string indent(kMostIndent, ' ');
  const Grammar flexible = schema(source), in_line = schema(source, Whitespace::in_line),
                compact = schema(source, Whitespace::compact);
  for (const char* text : {"[{\"a\": 1}, {}]", "[ {} ]", "[\n\t{\n}\n]"}) {
    EXPECT_TRUE(fits(flexible, text)) << text;
    EXPECT_FALSE(fits(compact, text)) << text;
    EXPECT_EQ(fits(in_line, text), std::string_view(text).find('\n') == std::string_view::npos);
  }
  EXPECT_TRUE(fits(compact, "[{\"a\":1},{}]"));
  EXPECT_TRUE(fits(flexible, "[\n" + indent + "{}]"));
  for (const std::string& text :
       {"[\n " + indent + "{}]", std::string("[  ]"), std::string("[{\"a\":  1}]"),
        std::string("[{\"a\" :1}]"), std::string("[{} ,{}]"), std::string("[\n\n]")})
    EXPECT_FALSE(fits(flexible, text) || fits(in_line, text)) << text;
}

/// What is likeliest is always white space: a weak model's text comes to its end all the same.
TEST(Grammar, WhitespaceAloneLeadsNowhere) {
  for (const auto& [whitespace, most] :
       {std::pair{Whitespace::flexible, 1 + kMostIndent}, {Whitespace::in_line, 1}}) {
    GrammarState state(std::make_shared<TokenMatcher>(
        schema(R"({"properties": {"a": {"items": {"type": "null"}, "maxItems": 2}},
                   "required": ["a"]})",
               whitespace),
        byte_tokens()));
    int run = 0, longest = 0, length = 0;
    for (; !state.can_end() && length < 1000; ++length) {
      const std::vector<uint64_t> mask = mask_of(state);
      int32_t next = ids_of(mask)[0];
      for (const int32_t white : {' ', '\t', '\n'})
        if (has(mask, white)) next = white;
      const bool is_white = next == ' ' || next == '\t' || next == '\n';
      run = is_white ? run + 1 : 0;
      longest = std::max(longest, run);
      ASSERT_TRUE(state.accept(next));
    }
    EXPECT_TRUE(state.can_end());
    EXPECT_EQ(longest, most);
  }
}

TEST(Grammar, ChoicesAndExpressionsByHand) {
  const std::vector<std::string> texts = {"yes", "yesterday", "no", "", "né"};
  const Grammar choices = Grammar::choices(texts);
  for (const std::string& text : texts) EXPECT_TRUE(fits(choices, text)) << text;
  for (const char* text : {"ye", "yess", "n", "nope"}) EXPECT_FALSE(fits(choices, text)) << text;
  const Case cases[] = {
      {"(a|b)*abb", {"abb", "aabb", "babbabb"}, {"", "ab", "abba"}},
      {"^x{2,3}$", {"xx", "xxx"}, {"x", "xxxx"}},
      {"[^a-c\\d]+?", {"d", "éx", "\n"}, {"", "a", "5"}},
      {"\\w+@\\w+\\.(com|org)", {"a_1@b.com"}, {"a@b.net", "é@b.com"}},
      {"a.c", {"abc", "a😀c"}, {"ac", "a\nc", "a\u2028c"}},
      {"(?:a(?<n>b)?)\\u00e9\\x41\\u{1F600}\\t", {"aéA😀\t", "abéA😀\t"}, {"aéA😀"}},
      {"", {""}, {"a"}},
      {"a^b|$|^c", {"", "c"}, {"ab", "b"}},
      {"[\\]\\-x-]", {"]", "-", "x"}, {"\\", "a"}},
      {"[]|a", {"a"}, {"", "]"}},
      {"\\ud83d\\ude00", {"😀"}, {}},
  };
  for (const Case& c : cases) expect(c, Grammar::regex(c.source));
}

TEST(Grammar, WhatIsNotSupportedIsRefusedByName) {
  const std::pair<const char*, const char*> schemas[] = {
      {R"({"not": {}})", "schema.json, #: 'not' is not supported"},
      {R"({"properties": {"a": {"if": true}}})", "schema.json, #/properties/a: 'if' is not"},
      {R"({"type": "text"})", "there is no type \"text\""},
      {R"({"type": "string", "format": "iri"})", "format 'iri' is not supported"},
      {R"~({"type": "string", "pattern": "(?=a)"})~", "look-ahead is not supported"},
      {R"({"type": "string", "maxLength": -1})", "'maxLength' must be a whole number"},
      {R"({"type": "array", "uniqueItems": true})", "'uniqueItems' is not supported"},
      {R"({"$ref": "other.json"})", "only '#' and '#/...' are"},
      {R"({"$ref": "#/$defs/none"})", "leads nowhere"},
      {R"({"$ref": "#"})", "refers to itself"},
      {R"({"anyOf": [{"$ref": "#"}]})", "or in a circle"},
      {R"({"enum": ["a"], "minLength": 3})", "'minLength' beside 'enum'"},
      {R"({"properties": {"a": {}}, "required": ["b"], "additionalProperties": false})",
       "names 'b'"},
      {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
       "no text fits"},
      {R"(false)", "no text fits"},
      {R"({"minimum": 3, "maximum": 2})", "no text fits"},
      {R"({"maxLength": 2, "minLength": 3})", "no text fits"},
      {R"({"type": "number", "minimum": 0.1234567890123456})", "too many digits"},
      {R"([])", "a schema must be an object"},
      {R"({"type": "string"})"
       "}",
       "schema.json is not JSON"},
      {R"({"type": "null", "type": "null"})", "names 'type' twice"},
      {R"({"properties": {"a": {}}, "maxProperties": 0})", "'maxProperties' beside"},
      {R"({"properties": {"a": {}, "b": {}}, "minProperties": 2})", "'minProperties' above 1"},
      {R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})", "two schemas with 'pattern'"},
      {R"({"anyOf": [{}], "oneOf": [{}]})", "'anyOf' beside 'oneOf'"},
  };
  for (const auto& [source, message] : schemas)
    EXPECT_THAT(message_of([&, given = source] { schema(given); }), HasSubstr(message)) << source;
  const std::pair<const char*, const char*> expressions[] = {
      {"a(?=b)", "byte 3: look-ahead"}, {"(?<!a)", "look-behind"}, {"(a)\\1", "back references"},
      {"\\bx", "word boundaries"},      {"\\p{L}", "\\p is not"},  {"a)", "')' without"},
      {"(a", "')' is missing"},         {"[a", "']' is missing"},  {"a{2", "'}' is missing"},
      {"a{3,2}", "out of order"},       {"*a", "without what"},    {"a**", "repetition of a rep"},
      {"[b-a]", "out of order"},        {"\\", "a backslash"},     {"^*", "nothing to repeat"},
      {"\\ud800", "surrogate"},         {"[\\d-z]", "a class at"}, {"a{20000}", "more than 10000"},
      {"(?i)a", "this kind of group"},  {"[]", "no text fits"},    {"a^", "no text fits"}};
  for (const auto& [source, message] : expressions)
    EXPECT_THAT(message_of([given = source] { Grammar::regex(given); }), HasSubstr(message))
        << source;
  EXPECT_THAT(message_of([] { Grammar::choices({}); }), HasSubstr("at least one"));
}

}  // namespace
}  // namespace megalith::grammars
