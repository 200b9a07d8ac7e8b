// SPDX-License-Identifier: Apache-2.0
// What a resume may change. The table in resume.cpp judges every recipe key once: it may change
// freely, only with the user's consent (`--allow key`), or never, because the saved state would not
// fit or would mean something else.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/recipe.h"

namespace megalith::config {

enum class OnResume {
  allowed,      // how long, where, how fast, what is shown
  by_content,   // a path: may change as long as the content is the same; else as needs_allow
  needs_allow,  // results are other ones from here on
  refused       // the saved state would not fit
};

struct ResumeRule {
  std::string_view key;  // as keys() gives it: "data.train[].path"
  OnResume judgement = OnResume::refused;
  std::string_view reason;  // of needs_allow and refused
};

/// One rule per key of a recipe, in the order of keys().
std::span<const ResumeRule> resume_rules();
/// The rule of a key, or of a path with numbers ("data.train.0.path").
const ResumeRule& resume_rule(std::string_view path);

/// UserError unless each of `allow` is a key, a section of a list ("data.train") or a path that
/// needs consent or may change freely; the message names the nearest known key, or says why the key
/// cannot be allowed.
void check_allow(std::span<const std::string> allow);

/// The changes that are against the rules, worded for a message ("optimizer.lr was 0.01, is 0.02:
/// ..."); empty if the resume may go on. The caller compares the contents of by_content keys.
std::string forbidden_changes(const std::vector<Difference>& changes,
                              std::span<const std::string> allow);

/// True when `allow` names the key.
bool is_allowed(std::string_view key, std::span<const std::string> allow);

}  // namespace megalith::config
