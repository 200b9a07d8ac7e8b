// SPDX-License-Identifier: Apache-2.0
#include "store/write_hugging_face.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/folder.h"
#include "checkpoint/safetensors_folder.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/staged_folder.h"
#include "checkpoint/state_digest.h"
#include "families/families.h"
#include "families/hugging_face.h"
#include "models/foreign_map.h"
#include "spec/head_types.h"
#include "store/foreign_tensors.h"
#include "tensor/blocks.h"

namespace megalith::store {
namespace {

namespace fs = std::filesystem;
using checkpoint::TensorContent;

/// Our weights that are written in FP8.
std::set<std::string> fp8_weights(const ModelSource& source, const HuggingFaceForm& form) {
  std::set<std::string> names;
  if (form.fp8 == Fp8Weights::all) {
    for (const auto& [name, format] : source.storage_formats(Format::fp8)) names.insert(name);
  } else if (!form.dtype) {
    for (const StoredTensor& tensor : source.weights().tensors())
      if (tensor.blocks == Format::fp8) names.insert(tensor.name);
  }
  return names;
}

/// What the tensors are made of, alive until the last is written.
struct FolderExport {
  const ModelSource& source;
  const HuggingFaceForm& form;
  checkpoint::StateDigest& digest;
  std::vector<models::TensorMap> maps;
  std::set<std::string> in_fp8;  // ours
  size_t left_out;               // of each name
  std::string held = {};         // ours, whose codes are these: pieces and their scales follow
  std::vector<std::byte> codes = {};

  const std::vector<std::byte>& fp8_of(const StoredTensor& stored) {
    if (held == stored.name) return codes;
    codes = {};
    codes = source.fp8_of(stored);
    held = stored.name;
    return codes;
  }
};

/// The codes of a foreign tensor, or what multiplies them. `counts`: ours adds its line to the
/// digest.
TensorContent fp8_content(FolderExport& from, const ForeignTensor& tensor, const std::string& name,
                          bool counts, bool is_scale) {
  const auto write = [&from, tensor, counts, is_scale](TensorContent::Sink sink) {
    models::TensorMap map = from.maps[tensor.moves.front().first];
    const StoredTensor& stored = *from.source.weights().find(map.name);
    const std::vector<std::byte>& ours = from.fp8_of(stored);
    if (counts) from.digest.add(stored.name, DType::f8_e4m3, stored.shape, sha256(ours));
    const int64_t codes = stored.shape.num_elements(), each = is_scale ? bytes_of(DType::f32) : 1;
    if (is_scale) map.shape = Shape{stored.shape[0]};
    std::vector<std::byte> theirs(
        static_cast<size_t>(is_scale ? tensor.shape[0] * each : tensor.shape.num_elements()));
    for (const auto& [m, i] : tensor.moves)
      models::from_ours(map, from.maps[m].moves[i], each, ours.data() + (is_scale ? codes : 0),
                        theirs.data());
    sink(theirs);
  };
  if (is_scale) return {name + "_scale", DType::f32, Shape{tensor.shape[0], 1}, write};
  return {name, DType::f8_e4m3, tensor.shape, write};
}

/// Readers of FP8 look for `weight` of linear modules: of others, whose matrices are transposed,
/// they would take codes for numbers.
void check_fp8(const FolderExport& from, const ForeignTensor& tensor) {
  const models::RowMove& move =
      from.maps[tensor.moves.front().first].moves[tensor.moves.front().second];
  if (move.transposed || !tensor.name.ends_with(".weight"))
    throw UserError(
        "the {} format stores {} transposed, where readers of FP8 do not look for codes; leave fp8 "
        "out, and hold the model so with generate, evaluate or serve --quantize fp8",
        from.source.spec().family, tensor.name);
}

TensorContent plain_content(FolderExport& from, const ForeignTensor& tensor,
                            const std::string& name, const StoredTensor& stored, bool counts) {
  const DType type = from.form.dtype.value_or(stored.dtype);
  return {name, type, tensor.shape,
          [&from, &stored, counts, type, tensor](TensorContent::Sink sink) {
            const int64_t each = bytes_of(type);
            std::vector<std::byte> theirs(static_cast<size_t>(tensor.shape.num_elements() * each));
            {
              const std::vector<std::byte> ours = read_as(from.source, stored, type);
              if (counts) from.digest.add(stored.name, type, stored.shape, sha256(ours));
              for (const auto& [m, i] : tensor.moves)
                models::from_ours(from.maps[m], from.maps[m].moves[i], each, ours.data(),
                                  theirs.data());
            }
            sink(theirs);
          }};
}

/// The tensors of a Hugging Face folder; each of ours adds its line to the digest when the first
/// that is made from it is written.
std::vector<TensorContent> foreign_tensors(FolderExport& from) {
  const models::Family& family = models::family_named(from.source.spec().family, "the model");
  std::vector<TensorContent> contents;
  for (const ForeignTensor& tensor : by_foreign_name(from.maps)) {
    const models::TensorMap& map = from.maps[tensor.moves.front().first];
    const StoredTensor& stored = *from.source.weights().find(map.name);
    const bool is_fp8 = from.in_fp8.contains(map.name);
    if (is_fp8) check_fp8(from, tensor);
    const auto add = [&](const std::string& name, bool counts) {
      if (!is_fp8) return contents.push_back(plain_content(from, tensor, name, stored, counts));
      contents.push_back(fp8_content(from, tensor, name, counts, false));
      contents.push_back(fp8_content(from, tensor, name, false, true));
    };
    add(tensor.name.substr(from.left_out), tensor.moves.front().second == 0);
    for (const models::ForeignAlias& copy : family.tensors.copies)
      if (copy.name == tensor.name) add(std::string(copy.other), false);
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

/// The narrowest type that holds the values of all but FP8 and its scales.
DType common_type(const FolderExport& from) {
  std::optional<DType> found;
  for (const models::TensorMap& map : from.maps) {
    if (from.in_fp8.contains(map.name)) continue;
    const DType dtype = from.form.dtype.value_or(from.source.weights().find(map.name)->dtype);
    if (!found) found = dtype;
    const int64_t more = bytes_of(dtype) - bytes_of(*found);
    if (more > 0) found = dtype;
    if (more == 0 && dtype != *found) found = DType::f32;  // bf16 and f16
  }
  return found.value_or(DType::f32);
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

/// Modules whose matrices stay as they are where others are in FP8, but tables that rows are looked
/// up in; a tied head too, whose module has no tensor. Nothing where none is in FP8.
std::optional<std::vector<std::string>> ignored_modules(const FolderExport& from) {
  if (from.in_fp8.empty()) return std::nullopt;
  constexpr std::string_view kWeight = ".weight";
  const models::ModelSpec& spec = from.source.spec();
  const models::ForeignTable& table = models::family_named(spec.family, "the model").tensors;
  std::set<std::string> modules;
  if (layers::head_type(spec.head.kind).has_logits) {
    std::string head(models::head_name(table));
    if (head.ends_with(kWeight)) modules.insert(head.substr(0, head.size() - kWeight.size()));
  }
  for (const ForeignTensor& tensor : by_foreign_name(from.maps)) {
    const std::string& ours = from.maps[tensor.moves.front().first].name;
    const bool is_table = ours.find("embedding") != std::string::npos;
    if (tensor.shape.num_dims() == 2 && !is_table && !from.in_fp8.contains(ours) &&
        tensor.name.ends_with(kWeight))
      modules.insert(
          tensor.name.substr(from.left_out, tensor.name.size() - from.left_out - kWeight.size()));
  }
  return std::vector(modules.begin(), modules.end());
}

/// The files beside the weights: those of the source, and what transformers needs besides.
std::map<std::string, std::string> foreign_texts(const FolderExport& from) {
  const ModelSource& source = from.source;
  std::map<std::string, std::string> texts = source.texts();
  texts["config.json"] =
      models::hugging_face_config(source.spec(), common_type(from), source.end_ids(),
                                  source.begin_id(), source.pad_id(), ignored_modules(from));
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

}  // namespace

ConvertResult write_hugging_face(const ModelSource& source, const fs::path& target,
                                 const HuggingFaceForm& form) {
  const models::Family& family = models::family_named(source.spec().family, "the model");
  checkpoint::StateDigest digest;
  // The class without a head saves its tensors without the prefix.
  const bool bare = source.spec().head.kind == layers::HeadKind::none;
  FolderExport from{source,
                    form,
                    digest,
                    models::tensor_maps(source.spec(), family.tensors, source.tensor_shards()),
                    fp8_weights(source, form),
                    bare ? family.tensors.prefix.size() : 0};
  if (form.fp8 == Fp8Weights::all && from.in_fp8.empty())
    throw UserError(
        "{}: no product {} has rows of whole blocks of {} columns, as fp8 needs them",
        source.weights().where(),
        source.weights().trained_scales() != nullptr ? "that was trained in 8 bits" : "of a layer",
        kBlockColumns);
  const std::vector<TensorContent> tensors = foreign_tensors(from);
  checkpoint::StagedFolder folder(target);
  write_shards(folder.path(), tensors, form.shard_bytes);
  for (const auto& [name, text] : foreign_texts(from)) {
    make_folders((folder.path() / name).parent_path());
    write_file_durable(
        folder.path() / name, [&](File& file) { file.write(text); }, false);
  }
  folder.put_in_place();
  return {static_cast<int64_t>(tensors.size()), source.spec().num_parameters(), digest.finish()};
}

}  // namespace megalith::store
