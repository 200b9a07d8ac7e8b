// SPDX-License-Identifier: Apache-2.0
#include "apps/tasks/model_text.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_fault.h"

namespace megalith::apps {
namespace {

/// What tokenizer_config.json calls this token: its id, nothing where it says null or names none,
/// `otherwise` where it does not speak of it.
std::optional<int32_t> configured(const store::ModelSource& source, const char* key,
                                  std::optional<int32_t> otherwise) {
  const auto file = source.texts().find("tokenizer_config.json");
  if (file == source.texts().end() || json_fault(file->second)) return otherwise;
  const auto config = nlohmann::json::parse(file->second);
  if (!config.is_object() || !config.contains(key)) return otherwise;
  const nlohmann::json& token = config[key];
  const nlohmann::json& text =
      token.is_object() && token.contains("content") ? token["content"] : token;
  if (!text.is_string()) return {};
  return source.require_tokenizer().id_of(text.get<std::string>());
}

}  // namespace

evaluate::ModelText model_text(const store::ModelSource& source, const std::string& path) {
  const std::vector<int32_t>& ends = source.end_ids();
  const auto end = configured(source, "eos_token",
                              ends.empty() ? std::nullopt : std::optional<int32_t>(ends[0]));
  const auto begin = configured(source, "bos_token", source.begin_id());
  if (!begin && !end) {
    throw UserError("{}: the model has no token that begins or ends a text, which tasks need",
                    path);
  }
  return {.tokenizer = &source.require_tokenizer(),
          .prefix = begin ? *begin : *end,
          .ends = ends,
          .context = source.spec().context};
}

}  // namespace megalith::apps
