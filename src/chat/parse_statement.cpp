// SPDX-License-Identifier: Apache-2.0
// Statements: what stands in {% ... %} and what they enclose.
#include <algorithm>
#include <array>
#include <initializer_list>

#include "chat/parser.h"
#include "chat/scope_names.h"

namespace megalith::chat {
namespace {

using Ends = std::initializer_list<std::string_view>;

class StatementParser {
 public:
  explicit StatementParser(TokenStream& stream) : stream_(stream), expressions_(stream) {}

  /// Statements up to a block that begins with one of `ends` (left to the caller), or to the end of
  /// the template if there are none.
  Block block(Ends ends) {
    const TokenStream::Level level(stream_);
    Block statements;
    while (!stream_.is(TokenKind::end)) {
      if (stream_.is(TokenKind::data)) {
        auto made = make(StatementKind::data);
        made->text = stream_.next().text;
        statements.push_back(std::move(made));
      } else if (stream_.is(TokenKind::print_begin)) {
        stream_.next();
        auto made = make(StatementKind::print);
        made->value = expressions_.tuple(true);
        stream_.expect(TokenKind::print_end, "'}}'");
        statements.push_back(std::move(made));
      } else {
        stream_.expect(TokenKind::block_begin, "'{%'");
        const bool ended = std::any_of(ends.begin(), ends.end(),
                                       [&](std::string_view end) { return stream_.is_name(end); });
        if (ended) return statements;
        statements.push_back(statement());
        stream_.expect(TokenKind::block_end, "'%}'");
      }
    }
    if (ends.size() > 0)
      throw SyntaxFault(stream_.now().at, "the template ends before {{% {} %}}", *(ends.end() - 1));
    return statements;
  }

 private:
  using Maker = std::unique_ptr<Statement> (StatementParser::*)();

  std::unique_ptr<Statement> make(StatementKind kind) const {
    auto made = std::make_unique<Statement>();
    made->kind = kind;
    made->at = stream_.now().at;
    return made;
  }

  std::unique_ptr<Statement> statement() {
    static constexpr std::array<std::pair<std::string_view, Maker>, 10> kMakers = {{
        {"if", &StatementParser::condition},
        {"for", &StatementParser::loop},
        {"set", &StatementParser::set},
        {"macro", &StatementParser::macro},
        {"call", &StatementParser::call},
        {"filter", &StatementParser::filter},
        {"with", &StatementParser::with},
        {"generation", &StatementParser::generation},
        {"break", &StatementParser::leave},
        {"continue", &StatementParser::next_round},
    }};
    const Token& token = stream_.expect(TokenKind::name, "the name of a statement");
    for (const auto& [name, maker] : kMakers)
      if (token.text == name) return (this->*maker)();
    for (const std::string_view refused :
         {"include", "import", "from", "extends", "block", "autoescape", "print", "do", "trans"})
      if (token.text == refused)
        throw SyntaxFault(token.at, "the statement '{}' is not supported", refused);
    throw SyntaxFault(token.at, "there is no statement '{}', or none is open that it could end",
                      token.text.substr(0, 60));
  }

  void close() { stream_.expect(TokenKind::block_end, "'%}'"); }

  /// The statements up to the block of this name, whose name is taken.
  Block body(std::string_view end) {
    stream_.skip_sign(":");
    close();
    Block statements = block({end});
    stream_.next();
    return statements;
  }

  std::unique_ptr<Statement> condition() {
    auto made = make(StatementKind::condition);
    do {
      ExpressionPtr test = expressions_.tuple(false);
      stream_.skip_sign(":");
      close();
      Block statements = block({"elif", "else", "endif"});
      made->branches.emplace_back(std::move(test), std::move(statements));
    } while (stream_.skip_name("elif"));
    if (stream_.next().text == "else") made->otherwise = body("endif");
    return made;
  }

  std::unique_ptr<Statement> loop() {
    auto made = make(StatementKind::loop);
    made->target = expressions_.target(false);
    stream_.expect_name("in");
    made->value = expressions_.tuple(false);  // `if` behind it begins the filter
    if (stream_.skip_name("if")) made->test = expressions_.expression();
    if (stream_.is_name("recursive"))
      throw SyntaxFault(stream_.now().at, "loops that are 'recursive' are not supported");
    stream_.skip_sign(":");
    close();
    ++loops_;
    made->body = block({"else", "endfor"});
    --loops_;
    if (stream_.next().text == "else") made->otherwise = body("endfor");
    return made;
  }

  std::unique_ptr<Statement> set() {
    auto made = make(StatementKind::set);
    made->target = expressions_.target(true);
    if (stream_.skip_sign("=")) {
      made->value = expressions_.tuple(true);
      return made;
    }
    made->kind = StatementKind::set_block;
    made->value = expressions_.filters(nullptr);
    made->body = body("endset");
    return made;
  }

  void signature(MacroTree& macro) {
    stream_.expect_sign("(");
    while (!stream_.is_sign(")")) {
      if (!macro.parameters.empty()) stream_.expect_sign(",");
      macro.parameters.push_back(stream_.expect(TokenKind::name, "a parameter").text);
      if (macro.parameters.size() > kMostNamed)
        throw SyntaxFault(stream_.now().at, "a macro with more than {} parameters", kMostNamed);
      if (stream_.skip_sign("=")) {
        macro.defaults.push_back(expressions_.expression());
      } else if (!macro.defaults.empty()) {
        throw SyntaxFault(stream_.now().at, "a parameter without a default behind one with it");
      }
    }
    stream_.expect_sign(")");
  }

  /// A body that runs as a function of its own: `break` cannot leave it.
  void macro_body(MacroTree& macro, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    MacroTree* const outer = std::exchange(expressions_.macro, &macro);
    macro.body = body(end);
    expressions_.macro = outer;
    loops_ = loops;
  }

  std::unique_ptr<Statement> macro() {
    auto made = make(StatementKind::macro);
    made->macro.name = stream_.expect(TokenKind::name, "the macro's name").text;
    made->text = made->macro.name;
    signature(made->macro);
    macro_body(made->macro, "endmacro");
    return made;
  }

  std::unique_ptr<Statement> call() {
    auto made = make(StatementKind::call);
    made->macro.name = "caller";
    if (stream_.is_sign("(")) signature(made->macro);
    made->value = expressions_.expression();
    if (made->value->kind != ExpressionKind::call)
      throw SyntaxFault(made->value->at, "expected a call behind 'call'");
    macro_body(made->macro, "endcall");
    return made;
  }

  std::unique_ptr<Statement> filter() {
    auto made = make(StatementKind::filter);
    made->value = expressions_.filters(nullptr, true);
    made->body = body("endfilter");
    return made;
  }

  std::unique_ptr<Statement> with() {
    auto made = make(StatementKind::with);
    while (!stream_.is(TokenKind::block_end)) {
      if (!made->pairs.empty()) stream_.expect_sign(",");
      Target target = expressions_.target(false);
      stream_.expect_sign("=");
      made->pairs.emplace_back(std::move(target), expressions_.expression());
    }
    made->body = body("endwith");
    return made;
  }

  std::unique_ptr<Statement> generation() {
    auto made = make(StatementKind::generation);
    const int loops = std::exchange(loops_, 0);
    made->body = body("endgeneration");
    loops_ = loops;
    return made;
  }

  std::unique_ptr<Statement> jump(StatementKind kind, std::string_view name) const {
    if (loops_ == 0) throw SyntaxFault(stream_.now().at, "'{}' outside of a loop", name);
    return make(kind);
  }
  std::unique_ptr<Statement> leave() { return jump(StatementKind::break_, "break"); }
  std::unique_ptr<Statement> next_round() { return jump(StatementKind::continue_, "continue"); }

  TokenStream& stream_;
  ExpressionParser expressions_;
  int loops_ = 0;  // that are open
};

}  // namespace

TemplateTree parse_template(std::string_view source, const Limits& limits, bool trims_blocks) {
  TokenStream stream(source, limits, trims_blocks);
  TemplateTree tree{StatementParser(stream).block({}), {}};
  find_unset_names(tree);
  return tree;
}

}  // namespace megalith::chat
