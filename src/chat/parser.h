// SPDX-License-Identifier: Apache-2.0
// Jinja's grammar by recursive descent. Private to the two sources of the parser.
#pragma once

#include <algorithm>

#include "chat/token.h"
#include "chat/tree.h"

namespace megalith::chat {

/// Named arguments of a call, and parameters of a macro: they are compared with each other.
inline constexpr size_t kMostNamed = 255;

/// The tokens with a place in them, and the levels that are open.
class TokenStream {
 public:
  TokenStream(std::string_view source, const Limits& limits, bool trims_blocks)
      : limits_(limits), tokens_(tokenize(source, trims_blocks)) {}

  const Token& now() const { return tokens_[place_]; }
  const Token& after() const { return tokens_[std::min(place_ + 1, tokens_.size() - 1)]; }
  const Token& next() {
    const Token& token = now();
    if (place_ + 1 < tokens_.size()) ++place_;
    return token;
  }
  bool is(TokenKind kind) const { return now().kind == kind; }
  bool is_sign(std::string_view text) const { return is(TokenKind::sign) && now().text == text; }
  bool is_name(std::string_view text) const { return is(TokenKind::name) && now().text == text; }
  bool skip_sign(std::string_view text) { return is_sign(text) && (next(), true); }
  bool skip_name(std::string_view text) { return is_name(text) && (next(), true); }
  const Token& expect(TokenKind kind, std::string_view what) {
    if (!is(kind)) fail_expected(what);
    return next();
  }
  void expect_sign(std::string_view text) {
    if (!skip_sign(text)) fail_expected(text);
  }
  void expect_name(std::string_view text) {
    if (!skip_name(text)) fail_expected(text);
  }
  [[noreturn]] void fail_expected(std::string_view what) const {
    throw SyntaxFault(now().at, "expected {}, not {}", what, describe(now()));
  }
  void require_depth(size_t depth, uint32_t at) const {
    if (depth > limits_.nesting)
      throw SyntaxFault(at, "the template is nested deeper than {} levels", limits_.nesting);
  }

  /// One more level of the grammar as long as it lives.
  class Level {
   public:
    explicit Level(TokenStream& stream) : stream_(stream) {
      stream_.require_depth(++stream_.levels_, stream_.now().at);
    }
    ~Level() { --stream_.levels_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TokenStream& stream_;
  };

 private:
  Limits limits_;
  std::vector<Token> tokens_;
  size_t place_ = 0;
  size_t levels_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  /// With conditionals: `a if b else c`.
  ExpressionPtr expression();
  /// Without.
  ExpressionPtr either();
  /// An expression, or a tuple of several with commas and no brackets.
  ExpressionPtr tuple(bool with_conditional, bool in_brackets = false);
  /// `| name(arguments)`..., on `input`, which is null for blocks.
  ExpressionPtr filters(ExpressionPtr input, bool first_has_no_bar = false);
  Target target(bool with_attributes);

  /// What the macro that is being read names of `varargs`, `kwargs` and `caller`.
  MacroTree* macro = nullptr;

 private:
  ExpressionPtr make(ExpressionKind kind, uint32_t at, std::string text = "");
  ExpressionPtr finish(ExpressionPtr expression);
  ExpressionPtr pair(ExpressionKind kind, uint32_t at, std::string text, ExpressionPtr left,
                     ExpressionPtr right);
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr compare();
  ExpressionPtr sum();
  ExpressionPtr concat();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr name();
  ExpressionPtr literal();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr expression);
  ExpressionPtr filters_and_tests(ExpressionPtr expression);
  ExpressionPtr subscript(ExpressionPtr object);
  ExpressionPtr test(ExpressionPtr subject);
  void arguments(Expression& call);
  Target simple_target(bool with_attributes);
  std::string dotted_name();

  TokenStream& stream_;
};

}  // namespace megalith::chat
