// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder_writer.h"

#include <algorithm>

#include "base/check.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/manifest.h"
#include "checkpoint/plain_name.h"
#include "checkpoint/staged_folder.h"
#include "checkpoint/state_digest.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Tensors [begin, end) go into one file.
struct FilePlan {
  std::string name;
  size_t begin = 0, end = 0;
};

std::vector<FilePlan> plan_files(const std::vector<TensorContent>& tensors, int64_t file_bytes) {
  std::vector<FilePlan> plans;
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (plans.empty() || bytes + tensors[i].bytes() > file_bytes) {
      plans.push_back({"", i, i});
      bytes = 0;
    }
    plans.back().end = i + 1;
    bytes += tensors[i].bytes();
  }
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].name = fmt::format("state-{:05}-of-{:05}.safetensors", i + 1, plans.size());
  }
  return plans;
}

FileRecord write_tensors(const fs::path& folder, const FilePlan& plan,
                         const std::vector<TensorContent>& tensors,
                         std::vector<TensorRecord>& records) {
  const auto part = std::span(tensors).subspan(plan.begin, plan.end - plan.begin);
  const WrittenFile written = write_safetensors(folder / plan.name, part);
  for (size_t i = plan.begin; i < plan.end; ++i) {
    const TensorContent& tensor = tensors[i];
    const int64_t extent = tensor.shape.num_dims() == 0 ? 1 : tensor.shape[0];
    records[i] = {tensor.name,
                  tensor.dtype,
                  tensor.shape,
                  written.tensor_sha256.at(tensor.name),
                  {{plan.name, 0, 0, extent}}};
  }
  return {plan.name, written.bytes, written.sha256};
}

void write_all_tensors(const fs::path& folder, const std::vector<TensorContent>& tensors,
                       int threads, int64_t file_bytes, Manifest& manifest) {
  const std::vector<FilePlan> plans = plan_files(tensors, file_bytes);
  manifest.tensors.resize(tensors.size());
  manifest.files.resize(plans.size());
  ThreadPool pool(std::clamp(static_cast<int>(plans.size()), 1, threads));
  pool.run([&](int thread) {
    const auto stride = static_cast<size_t>(pool.num_threads());
    for (auto i = static_cast<size_t>(thread); i < plans.size(); i += stride) {
      manifest.files[i] = write_tensors(folder, plans[i], tensors, manifest.tensors);
    }
  });
}

void write_texts(const fs::path& folder, const std::map<std::string, std::string>& texts,
                 Manifest& manifest) {
  for (const auto& [name, text] : texts) {
    MEGA_CHECK(is_plain_name(name) && name != kManifestName && name != kCommitName &&
                   !name.ends_with(".safetensors"),
               "a checkpoint's text cannot be called {}", name);
    const std::string& content = text;  // clang 14 does not capture names of a binding
    write_file_durable(
        folder / name, [&](File& file) { file.write(content); }, false);
    manifest.files.push_back(
        {name, static_cast<int64_t>(text.size()), sha256(std::as_bytes(std::span(text)))});
  }
}

}  // namespace

FolderSummary write_checkpoint_folder(const fs::path& target, const FolderContent& content,
                                      int threads, int64_t file_bytes) {
  StagedFolder folder(target);
  Manifest manifest;
  manifest.step = content.step;
  manifest.state = content.state;
  write_all_tensors(folder.path(), content.tensors, threads, file_bytes, manifest);
  write_texts(folder.path(), content.texts, manifest);
  StateDigest digest;
  for (const TensorRecord& tensor : manifest.tensors) {
    digest.add(tensor.name, tensor.dtype, tensor.shape, tensor.sha256);
  }
  manifest.state_sha256 = digest.finish();
  const std::string text = manifest.to_text();
  // With the folder: every file and its entry are durable before COMMIT vouches for them.
  write_file_durable(folder.path() / kManifestName, text);
  write_file_durable(folder.path() / kCommitName, sha256(std::as_bytes(std::span(text))) + "\n");
  folder.put_in_place();
  FolderSummary summary{manifest.state_sha256, 0};
  for (const FileRecord& file : manifest.files) summary.bytes += file.bytes;
  return summary;
}

}  // namespace megalith::checkpoint
