// SPDX-License-Identifier: Apache-2.0
#include "store/model_source.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/safetensors_folder.h"
#include "checkpoint/step_folders.h"
#include "families/hugging_face.h"
#include "families/model_spec_json.h"
#include "gguf_models/model_description.h"
#include "store/gguf_file.h"
#include "vocabularies/gguf_vocabulary.h"

namespace megalith::store {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigName[] = "config.json";
constexpr char kTokenizerName[] = "tokenizer.json";
constexpr char kGenerationName[] = "generation_config.json";

/// Files of a Hugging Face folder that belong to the text, not to the weights.
constexpr std::array kTextNames = {kTokenizerName,
                                   "tokenizer_config.json",
                                   "special_tokens_map.json",
                                   "added_tokens.json",
                                   "vocab.json",
                                   "merges.txt",
                                   "chat_template.jinja",
                                   kGenerationName};
constexpr char kNamedTemplates[] = "additional_chat_templates/";
constexpr size_t kMostTemplates = 100;
constexpr int64_t kMaxTextBytes = int64_t{512} << 20;

/// The names of the files of a Hugging Face folder that belong to the text, there or not.
std::vector<std::string> text_names(const fs::path& folder) {
  std::vector<std::string> names(kTextNames.begin(), kTextNames.end());
  std::error_code error;
  if (!fs::is_directory(folder / kNamedTemplates, error)) return names;
  fs::directory_iterator entry(folder / kNamedTemplates, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->path().extension() == ".jinja")
      names.push_back(kNamedTemplates + entry->path().filename().string());
  if (error)
    throw SystemError("{}: reading the folder failed: {}", (folder / kNamedTemplates).string(),
                      error.message());
  if (names.size() > kTextNames.size() + kMostTemplates)
    throw UserError("{}: more than {} chat templates", (folder / kNamedTemplates).string(),
                    kMostTemplates);
  return names;
}

bool is_step_folder(const fs::path& path) {
  fs::path name = path.filename();
  if (name.empty()) name = path.parent_path().filename();  // "run/checkpoints/step-00000010/"
  return fs::exists(path / checkpoint::kCommitName) ||
         fs::exists(path / checkpoint::kManifestName) ||
         checkpoint::step_of_folder(name.string()) >= 0;
}

}  // namespace

ModelSource ModelSource::open(const fs::path& path, int tensor_shards,
                              const checkpoint::AtWork& at_work) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw UserError(
        "{}: no such folder or file; name a run, a checkpoint, a Hugging Face folder "
        "or a GGUF file",
        path.string());
  }
  ModelSource source;
  if (gguf::is_gguf_file(path)) {
    source.open_gguf(path, tensor_shards);
    return source;
  }
  if (!fs::is_directory(path)) {
    throw UserError("{}: is a file, but no GGUF file; name the folder that holds the model",
                    path.string());
  }
  if (is_step_folder(path)) {
    source.open_checkpoint(path, at_work);
  } else if (fs::is_directory(path / "checkpoints")) {
    const auto newest = checkpoint::find_newest(path / "checkpoints", false, at_work);
    if (!newest) {
      throw UserError("{}: the run has no complete checkpoint yet", path.string());
    }
    source.open_checkpoint(newest->folder(), at_work);
  } else if (fs::exists(path / kConfigName)) {
    source.open_hugging_face(path, tensor_shards, at_work);
  } else {
    throw UserError(
        "{}: holds neither checkpoints/ (a run), nor {} (a checkpoint), nor {} (a "
        "Hugging Face folder)",
        path.string(), checkpoint::kManifestName, kConfigName);
  }
  return source;
}

void ModelSource::open_checkpoint(const fs::path& folder, const checkpoint::AtWork& at_work) {
  const auto reader = std::make_shared<const checkpoint::Reader>(folder, at_work);
  const std::string where = (folder / checkpoint::kManifestName).string();
  const nlohmann::json& state = reader->state();
  if (!state.is_object() || !state.contains("architecture")) {
    throw IntegrityError("{}: its state names no spec; it was not saved by a training run", where);
  }
  if (state.contains("base")) {
    throw UserError(
        "{}: an adapter's run holds no model; name the model that it tuned, and the folder adapter "
        "of the run as --adapter",
        folder.string());
  }
  spec_ = models::model_spec_from(state["architecture"], where);
  const auto shards = state.find("tensor_shards");
  if (shards == state.end() || !shards->is_number_integer() || *shards < 1 ||
      *shards > spec_.layers.front().attention.heads ||
      !models::split_fault(spec_, shards->get<int>()).empty()) {
    throw IntegrityError("{}: its state has no usable tensor_shards", where);
  }
  tensor_shards_ = shards->get<int>();
  const auto id_at = [&](const char* key) -> std::optional<int32_t> {
    const auto found = state.find(key);
    if (found == state.end() || !found->is_number_integer()) return std::nullopt;
    const auto id = found->get<int64_t>();
    return id >= 0 && id < spec_.vocab ? std::optional(static_cast<int32_t>(id)) : std::nullopt;
  };
  begin_id_ = id_at("begin_id");
  pad_id_ = id_at("pad_id");
  if (const auto ids = state.find("end_ids"); ids != state.end()) {
    end_ids_ =
        models::parse_end_ids(nlohmann::json{{"eos_token_id", *ids}}.dump(), spec_.vocab, where)
            .value_or(std::vector<int32_t>{});
  }
  weights_ = checkpoint_weights(reader, spec_, tensor_shards_);
  for (const std::string& name : reader->text_names()) {
    if (std::ranges::find(kTextNames, name) != kTextNames.end()) {
      texts_[name] = *reader->text(name);
    }
  }
  read_tokenizer(folder.string());
}

void ModelSource::open_hugging_face(const fs::path& folder, int tensor_shards,
                                    const checkpoint::AtWork& at_work) {
  const fs::path config_path = folder / kConfigName;
  checkpoint::require_inside(config_path, folder);
  require_regular(config_path);
  const std::string text = read_file(config_path, models::kMaxConfigBytes);
  models::HuggingFaceConfig config = models::parse_hugging_face_config(text, config_path.string());
  spec_ = std::move(config.model);
  end_ids_ = std::move(config.end_ids);
  begin_id_ = config.begin_id;
  pad_id_ = config.pad_id;
  if (config.ties_unless_stored) spec_.head.tied = !has_own_head(folder.string(), spec_, at_work);
  tensor_shards_ = tensor_shards > 0 ? tensor_shards : models::default_tensor_shards(spec_);
  weights_ = hugging_face_weights(folder.string(), spec_, tensor_shards_,
                                  config.fp8.value_or(models::Fp8Config{}), at_work);
  for (const std::string& name : text_names(folder)) {
    if (!fs::exists(folder / name)) continue;
    checkpoint::require_inside(folder / name, folder);
    require_regular(folder / name);
    texts_[name] = read_file(folder / name, kMaxTextBytes);
  }
  read_tokenizer(folder.string());
}

void ModelSource::open_gguf(const fs::path& path, int tensor_shards) {
  const auto file = std::make_shared<const gguf::Reader>(path);
  const gguf_models::ModelDescription description = describe_gguf(*file);
  spec_ = gguf_models::read_model(description, path.string());
  tensor_shards_ = tensor_shards > 0 ? tensor_shards : models::default_tensor_shards(spec_);
  weights_ = gguf_weights(file, spec_, tensor_shards_);
  gguf_models::SpecialIds ids = gguf_models::special_ids(description.metadata, spec_.vocab);
  end_ids_ = std::move(ids.end);
  begin_id_ = ids.begin;
  for (const auto& [key, value] : description.metadata) {
    if (key.starts_with("tokenizer.")) tokenizer_keys_.emplace(key, value);
  }
  read_gguf_tokenizer(path.string());
}

// What the tokenizer lacks is said when it is needed: ids and weights need none.
void ModelSource::read_gguf_tokenizer(const std::string& where) {
  texts_ = vocabularies::gguf_texts(tokenizer_keys_);
  const auto kind = tokenizer_keys_.find("tokenizer.ggml.model");
  if (kind == tokenizer_keys_.end() || kind->second.text() == "none") return;
  try {
    tokenizer_ = vocabularies::read_gguf_vocabulary(tokenizer_keys_, where);
    texts_[kTokenizerName] = tokenizer_->to_json();
  } catch (const UserError& error) {
    tokenizer_fault_ = error.what();
  }
}

const text::Tokenizer& ModelSource::require_tokenizer() const {
  if (tokenizer_) return *tokenizer_;
  if (!tokenizer_fault_.empty()) throw UserError("{}", tokenizer_fault_);
  if (!tokenizer_keys_.empty()) {
    throw UserError(
        "{}: holds no tokenizer; convert the model to a folder and put its tokenizer.json there, "
        "or give ids",
        weights_->where());
  }
  throw UserError(
      "{}: there is no tokenizer.json beside the model (megalith tokenizer convert makes one)",
      weights_->where());
}

void ModelSource::read_tokenizer(const std::string& folder) {
  const std::string base = folder + "/";
  if (const auto found = texts_.find(kGenerationName); found != texts_.end()) {
    const auto ids = models::parse_end_ids(found->second, spec_.vocab, base + kGenerationName);
    if (ids) end_ids_ = *ids;
  }
  const auto found = texts_.find(kTokenizerName);
  if (found == texts_.end()) return;
  tokenizer_ = text::Tokenizer::parse(found->second, base + kTokenizerName);
  if (end_ids_.empty()) {
    const auto end = tokenizer_->end_of_document();
    if (end && *end < spec_.vocab) end_ids_ = {*end};
  }
}

}  // namespace megalith::store
