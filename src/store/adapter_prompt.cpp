// SPDX-License-Identifier: Apache-2.0
// An adapter of virtual tokens against the model that it is for.
#include "adapters/prompt_marks.h"
#include "checkpoint/safetensors_folder.h"
#include "spec/head_types.h"
#include "store/adapter_source.h"

namespace megalith::store {
namespace {

constexpr char kRowsName[] = "prompt_embeddings";

void require_prompted(const models::ModelSpec& spec, const std::string& where) {
  const auto refuse = [&](std::string_view why) {
    throw UserError("{}: virtual tokens are for models that generate text, and {}", where, why);
  };
  if (!spec.is_causal()) refuse("this model is an encoder");
  if (!layers::head_type(spec.head.kind).has_logits) refuse("this one has no logits");
}

/// None where the folder says nothing of marks.
std::vector<int64_t> read_splits(const std::filesystem::path& folder, int64_t tokens) {
  const std::filesystem::path path = folder / adapters::kSplitsName;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  return adapters::parse_splits(checkpoint::read_inside(path, folder, adapters::kMostConfigBytes),
                                path.string(), tokens);
}

}  // namespace

void AdapterSource::place_prompt(const adapters::VirtualPrompt& prompt, const ModelSource& base) {
  const models::ModelSpec& spec = base.spec();
  const std::string folder = file_->path().parent_path().string();
  splits_ = read_splits(folder, prompt.tokens);
  require_prompted(spec, folder);
  if (prompt.tokens > spec.context - 2) {  // a token that is read, and one behind it
    throw UserError("{}: num_virtual_tokens {} leaves no room in the context of {}, {}", folder,
                    prompt.tokens, base.weights().where(), spec.context);
  }
  for (const checkpoint::SafetensorsEntry& entry : file_->entries()) {
    if (entry.name != kRowsName)
      throw IntegrityError("{}: tensor {} is not {}", file_->path().string(), entry.name,
                           kRowsName);
  }
  prompt_ = tensor(kRowsName, Shape{prompt.tokens + prompt.unread, spec.table_width()});
  parameters_ = prompt.tokens * spec.table_width();
  ranks_.emplace(layers::kTokenTableName,
                 layers::AdapterRank::of_virtual_tokens(prompt.tokens, !splits_.empty()));
}

}  // namespace megalith::store
