// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/gguf_keys.h"

#include <fmt/format.h>

#include "base/error.h"

namespace megalith::vocabularies {

void GgufKeys::refuse(std::string_view key, std::string_view wanted) const {
  const gguf::Value* const value = find(key);
  throw UserError("{}: tokenizer.ggml.{} must be {}, {}", where_, key, wanted,
                  value == nullptr ? std::string("and is missing") : "not " + value->kind());
}

const gguf::Value* GgufKeys::find(std::string_view key) const {
  const auto found = metadata_.find(fmt::format("tokenizer.ggml.{}", key));
  return found == metadata_.end() ? nullptr : &found->second;
}

std::string GgufKeys::text(std::string_view key) const {
  const gguf::Value* const value = find(key);
  const auto text = value != nullptr ? value->text() : std::nullopt;
  if (!text) refuse(key, "a text");
  return *text;
}

std::string GgufKeys::text(std::string_view key, std::string_view absent) const {
  return find(key) != nullptr ? text(key) : std::string(absent);
}

bool GgufKeys::boolean(std::string_view key, bool absent) const {
  const gguf::Value* const value = find(key);
  if (value == nullptr) return absent;
  const auto boolean = value->boolean();
  if (!boolean) refuse(key, "a truth value");
  return *boolean;
}

std::vector<std::string> GgufKeys::texts(std::string_view key) const {
  const gguf::Value* const value = find(key);
  auto texts = value != nullptr ? value->texts() : std::nullopt;
  if (!texts) refuse(key, "an array of texts");
  return std::move(*texts);
}

std::vector<double> GgufKeys::numbers(std::string_view key) const {
  const gguf::Value* const value = find(key);
  auto numbers = value != nullptr ? value->numbers() : std::nullopt;
  if (!numbers) refuse(key, "an array of numbers");
  return std::move(*numbers);
}

std::vector<int64_t> GgufKeys::kinds(size_t count) const {
  constexpr std::string_view kKey = "token_type";
  const gguf::Value* const value = find(kKey);
  if (value == nullptr) return std::vector<int64_t>(count, 1);
  auto kinds = value->integers();
  if (!kinds || kinds->size() != count) refuse(kKey, fmt::format("an array of {} integers", count));
  return std::move(*kinds);
}

std::optional<int32_t> GgufKeys::id(std::string_view key, size_t count) const {
  const gguf::Value* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto id = value->integer();
  if (!id || *id < 0 || static_cast<uint64_t>(*id) >= count)
    refuse(key, fmt::format("the id of one of {} tokens", count));
  return static_cast<int32_t>(*id);
}

}  // namespace megalith::vocabularies
