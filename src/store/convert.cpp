// SPDX-License-Identifier: Apache-2.0
#include "store/convert.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/folder.h"
#include "base/log.h"
#include "checkpoint/folder_writer.h"
#include "checkpoint/safetensors_folder.h"
#include "checkpoint/staged_folder.h"
#include "checkpoint/state_digest.h"
#include "families/families.h"
#include "families/hugging_face.h"
#include "families/model_spec_json.h"
#include "models/foreign_map.h"
#include "store/foreign_tensors.h"
#include "store/merged_weights.h"
#include "store/write_gguf.h"

namespace megalith::store {
namespace {

namespace fs = std::filesystem;
using checkpoint::TensorContent;

/// Nothing for "", the types as they are.
std::optional<DType> storage_type(std::string_view name) {
  if (name.empty()) return std::nullopt;
  const auto dtype = dtype_from_name(name);
  if (!dtype || (*dtype != DType::f32 && *dtype != DType::bf16 && *dtype != DType::f16)) {
    throw UserError("weights cannot be stored as '{}'; choose f32, bf16 or f16", name);
  }
  return dtype;
}

/// Of the matrices of a GGUF file; nothing for "", the types as they are.
std::optional<gguf::TensorType> gguf_type(std::string_view name) {
  if (name.empty()) return std::nullopt;
  if (const auto type = written_type(name)) return type;
  throw UserError("matrices cannot be stored as '{}'; choose f32, bf16, f16, q8_0, q4_0 or q4_1",
                  name);
}

/// The target without a trailing slash; refused when something is there. `what`: folder or file.
fs::path free_target(const fs::path& to, std::string_view what) {
  fs::path target = to.lexically_normal();
  if (!target.has_filename()) target = target.parent_path();
  if (target.empty()) throw UserError("--to is empty; name a {} that does not exist yet", what);
  const bool is_free_folder =
      what == "folder" && fs::is_directory(fs::symlink_status(target)) && fs::is_empty(target);
  if (fs::exists(fs::symlink_status(target)) && !is_free_folder)
    throw UserError("{}: exists already; name a {} that does not", target.string(), what);
  make_folders(fs::absolute(target).parent_path());
  return target;
}

ConvertResult write_megalith(const ModelSource& source, const fs::path& target,
                             std::optional<DType> dtype) {
  checkpoint::FolderContent content;
  content.state = {{"architecture", models::to_json(source.spec())},
                   {"tensor_shards", source.tensor_shards()},
                   {"end_ids", source.end_ids()}};
  if (source.begin_id()) content.state["begin_id"] = *source.begin_id();
  if (source.pad_id()) content.state["pad_id"] = *source.pad_id();
  content.texts = source.texts();
  // The files of a checkpoint lie in one folder.
  const auto dropped = std::erase_if(
      content.texts, [](const auto& text) { return text.first.find('/') != std::string::npos; });
  if (dropped > 0)
    log::warning("{}: a checkpoint keeps one chat template; {} named ones stay behind",
                 target.string(), dropped);
  for (const StoredTensor& tensor : source.weights().tensors()) {
    const DType stored = dtype.value_or(tensor.dtype);
    content.tensors.push_back(
        {tensor.name, stored, tensor.shape, [&source, &tensor, stored](TensorContent::Sink sink) {
           sink(read_as(source, tensor, stored));
         }});
  }
  // One thread: a source reads one tensor at a time.
  const auto summary = checkpoint::write_checkpoint_folder(target, content, 1);
  return {static_cast<int64_t>(content.tensors.size()), source.spec().num_parameters(),
          summary.state_sha256};
}

/// The tensors of a Hugging Face folder; each of ours adds its line to `digest` when the first that
/// is made from it is written.
std::vector<TensorContent> foreign_tensors(const ModelSource& source, std::optional<DType> dtype,
                                           checkpoint::StateDigest& digest) {
  const models::Family& family = models::family_named(source.spec().family, "the model");
  const auto maps = std::make_shared<const std::vector<models::TensorMap>>(
      models::tensor_maps(source.spec(), family.tensors, source.tensor_shards()));
  // The class without a head saves its tensors without the prefix.
  const bool bare = source.spec().head.kind == layers::HeadKind::none;
  const size_t left_out = bare ? family.tensors.prefix.size() : 0;
  std::vector<TensorContent> contents;
  for (const ForeignTensor& tensor : by_foreign_name(*maps)) {
    const models::TensorMap& map = (*maps)[tensor.moves.front().first];
    const StoredTensor& stored = *source.weights().find(map.name);
    const DType type = dtype.value_or(stored.dtype);
    const bool is_first = tensor.moves.front().second == 0;
    const auto writer = [&, type](bool counts) {
      return [&source, &stored, &digest, maps, counts, type, tensor](TensorContent::Sink sink) {
        const int64_t each = bytes_of(type);
        std::vector<std::byte> theirs(static_cast<size_t>(tensor.shape.num_elements() * each));
        {
          const std::vector<std::byte> ours = read_as(source, stored, type);
          if (counts) digest.add(stored.name, type, stored.shape, sha256(ours));
          for (const auto& [m, i] : tensor.moves)
            models::from_ours((*maps)[m], (*maps)[m].moves[i], each, ours.data(), theirs.data());
        }
        sink(theirs);
      };
    };
    contents.push_back({tensor.name.substr(left_out), type, tensor.shape, writer(is_first)});
    for (const models::ForeignAlias& copy : family.tensors.copies) {
      if (copy.name == tensor.name)
        contents.push_back({std::string(copy.other), type, tensor.shape, writer(false)});
    }
  }
  return contents;
}

/// model.safetensors, or shards with their index when the tensors are larger than `shard_bytes`.
void write_shards(const fs::path& folder, std::span<const TensorContent> tensors,
                  int64_t shard_bytes) {
  std::vector<size_t> begins{0};
  int64_t total = 0, bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i > begins.back() && bytes + tensors[i].bytes() > shard_bytes) {
      begins.push_back(i);
      bytes = 0;
    }
    bytes += tensors[i].bytes();
    total += tensors[i].bytes();
  }
  if (begins.size() == 1) {
    checkpoint::write_safetensors(folder / checkpoint::kSingleName, tensors);
    return;
  }
  nlohmann::ordered_json index;
  index["metadata"] = {{"total_size", total}};
  nlohmann::json map;
  for (size_t shard = 0; shard < begins.size(); ++shard) {
    const std::string name =
        fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, begins.size());
    const size_t end = shard + 1 < begins.size() ? begins[shard + 1] : tensors.size();
    const auto part = tensors.subspan(begins[shard], end - begins[shard]);
    checkpoint::write_safetensors(folder / name, part);
    for (const TensorContent& tensor : part) map[tensor.name] = name;
  }
  index["weight_map"] = map;
  write_file_durable(folder / checkpoint::kIndexName, index.dump(2) + "\n");
}

/// The narrowest type that holds the values of all.
DType common_type(std::span<const TensorContent> tensors) {
  DType common = tensors.front().dtype;
  for (const TensorContent& tensor : tensors) {
    const int64_t more = bytes_of(tensor.dtype) - bytes_of(common);
    if (more > 0) common = tensor.dtype;
    if (more == 0 && tensor.dtype != common) common = DType::f32;  // bf16 and f16
  }
  return common;
}

/// The ids that transformers begins and ends a text with.
nlohmann::ordered_json generation_config(const ModelSource& source) {
  nlohmann::ordered_json json{{"_from_model_config", true}};
  const bool is_encoder_decoder = source.spec().is_encoder_decoder();
  if (is_encoder_decoder) {
    const auto start = static_cast<int32_t>(source.spec().decoder_start);
    json["decoder_start_token_id"] = start;
    json["pad_token_id"] = source.pad_id().value_or(start);
  }
  if (source.end_ids().empty()) return json;
  if (!is_encoder_decoder) json["bos_token_id"] = source.begin_id().value_or(source.end_ids()[0]);
  json["eos_token_id"] = source.end_ids();
  return json;
}

struct SpecialToken {
  const char* role;
  std::string_view token;  // as published tokenizers spell it
};
constexpr SpecialToken kSpecialTokens[] = {{"unk_token", "[UNK]"},   {"unk_token", "<unk>"},
                                           {"cls_token", "[CLS]"},   {"sep_token", "[SEP]"},
                                           {"pad_token", "[PAD]"},   {"pad_token", "<pad>"},
                                           {"mask_token", "[MASK]"}, {"mask_token", "<mask>"}};

/// The roles that transformers looks for beside a tokenizer.json: without them it neither pads a
/// batch nor masks a token.
nlohmann::ordered_json special_tokens(const text::Tokenizer& tokenizer) {
  nlohmann::ordered_json json = nlohmann::json::object();
  if (const auto end = tokenizer.end_of_document()) {
    const std::string token = tokenizer.token_text(*end);
    for (const char* role : {"bos_token", "eos_token", "unk_token"}) json[role] = token;
  }
  for (const auto& [role, token] : kSpecialTokens) {
    const auto id = tokenizer.id_of(token);
    if (id && tokenizer.is_special(*id)) json[role] = token;
  }
  return json;
}

/// The files beside the weights: those of the source, and what transformers needs besides.
std::map<std::string, std::string> foreign_texts(const ModelSource& source, DType dtype) {
  std::map<std::string, std::string> texts = source.texts();
  texts["config.json"] = models::hugging_face_config(source.spec(), dtype, source.end_ids(),
                                                     source.begin_id(), source.pad_id());
  const auto pretty = [](const nlohmann::ordered_json& json) { return json.dump(2) + "\n"; };
  texts.try_emplace("generation_config.json", pretty(generation_config(source)));
  if (!source.tokenizer()) return texts;
  const nlohmann::ordered_json special = special_tokens(*source.tokenizer());
  nlohmann::ordered_json config = special;
  config["clean_up_tokenization_spaces"] = false;
  config["model_max_length"] = source.spec().context;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  texts.try_emplace("tokenizer_config.json", pretty(config));
  texts.try_emplace("special_tokens_map.json", pretty(special));
  return texts;
}

ConvertResult write_hugging_face(const ModelSource& source, const fs::path& target,
                                 std::optional<DType> dtype, int64_t shard_bytes) {
  checkpoint::StateDigest digest;
  const std::vector<TensorContent> tensors = foreign_tensors(source, dtype, digest);
  checkpoint::StagedFolder folder(target);
  write_shards(folder.path(), tensors, shard_bytes);
  for (const auto& [name, text] : foreign_texts(source, common_type(tensors))) {
    make_folders((folder.path() / name).parent_path());
    write_file_durable(
        folder.path() / name, [&](File& file) { file.write(text); }, false);
  }
  folder.put_in_place();
  return {static_cast<int64_t>(tensors.size()), source.spec().num_parameters(), digest.finish()};
}

}  // namespace

ConvertResult convert(const fs::path& from, const fs::path& to, std::string_view format,
                      std::string_view dtype_name, int64_t shard_bytes, Tokenizers tokenizer,
                      std::vector<TensorChoice> choices, const fs::path& adapter) {
  if (format != "megalith" && format != "hf" && format != "gguf") {
    throw UserError("format '{}' is not known; choose megalith, hf or gguf", format);
  }
  const bool is_gguf = format == "gguf";
  const Quantization stored{is_gguf ? gguf_type(dtype_name) : std::nullopt, std::move(choices)};
  const std::optional<DType> dtype = is_gguf ? std::nullopt : storage_type(dtype_name);
  ModelSource source = ModelSource::open(from);
  if (!adapter.empty()) source = with_adapter_merged(std::move(source), adapter);
  if (format == "hf") models::check_expressible(source.spec());
  const fs::path target = free_target(to, is_gguf ? "file" : "folder");
  if (is_gguf) return write_gguf(source, target, stored, tokenizer);
  return format == "megalith" ? write_megalith(source, target, dtype)
                              : write_hugging_face(source, target, dtype, shard_bytes);
}

}  // namespace megalith::store
