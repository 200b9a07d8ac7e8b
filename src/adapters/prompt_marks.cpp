// SPDX-License-Identifier: Apache-2.0
#include "adapters/prompt_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/integer.h"
#include "base/json_fault.h"
#include "base/json_number.h"

namespace megalith::adapters {
namespace {

constexpr char kSplitsKey[] = "virtual_token_splits";

std::vector<int32_t> ids_of(int64_t first, const std::vector<int64_t>& splits) {
  std::vector<int32_t> ids;
  for (const int64_t count : splits) {
    ids.push_back(narrow<int32_t>(first));
    first += count;
  }
  return ids;
}

// The vocabulary is an object of maybe 200 thousand keys. nlohmann's ordered objects are searched
// from the front for every key that is added, so it is parsed as a sorted one. The reader does not
// depend on the order of keys: tokens come with their ids, and added tokens and merges are lists.
text::Tokenizer with_marks(const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  auto json = nlohmann::json::parse(tokenizer.to_json());
  for (size_t mark = 0; mark < ids.size(); ++mark) {
    json["added_tokens"].push_back(
        {{"id", ids[mark]}, {"content", virtual_mark(mark)}, {"special", true}});
  }
  return text::Tokenizer::parse(json.dump(), "the tokenizer with marks of virtual tokens");
}

}  // namespace

std::string virtual_mark(size_t number) { return fmt::format("{}{}|>", kVirtualMark, number); }

std::string splits_json(const std::vector<int64_t>& splits) {
  return nlohmann::ordered_json{{kSplitsKey, splits}}.dump() + "\n";
}

std::vector<int64_t> parse_splits(std::string_view json, const std::string& where, int64_t tokens) {
  if (const auto fault = json_fault(json)) throw UserError("{}: {}", where, *fault);
  const auto parsed = nlohmann::json::parse(json);
  const auto refuse = [&] {
    throw UserError("{}: must be {{\"{}\": [...]}}, whole numbers from 1 whose sum is {}", where,
                    kSplitsKey, tokens);
  };
  if (!parsed.is_object() || parsed.size() != 1 || !parsed.contains(kSplitsKey)) refuse();
  const auto& list = parsed[kSplitsKey];
  if (!list.is_array() || list.empty() || std::cmp_greater(list.size(), tokens)) refuse();
  std::vector<int64_t> splits;
  for (const auto& item : list) {
    const auto count = whole_number_in(item);
    if (!count || *count < 1 || *count > tokens) refuse();
    splits.push_back(*count);
  }
  if (std::accumulate(splits.begin(), splits.end(), int64_t{0}) != tokens) refuse();
  return splits;
}

PromptMarks::PromptMarks(const text::Tokenizer& tokenizer, int64_t vocab,
                         std::vector<int64_t> splits)
    : vocab_(vocab),
      splits_(std::move(splits)),
      ids_(ids_of(vocab, splits_)),
      tokenizer_(with_marks(tokenizer, ids_)) {
  MEGA_CHECK(!splits_.empty());
}

void PromptMarks::refuse(int32_t id) const {
  const auto mark = std::ranges::find(ids_, id);
  if (mark == ids_.end()) {
    throw UserError("the text has a token {} that the model, which has {}, has not", id, vocab_);
  }
  throw UserError(
      "the text has a {} that is not its next mark; virtual tokens stand where it has the marks {} "
      "to {}, each once and in order",
      virtual_mark(static_cast<size_t>(mark - ids_.begin())), virtual_mark(0),
      virtual_mark(splits_.size() - 1));
}

void PromptMarks::expand(std::vector<int32_t>& ids, int64_t first_row,
                         std::vector<uint8_t>* flags) const {
  std::vector<int32_t> all;
  std::vector<uint8_t> all_flags;
  size_t next = 0;  // mark
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < vocab_) {
      all.push_back(ids[i]);
      if (flags != nullptr) all_flags.push_back((*flags)[i]);
      continue;
    }
    if (next == splits_.size() || ids[i] != ids_[next]) refuse(ids[i]);
    for (int64_t row = 0; row < splits_[next]; ++row)
      all.push_back(narrow<int32_t>(ids[i] + first_row + row));
    all_flags.resize(flags != nullptr ? all.size() : 0);
    ++next;
  }
  if (next < splits_.size()) {
    throw UserError("the text has no {}, where virtual tokens stand; it needs the marks {} to {}",
                    virtual_mark(next), virtual_mark(0), virtual_mark(splits_.size() - 1));
  }
  ids = std::move(all);
  if (flags != nullptr) *flags = std::move(all_flags);
}

void PromptMarks::check_rows(std::span<const int32_t> ids) const {
  int64_t next = 0;  // row
  bool fits = true;
  for (size_t i = 0; fits && i < ids.size(); ++i) {
    if (ids[i] < vocab_) continue;
    const bool begins = std::ranges::find(ids_, ids[i]) != ids_.end();
    fits = ids[i] == vocab_ + next && (begins || ids[i - 1] == ids[i] - 1);
    ++next;
  }
  if (fits && next == tokens()) return;
  throw UserError(
      "the ids must have those of the virtual tokens, {} to {}, each once and in order, and those "
      "in place of one mark side by side",
      vocab_, vocab_ + tokens() - 1);
}

}  // namespace megalith::adapters
