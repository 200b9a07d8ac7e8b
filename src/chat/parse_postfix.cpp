// SPDX-License-Identifier: Apache-2.0
// What stands behind a value: attributes, items, calls, filters and tests; and what can be assigned
// to.
#include "chat/parser.h"

namespace megalith::chat {

ExpressionPtr ExpressionParser::postfix(ExpressionPtr expression) {
  while (true) {
    if (stream_.is_sign(".") || stream_.is_sign("[")) {
      expression = subscript(std::move(expression));
    } else if (stream_.is_sign("(")) {
      ExpressionPtr made = make(ExpressionKind::call, stream_.now().at);
      made->operands.push_back(std::move(expression));
      arguments(*made);
      expression = finish(std::move(made));
    } else {
      return expression;
    }
  }
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr expression) {
  while (true) {
    if (stream_.is_sign("|")) {
      expression = filters(std::move(expression));
    } else if (stream_.is_name("is")) {
      expression = test(std::move(expression));
    } else if (stream_.is_sign("(")) {
      expression = postfix(std::move(expression));
    } else {
      return expression;
    }
  }
}

std::string ExpressionParser::dotted_name() {
  std::string name = stream_.expect(TokenKind::name, "a name").text;
  while (stream_.skip_sign(".")) name += "." + stream_.expect(TokenKind::name, "a name").text;
  return name;
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr input, bool first_has_no_bar) {
  while (first_has_no_bar || stream_.is_sign("|")) {
    if (!first_has_no_bar) stream_.next();
    first_has_no_bar = false;
    ExpressionPtr made = make(ExpressionKind::filter, stream_.now().at);
    made->text = dotted_name();
    made->operands.push_back(std::move(input));
    if (stream_.is_sign("(")) arguments(*made);
    input = finish(std::move(made));
  }
  return input;
}

// `is odd`, `is divisibleby 3`, `is not in [...]`: an argument needs no brackets.
ExpressionPtr ExpressionParser::test(ExpressionPtr subject) {
  stream_.next();
  const bool is_negated = stream_.is_name("not");
  const uint32_t at = stream_.now().at;
  if (is_negated) stream_.next();
  ExpressionPtr made = make(ExpressionKind::test, stream_.now().at);
  made->text = dotted_name();
  made->operands.push_back(std::move(subject));
  const bool begins_value =
      stream_.is(TokenKind::name)
          ? !stream_.is_name("else") && !stream_.is_name("or") && !stream_.is_name("and")
          : stream_.is(TokenKind::text) || stream_.is(TokenKind::whole) ||
                stream_.is(TokenKind::real) || stream_.is_sign("[") || stream_.is_sign("{");
  if (stream_.is_sign("(")) {
    arguments(*made);
  } else if (begins_value) {
    if (stream_.is_name("is"))
      throw SyntaxFault(stream_.now().at, "tests cannot follow one another");
    made->positional.push_back(postfix(primary()));
  }
  made = finish(std::move(made));
  if (!is_negated) return made;
  ExpressionPtr negated = make(ExpressionKind::negation, at);
  negated->operands.push_back(std::move(made));
  return finish(std::move(negated));
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  const uint32_t at = stream_.now().at;
  if (stream_.skip_sign(".")) {
    if (stream_.is(TokenKind::whole)) {
      ExpressionPtr index = literal();
      return pair(ExpressionKind::item, at, "", std::move(object), std::move(index));
    }
    ExpressionPtr made = make(ExpressionKind::attribute, at);
    made->text = stream_.expect(TokenKind::name, "a name").text;
    made->operands.push_back(std::move(object));
    return finish(std::move(made));
  }
  stream_.expect_sign("[");
  std::vector<ExpressionPtr> parts;
  size_t colons = 0;
  while (true) {
    parts.push_back(stream_.is_sign(":") || stream_.is_sign("]") ? nullptr : expression());
    if (!stream_.skip_sign(":")) break;
    ++colons;
  }
  if (colons == 0 && (!parts[0] || stream_.is_sign(","))) {  // x[1, 2]: the key is a tuple
    ExpressionPtr key = make(ExpressionKind::tuple, at);
    if (parts[0]) key->operands.push_back(std::move(parts[0]));
    while (stream_.skip_sign(",") && !stream_.is_sign("]")) key->operands.push_back(expression());
    parts[0] = finish(std::move(key));
  }
  stream_.expect_sign("]");
  if (colons > 2) throw SyntaxFault(at, "a slice of more than three parts in [...]");
  if (colons == 0)
    return pair(ExpressionKind::item, at, "", std::move(object), std::move(parts[0]));
  parts.resize(3);
  ExpressionPtr made = make(ExpressionKind::slice, at);
  made->operands.push_back(std::move(object));
  for (ExpressionPtr& part : parts) made->operands.push_back(std::move(part));
  return finish(std::move(made));
}

void ExpressionParser::arguments(Expression& call) {
  stream_.expect_sign("(");
  bool is_first = true;
  while (!stream_.is_sign(")")) {
    if (!is_first) stream_.expect_sign(",");
    is_first = false;
    if (stream_.is_sign(")")) break;
    const uint32_t at = stream_.now().at;
    if (stream_.is_sign("*") || stream_.is_sign("**"))
      throw SyntaxFault(at, "arguments from a list or dict ({}) are not supported",
                        stream_.now().text);
    if (stream_.is(TokenKind::name) && stream_.after().kind == TokenKind::sign &&
        stream_.after().text == "=") {
      std::string name = stream_.next().text;
      stream_.next();
      call.keywords.emplace_back(std::move(name), expression());
      if (call.keywords.size() > kMostNamed)
        throw SyntaxFault(at, "a call with more than {} named arguments", kMostNamed);
    } else {
      if (!call.keywords.empty())
        throw SyntaxFault(at, "an argument without a name behind one with a name");
      call.positional.push_back(expression());
    }
  }
  stream_.expect_sign(")");
}

Target ExpressionParser::simple_target(bool with_attributes) {
  const TokenStream::Level level(stream_);
  if (stream_.skip_sign("(")) {
    Target inner = target(with_attributes);
    stream_.expect_sign(")");
    return inner;
  }
  Target made;
  const Token& token = stream_.expect(TokenKind::name, "a name to assign to");
  made.at = token.at;
  made.name = token.text;
  for (const char* constant : {"true", "false", "none", "True", "False", "None"})
    if (made.name == constant) throw SyntaxFault(made.at, "{} cannot be assigned to", constant);
  if (with_attributes && stream_.skip_sign("."))
    made.attribute = stream_.expect(TokenKind::name, "a name").text;
  return made;
}

Target ExpressionParser::target(bool with_attributes) {
  Target first = simple_target(with_attributes);
  if (!stream_.is_sign(",")) return first;
  Target made;
  made.at = first.at;
  made.is_tuple = true;
  made.parts.push_back(std::move(first));
  while (stream_.skip_sign(",")) {
    if (!stream_.is(TokenKind::name) && !stream_.is_sign("(")) break;
    made.parts.push_back(simple_target(with_attributes));
  }
  return made;
}

}  // namespace megalith::chat
