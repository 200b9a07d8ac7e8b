// SPDX-License-Identifier: Apache-2.0
#include "store/convert.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/folder.h"
#include "base/log.h"
#include "checkpoint/folder_writer.h"
#include "families/hugging_face.h"
#include "families/model_spec_json.h"
#include "models/foreign_map.h"
#include "store/foreign_tensors.h"
#include "store/merged_weights.h"
#include "store/write_gguf.h"
#include "store/write_hugging_face.h"

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

}  // namespace

ConvertResult convert(const fs::path& from, const fs::path& to, std::string_view format,
                      std::string_view dtype_name, int64_t shard_bytes, Tokenizers tokenizer,
                      std::vector<TensorChoice> choices, const fs::path& adapter, Fp8Weights fp8) {
  if (format != "megalith" && format != "hf" && format != "gguf") {
    throw UserError("format '{}' is not known; choose megalith, hf or gguf", format);
  }
  const bool is_gguf = format == "gguf";
  const Quantization stored{is_gguf ? gguf_type(dtype_name) : std::nullopt, std::move(choices)};
  const std::optional<DType> dtype = is_gguf ? std::nullopt : storage_type(dtype_name);
  ModelSource source = ModelSource::open(from);
  if (fp8 == Fp8Weights::all && format != "hf")
    throw UserError("weights in fp8 are of a Hugging Face folder: format hf, not {}", format);
  if (!adapter.empty()) source = with_adapter_merged(std::move(source), adapter);
  if (format == "hf") models::check_expressible(source.spec());
  const fs::path target = free_target(to, is_gguf ? "file" : "folder");
  if (is_gguf) return write_gguf(source, target, stored, tokenizer);
  return format == "megalith" ? write_megalith(source, target, dtype)
                              : write_hugging_face(source, target, {dtype, fp8, shard_bytes});
}

}  // namespace megalith::store
