// SPDX-License-Identifier: Apache-2.0
// Expressions, weakest operator first. As in Jinja `~` binds stronger than `+`, and a filter
// stronger than any operator.
#include <algorithm>
#include <array>

#include "chat/parser.h"

namespace megalith::chat {

ExpressionPtr ExpressionParser::make(ExpressionKind kind, uint32_t at, std::string text) {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->at = at;
  made->text = std::move(text);
  return made;
}

/// Counts the levels, which bounds every later walk: `a+a+a+...` is as deep as it is long.
ExpressionPtr ExpressionParser::finish(ExpressionPtr expression) {
  size_t below = 0;
  const auto count = [&](const ExpressionPtr& child) {
    if (child) below = std::max(below, child->depth);
  };
  for (const auto& operand : expression->operands) count(operand);
  for (const auto& argument : expression->positional) count(argument);
  for (const auto& [key, argument] : expression->keywords) count(argument);
  expression->depth = below + 1;
  stream_.require_depth(expression->depth, expression->at);
  return expression;
}

ExpressionPtr ExpressionParser::pair(ExpressionKind kind, uint32_t at, std::string text,
                                     ExpressionPtr left, ExpressionPtr right) {
  ExpressionPtr made = make(kind, at, std::move(text));
  made->operands.push_back(std::move(left));
  made->operands.push_back(std::move(right));
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::expression() {
  const TokenStream::Level level(stream_);
  ExpressionPtr value = either();
  while (stream_.is_name("if")) {
    ExpressionPtr made = make(ExpressionKind::conditional, stream_.next().at);
    made->operands.push_back(std::move(value));
    made->operands.push_back(either());
    if (stream_.skip_name("else")) made->operands.push_back(expression());
    value = finish(std::move(made));
  }
  return value;
}

ExpressionPtr ExpressionParser::either() {
  ExpressionPtr left = both();
  while (stream_.is_name("or")) {
    const uint32_t at = stream_.next().at;
    left = pair(ExpressionKind::either, at, "", std::move(left), both());
  }
  return left;
}

ExpressionPtr ExpressionParser::both() {
  ExpressionPtr left = negation();
  while (stream_.is_name("and")) {
    const uint32_t at = stream_.next().at;
    left = pair(ExpressionKind::both, at, "", std::move(left), negation());
  }
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  if (!stream_.is_name("not")) return compare();
  const TokenStream::Level level(stream_);
  ExpressionPtr made = make(ExpressionKind::negation, stream_.next().at);
  made->operands.push_back(negation());
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::compare() {
  static constexpr std::array<std::string_view, 6> kSigns = {"==", "!=", "<", "<=", ">", ">="};
  ExpressionPtr made = make(ExpressionKind::compare, stream_.now().at);
  made->operands.push_back(sum());
  while (true) {
    if (stream_.is(TokenKind::sign) &&
        std::find(kSigns.begin(), kSigns.end(), stream_.now().text) != kSigns.end()) {
      made->signs.push_back(stream_.next().text);
    } else if (stream_.skip_name("in")) {
      made->signs.emplace_back("in");
    } else if (stream_.is_name("not") && stream_.after().kind == TokenKind::name &&
               stream_.after().text == "in") {
      stream_.next();
      stream_.next();
      made->signs.emplace_back("not in");
    } else {
      break;
    }
    made->operands.push_back(sum());
  }
  if (made->signs.empty()) return std::move(made->operands[0]);
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concat();
  while (stream_.is_sign("+") || stream_.is_sign("-")) {
    const Token& sign = stream_.next();
    left = pair(ExpressionKind::arithmetic, sign.at, sign.text, std::move(left), concat());
  }
  return left;
}

ExpressionPtr ExpressionParser::concat() {
  ExpressionPtr first = product();
  if (!stream_.is_sign("~")) return first;
  ExpressionPtr made = make(ExpressionKind::concat, stream_.now().at);
  made->operands.push_back(std::move(first));
  while (stream_.skip_sign("~")) made->operands.push_back(product());
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (stream_.is_sign("*") || stream_.is_sign("/") || stream_.is_sign("//") ||
         stream_.is_sign("%")) {
    const Token& sign = stream_.next();
    left = pair(ExpressionKind::arithmetic, sign.at, sign.text, std::move(left), power());
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary(true);
  while (stream_.is_sign("**")) {
    const Token& sign = stream_.next();
    left = pair(ExpressionKind::arithmetic, sign.at, sign.text, std::move(left), unary(true));
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const TokenStream::Level level(stream_);
  ExpressionPtr made;
  if (stream_.is_sign("-") || stream_.is_sign("+")) {
    const Token& sign = stream_.next();
    made = make(ExpressionKind::sign, sign.at, sign.text);
    made->operands.push_back(unary(false));
    made = finish(std::move(made));
  } else {
    made = primary();
  }
  made = postfix(std::move(made));
  return with_filters ? filters_and_tests(std::move(made)) : std::move(made);
}

ExpressionPtr ExpressionParser::primary() {
  const uint32_t at = stream_.now().at;
  if (stream_.is(TokenKind::name)) return name();
  if (stream_.is(TokenKind::text) || stream_.is(TokenKind::whole) || stream_.is(TokenKind::real))
    return literal();
  if (stream_.skip_sign("(")) {
    ExpressionPtr inner = tuple(true, true);
    stream_.expect_sign(")");
    return inner;
  }
  if (stream_.is_sign("[")) return list();
  if (stream_.is_sign("{")) return dict();
  throw SyntaxFault(at, "expected a value, not {}", describe(stream_.now()));
}

ExpressionPtr ExpressionParser::name() {
  const Token& token = stream_.next();
  ExpressionPtr made = make(ExpressionKind::literal, token.at);
  if (token.text == "true" || token.text == "True") {
    made->value = Value::boolean(true);
  } else if (token.text == "false" || token.text == "False") {
    made->value = Value::boolean(false);
  } else if (token.text != "none" && token.text != "None") {
    made->kind = ExpressionKind::name;
    made->text = token.text;
    if (macro) {
      macro->takes_more |= token.text == "varargs";
      macro->takes_keywords |= token.text == "kwargs";
      macro->takes_caller |= token.text == "caller";
    }
  }
  return made;
}

ExpressionPtr ExpressionParser::literal() {
  ExpressionPtr made = make(ExpressionKind::literal, stream_.now().at);
  if (stream_.is(TokenKind::whole)) {
    made->value = Value::integer(stream_.next().whole);
  } else if (stream_.is(TokenKind::real)) {
    made->value = Value::real(stream_.next().real);
  } else {  // literals that follow one another are one
    std::string text;
    while (stream_.is(TokenKind::text)) text += stream_.next().text;
    made->value = Value(Value::Held(Text{std::make_shared<const std::string>(std::move(text))}));
  }
  return made;
}

ExpressionPtr ExpressionParser::tuple(bool with_conditional, bool in_brackets) {
  ExpressionPtr made = make(ExpressionKind::tuple, stream_.now().at);
  bool has_comma = false;
  const auto ends = [&] {
    return stream_.is(TokenKind::print_end) || stream_.is(TokenKind::block_end) ||
           stream_.is_sign(")");
  };
  while (!ends()) {
    made->operands.push_back(with_conditional ? expression() : either());
    if (!stream_.skip_sign(",")) break;
    has_comma = true;
  }
  if (has_comma) return finish(std::move(made));
  if (!made->operands.empty()) return std::move(made->operands[0]);
  if (!in_brackets) stream_.fail_expected("an expression");
  return made;
}

ExpressionPtr ExpressionParser::list() {
  ExpressionPtr made = make(ExpressionKind::list, stream_.next().at);
  while (!stream_.is_sign("]")) {
    if (!made->operands.empty()) stream_.expect_sign(",");
    if (stream_.is_sign("]")) break;
    made->operands.push_back(expression());
  }
  stream_.expect_sign("]");
  return finish(std::move(made));
}

ExpressionPtr ExpressionParser::dict() {
  ExpressionPtr made = make(ExpressionKind::dict, stream_.next().at);
  while (!stream_.is_sign("}")) {
    if (!made->operands.empty()) stream_.expect_sign(",");
    if (stream_.is_sign("}")) break;
    made->operands.push_back(expression());
    stream_.expect_sign(":");
    made->operands.push_back(expression());
  }
  stream_.expect_sign("}");
  return finish(std::move(made));
}

}  // namespace megalith::chat
