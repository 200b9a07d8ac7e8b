// SPDX-License-Identifier: Apache-2.0
#include "gguf_models/architecture.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/one_line.h"

namespace megalith::gguf_models {

void KeyWriter::add_count(std::string_view key, int64_t number) {
  if (!std::in_range<uint32_t>(number))
    throw UserError("the GGUF format holds {} in 32 bits; {} does not fit", key, number);
  add(key, gguf::Value::u32(static_cast<uint32_t>(number)));
}

void KeyWriter::add_number(std::string_view key, double number) {
  add(key, gguf::Value::f32(static_cast<float>(number)));
}

std::span<const Architecture* const> architectures() {
  static constexpr const Architecture* kAll[] = {&kLlama,  &kQwen2,      &kQwen3,  &kGemma,
                                                 &kGemma2, &kGemma3,     &kPhi3,   &kOlmo2,
                                                 &kGpt2,   &kStarcoder2, &kGptNeox};
  return kAll;
}

const Architecture& architecture_named(std::string_view name, const std::string& where) {
  const auto found = std::ranges::find(architectures(), name, &Architecture::name);
  if (found != architectures().end()) return **found;
  if (name.empty()) throw UserError("{}: the key general.architecture is missing", where);
  std::vector<std::string_view> names;
  for (const Architecture* each : architectures()) names.push_back(each->name);
  throw UserError("{}: general.architecture {} is not supported; this program reads {}", where,
                  one_line(name, 40), fmt::join(names, ", "));
}

const Architecture& architecture_of(const ModelSpec& model) {
  std::string_view family = model.family;
  if (family == "mistral") family = "llama";
  const auto found = std::ranges::find(architectures(), family, &Architecture::family);
  if (found == architectures().end())
    throw UserError("the GGUF format has no architecture for models of the family {}", family);
  return **found;
}

}  // namespace megalith::gguf_models
