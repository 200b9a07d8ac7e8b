// SPDX-License-Identifier: Apache-2.0
#include "tokenize/regex.h"

#include <oniguruma.h>

#include <mutex>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "characters/utf8.h"

namespace megalith::tokenize {
namespace {

constexpr size_t kMostPatternBytes = 16384;
constexpr unsigned kMostDepth = 64;
constexpr unsigned long kMostSteps = 10'000'000;  // of one match, and of one search

const OnigUChar* bytes(const char* at) { return reinterpret_cast<const OnigUChar*>(at); }

std::string message_of(int code, OnigErrorInfo* info) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = onig_error_code_to_str(text, code, info);
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(length)};
}

void start_library() {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
    onig_set_parse_depth_limit(kMostDepth);
    onig_set_retry_limit_in_match(kMostSteps);
    onig_set_retry_limit_in_search(kMostSteps);
    onig_set_match_stack_limit_size(1'000'000);
    onig_set_subexp_call_max_nest_level(static_cast<int>(kMostDepth));
  });
}

void say_once(std::string_view pattern, std::string_view where) {
  constexpr size_t kMostRemembered = 1000;
  static std::mutex mutex;
  static std::set<std::string, std::less<>> said;
  const std::lock_guard lock(mutex);
  if (said.size() >= kMostRemembered || !said.emplace(pattern).second) return;
  log::info("{}: a pattern without a scanner of its own goes through Oniguruma {}, slower: {}",
            where, onig_version(), pattern.substr(0, 200));
}

}  // namespace

void Regex::Free::operator()(re_pattern_buffer* regex) const { onig_free(regex); }

Regex::Regex(std::string_view pattern, std::string_view where, Syntax syntax)
    : pattern_(pattern), syntax_(syntax) {
  if (pattern.size() > kMostPatternBytes)
    throw UserError("{}: a pattern of {} bytes; the most is {}", where, pattern.size(),
                    kMostPatternBytes);
  start_library();
  OnigRegex compiled = nullptr;
  OnigErrorInfo info{};
  const int code =
      onig_new(&compiled, bytes(pattern_.data()), bytes(pattern_.data() + pattern_.size()),
               ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
               syntax == Syntax::python ? ONIG_SYNTAX_PYTHON : ONIG_SYNTAX_DEFAULT, &info);
  compiled_.reset(compiled);
  if (code != ONIG_NORMAL)
    throw UserError("{}: the pattern \"{}\": {}", where, pattern.substr(0, 200),
                    message_of(code, &info));
  if (syntax == Syntax::oniguruma) say_once(pattern, where);
}

/// Calls take(region) for every match. An empty match just behind the match before is none (to
/// Python it is one if that is not empty): the search goes on a character further.
template <typename Take>
void Regex::search(std::string_view text, const Take& take) const {
  const std::unique_ptr<OnigRegion, void (*)(OnigRegion*)> region(
      onig_region_new(), [](OnigRegion* r) { onig_region_free(r, 1); });
  const OnigUChar* const begin = bytes(text.data());
  const OnigUChar* const end = begin + text.size();
  size_t done = 0;  // where the last match ended
  bool has_last = false, was_empty = false;
  for (size_t from = 0; from <= text.size();) {
    onig_region_clear(region.get());
    const int found =
        onig_search(compiled_.get(), begin, end, begin + from, end, region.get(), ONIG_OPTION_NONE);
    if (found == ONIG_MISMATCH) break;
    if (found < 0)
      throw UserError("the pattern \"{}\" at byte {}: {}", pattern_.substr(0, 200), from,
                      message_of(found, nullptr));
    const size_t match_begin = static_cast<size_t>(region->beg[0]);
    const size_t match_end = static_cast<size_t>(region->end[0]);
    const bool refuses = syntax_ != Syntax::python || was_empty;
    if (match_begin == match_end && has_last && match_end == done && refuses) {
      from += from < text.size() ? characters::read_utf8(text.data() + from).length : 1;
      continue;
    }
    take(*region);
    done = from = match_end;
    has_last = true;
    was_empty = match_begin == match_end;
  }
}

void Regex::find(std::string_view text, std::vector<Match>& matches) const {
  size_t done = 0;  // matches cover [0, done)
  search(text, [&](const OnigRegion& region) {
    const auto begin = static_cast<size_t>(region.beg[0]), end = static_cast<size_t>(region.end[0]);
    if (done < begin) matches.push_back({done, begin, false});
    matches.push_back({begin, end, true});
    done = end;
  });
  if (done < text.size()) matches.push_back({done, text.size(), false});
}

std::vector<std::vector<std::string_view>> Regex::groups(std::string_view text) const {
  std::vector<std::vector<std::string_view>> found;
  search(text, [&](const OnigRegion& region) {
    std::vector<std::string_view>& groups = found.emplace_back();
    for (int i = 0; i < region.num_regs; ++i) {
      const bool took_part = region.beg[i] >= 0;
      groups.push_back(took_part ? text.substr(static_cast<size_t>(region.beg[i]),
                                               static_cast<size_t>(region.end[i] - region.beg[i]))
                                 : std::string_view());
    }
  });
  return found;
}

void Regex::append_replaced(std::string_view text, std::string_view to, std::string& out) const {
  std::vector<Match> matches;
  find(text, matches);
  for (const Match& match : matches)
    out.append(match.is_match ? to : text.substr(match.begin, match.end - match.begin));
}

}  // namespace megalith::tokenize
