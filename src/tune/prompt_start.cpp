// SPDX-License-Identifier: Apache-2.0
#include "tune/prompt_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "adapters/prompt_marks.h"
#include "base/check.h"
#include "base/error.h"
#include "layers/adapter.h"
#include "math/random.h"

namespace megalith::tune {
namespace {

constexpr int64_t kCommonTokens = 5000;
constexpr std::string_view kMark = adapters::kVirtualMark;

/// Appends the tokens of a text, over and over, as many as a task has virtual tokens; `key`: of the
/// recipe, which gives the text.
void append_text(const std::string& text, const std::string& key, const config::TuneSection& tune,
                 const text::Tokenizer& tokenizer, int64_t vocab, std::vector<int32_t>& ids) {
  const std::vector<int32_t> tokens = tokenizer.encode(text, true);
  if (tokens.empty()) throw UserError("recipe: {} has no tokens", key);
  if (const auto most = std::ranges::max_element(tokens); *most >= vocab) {
    throw UserError(
        "recipe: {} has token {}, and the model has {} tokens; the tokenizer and the model do not "
        "belong together",
        key, *most, vocab);
  }
  const auto count = static_cast<size_t>(tune.virtual_tokens);
  for (size_t i = 0; i < count; ++i) ids.push_back(tokens[i % tokens.size()]);
}

}  // namespace

std::vector<int32_t> first_tokens(const config::TuneSection& tune, const text::Tokenizer& tokenizer,
                                  int64_t vocab, uint64_t seed) {
  std::vector<int32_t> ids;
  if (tune.prompt_init == config::PromptInit::random) return ids;
  if (tune.prompt_init == config::PromptInit::text) {
    const auto append = [&](const std::string& text, const std::string& key) {
      append_text(text, key, tune, tokenizer, vocab, ids);
    };
    if (tune.tasks.empty()) append(tune.prompt_text, "tune.prompt_text");
    for (size_t i = 0; i < tune.tasks.size(); ++i) {
      const std::string& own = tune.tasks[i].prompt_text;
      own.empty() ? append(tune.prompt_text, "tune.prompt_text")
                  : append(own, fmt::format("tune.tasks.{}.prompt_text", i));
    }
    return ids;
  }
  const uint64_t key = random_key(seed, "prompt rows");
  const auto common = static_cast<uint64_t>(std::min(vocab, kCommonTokens));
  for (int64_t i = 0; i < tune.num_virtual_rows(); ++i)
    ids.push_back(static_cast<int32_t>(random_key(key, static_cast<uint64_t>(i)) % common));
  return ids;
}

std::vector<float> rows_of_tokens(const store::ModelSource& model, std::span<const int32_t> ids) {
  const std::string name(layers::kTokenTableName);
  const store::StoredTensor* const table = model.weights().find(name);
  MEGA_CHECK(table != nullptr, "a model has no {}", name);
  // At once: some files give a part of a tensor by reading all of it.
  const std::vector<std::byte> all = model.weights().read(*table);
  const auto row_bytes = static_cast<size_t>(table->shape[1] * bytes_of(table->dtype));
  std::vector<std::byte> stored;
  for (const int32_t id : ids) {
    MEGA_CHECK(id >= 0 && id < table->shape[0], "row {} of {}", id, table->shape[0]);
    const auto row = std::span(all).subspan(static_cast<size_t>(id) * row_bytes, row_bytes);
    stored.insert(stored.end(), row.begin(), row.end());
  }
  const std::vector<std::byte> converted =
      store::convert_elements(name, std::move(stored), table->dtype, DType::f32);
  std::vector<float> rows(converted.size() / sizeof(float));
  std::memcpy(rows.data(), converted.data(), converted.size());
  const auto scale = static_cast<float>(model.spec().embedding.scale);
  for (float& value : rows) value *= scale;
  return rows;
}

std::string without_virtual_mark(const std::string& text, const std::string& key, bool has_them) {
  const size_t at = text.find(kMark);
  if (at == std::string::npos) return text;
  if (!has_them)
    throw UserError("recipe: {} has {}...: virtual tokens are for tune.method: prompt or p_tuning",
                    key, kMark);
  const std::string first = adapters::virtual_mark(0);
  if (text == first) throw UserError("recipe: {} has no text after {}", key, text);
  std::string rest = text.starts_with(first) ? text.substr(first.size()) : text;
  if (rest.find(kMark) != std::string::npos) {
    throw UserError(
        "recipe: {}: virtual tokens stand before the text, so {} stands at its beginning alone, "
        "unless tune.virtual_token_splits puts them inside it",
        key, first);
  }
  return rest;
}

void require_virtual_marks(const std::string& text, const std::string& key, size_t marks) {
  size_t next = text.find(kMark);
  for (size_t mark = 0; mark < marks; ++mark) {
    const std::string wanted = adapters::virtual_mark(mark);
    if (next == std::string::npos || text.compare(next, wanted.size(), wanted) != 0) {
      throw UserError(
          "recipe: {} has no {} where it is due: tune.virtual_token_splits has a number for each "
          "of "
          "{} marks, which stand in order",
          key, wanted, marks);
    }
    next = text.find(kMark, next + wanted.size());
  }
  if (next != std::string::npos)
    throw UserError("recipe: {} has more marks than tune.virtual_token_splits has numbers, {}", key,
                    marks);
}

void refuse_virtual_mark(const std::string& chat_template, const std::string& key,
                         const std::string& file) {
  if (chat_template.find(kMark) == std::string::npos) return;
  throw UserError(
      "recipe: {} {}: has {}...: with a chat template virtual tokens stand before the text, "
      "without "
      "a mark; take it out",
      key, file, kMark);
}

}  // namespace megalith::tune
