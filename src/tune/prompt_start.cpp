// SPDX-License-Identifier: Apache-2.0
#include "tune/prompt_start.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "layers/adapter.h"
#include "math/random.h"

namespace megalith::tune {
namespace {

constexpr int64_t kCommonTokens = 5000;
constexpr std::string_view kMark = "<|VIRTUAL_PROMPT_", kFirstMark = "<|VIRTUAL_PROMPT_0|>";

}  // namespace

std::vector<int32_t> first_tokens(const config::TuneSection& tune, const text::Tokenizer& tokenizer,
                                  int64_t vocab, uint64_t seed) {
  std::vector<int32_t> ids;
  if (tune.prompt_init == config::PromptInit::random) return ids;
  const auto count = static_cast<size_t>(tune.virtual_tokens);
  if (tune.prompt_init == config::PromptInit::text) {
    const std::vector<int32_t> text = tokenizer.encode(tune.prompt_text, true);
    if (text.empty()) throw UserError("recipe: tune.prompt_text has no tokens");
    if (const auto most = std::ranges::max_element(text); *most >= vocab) {
      throw UserError(
          "recipe: tune.prompt_text has token {}, and the model has {} tokens; the tokenizer and "
          "the model do not belong together",
          *most, vocab);
    }
    for (size_t i = 0; i < count; ++i) ids.push_back(text[i % text.size()]);
    return ids;
  }
  const uint64_t key = random_key(seed, "prompt rows");
  const auto common = static_cast<uint64_t>(std::min(vocab, kCommonTokens));
  for (size_t i = 0; i < count; ++i)
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

std::string without_virtual_mark(const std::string& text, bool has_them) {
  const size_t at = text.find(kMark);
  if (at == std::string::npos) return text;
  if (!has_them)
    throw UserError(
        "recipe: tune.template has {}...: virtual tokens are for tune.method: prompt or p_tuning",
        kMark);
  if (text == kFirstMark) throw UserError("recipe: tune.template has no text behind {}", text);
  std::string rest = text.starts_with(kFirstMark) ? text.substr(kFirstMark.size()) : text;
  if (rest.find(kMark) != std::string::npos) {
    throw UserError(
        "recipe: tune.template: virtual tokens stand before the text, {} at its beginning alone",
        kFirstMark);
  }
  return rest;
}

void refuse_virtual_mark(const std::string& chat_template, const std::string& file) {
  if (chat_template.find(kMark) == std::string::npos) return;
  throw UserError(
      "recipe: tune.template {}: has {}...: virtual tokens stand before the text without a mark in "
      "a chat template; take it out",
      file, kMark);
}

}  // namespace megalith::tune
