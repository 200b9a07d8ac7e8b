// SPDX-License-Identifier: Apache-2.0
// What a text is held to, as options say it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "generate/continuation.h"
#include "generate/token_constraint.h"
#include "grammars/token_matcher.h"

namespace megalith::apps {

/// What options and their files ask for; at most one form.
struct GrammarSource {
  std::optional<std::string> schema, regex;
  std::string name;  // of the file or option that it comes from
  std::vector<std::string> choices;
  bool json_object = false;
  bool compact = false;

  /// The grammar with the tokens of a tokenizer; null if there is no form. UserError.
  std::shared_ptr<grammars::TokenMatcher> matcher(const text::Tokenizer& tokenizer) const;
  /// The UserError of a text that ended because no token could come next. `before`: as for
  /// constraint_of.
  [[noreturn]] void fail_stuck(const std::shared_ptr<grammars::TokenMatcher>& matcher,
                               std::string_view before, const generate::Generated& written) const;
  /// All that it depends on.
  std::string text() const;
};

struct GrammarOptions {
  GrammarSource source;  // without what is in files
  std::optional<std::string> schema, choices;
  void declare(CLI::App& command);
  /// UserError.
  GrammarSource read() const;
};

/// The constraint of one text; null without a matcher. `before`: the text that it goes on from.
std::unique_ptr<generate::TokenConstraint> constraint_of(
    const std::shared_ptr<grammars::TokenMatcher>& matcher, std::string_view before);

}  // namespace megalith::apps
