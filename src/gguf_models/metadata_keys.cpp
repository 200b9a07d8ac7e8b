// SPDX-License-Identifier: Apache-2.0
#include "gguf_models/metadata_keys.h"

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/one_line.h"

namespace megalith::gguf_models {

double shortest(float value) {
  if (!std::isfinite(value)) return static_cast<double>(value);
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  double number = 0;
  std::from_chars(text, end, number);
  return number;
}

const gguf::Value* MetadataKeys::value(std::string_view key) const {
  asked_.emplace(key);
  const auto found = metadata_.find(full(key));
  return found == metadata_.end() ? nullptr : &found->second;
}

void MetadataKeys::refuse(std::string_view key, const gguf::Value& value,
                          std::string_view needed) const {
  throw UserError("{}: {} is {}, must be {}", where_, full(key), value.kind(), needed);
}

int64_t MetadataKeys::size(std::string_view key, std::optional<int64_t> otherwise) const {
  if (!has(key) && !otherwise) throw UserError("{}: the key {} is missing", where_, full(key));
  const int64_t size = count(key, otherwise.value_or(0));
  if (size < 1) throw UserError("{}: {} is {}, must be at least 1", where_, full(key), size);
  return size;
}

int64_t MetadataKeys::count(std::string_view key, int64_t otherwise) const {
  const gguf::Value* found = value(key);
  if (found == nullptr) return otherwise;
  const auto number = found->integer();
  if (!number) refuse(key, *found, "a whole number");
  if (*number < 0) throw UserError("{}: {} is {}, below 0", where_, full(key), *number);
  return *number;
}

double MetadataKeys::number(std::string_view key, double otherwise) const {
  const gguf::Value* found = value(key);
  if (found == nullptr) return otherwise;
  const auto number = found->number();
  if (!number) refuse(key, *found, "a number");
  if (!std::isfinite(*number))
    throw UserError("{}: {} is {}, which is no number", where_, full(key), *number);
  return found->type() == gguf::ValueType::f32 ? shortest(static_cast<float>(*number)) : *number;
}

bool MetadataKeys::boolean(std::string_view key, bool otherwise) const {
  const gguf::Value* found = value(key);
  if (found == nullptr) return otherwise;
  const auto boolean = found->boolean();
  if (!boolean) refuse(key, *found, "a truth value");
  return *boolean;
}

std::string MetadataKeys::text(std::string_view key, std::string_view otherwise) const {
  const gguf::Value* found = value(key);
  if (found == nullptr) return std::string(otherwise);
  const auto text = found->text();
  if (!text) refuse(key, *found, "a text");
  return *text;
}

std::optional<std::vector<bool>> MetadataKeys::booleans(std::string_view key) const {
  const gguf::Value* found = value(key);
  if (found == nullptr) return std::nullopt;
  auto booleans = found->booleans();
  if (!booleans) refuse(key, *found, "an array of truth values");
  return booleans;
}

void MetadataKeys::no_others(std::string_view harmless) const {
  for (auto at = metadata_.lower_bound(prefix_); at != metadata_.end(); ++at) {
    const std::string& key = at->first;
    if (!key.starts_with(prefix_)) break;
    const std::string_view own = std::string_view(key).substr(prefix_.size());
    if (asked_.contains(own) || at->second.integer() == 0 || at->second.boolean() == false)
      continue;
    if (harmless.find(" " + std::string(own) + " ") != std::string_view::npos) continue;
    throw UserError("{}: {} is not supported by this program", where_, one_line(key, 80));
  }
}

}  // namespace megalith::gguf_models
