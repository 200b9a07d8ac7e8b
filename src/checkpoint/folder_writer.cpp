// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder_writer.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/file.h"
#include "base/file_hash.h"
#include "base/thread_pool.h"
#include "checkpoint/cut_digest.h"
#include "checkpoint/kept_checkpoints.h"
#include "checkpoint/manifest.h"
#include "checkpoint/plain_name.h"
#include "checkpoint/rank_parts.h"
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

std::vector<FilePlan> plan_files(std::span<const int64_t> tensor_bytes, int64_t file_bytes) {
  std::vector<FilePlan> plans;
  int64_t bytes = 0;
  for (size_t i = 0; i < tensor_bytes.size(); ++i) {
    if (plans.empty() || bytes + tensor_bytes[i] > file_bytes) {
      plans.push_back({"", i, i});
      bytes = 0;
    }
    plans.back().end = i + 1;
    bytes += tensor_bytes[i];
  }
  return plans;
}

/// Tells the ranks that wait that this one is at work; nobody waits for one that is alone.
AtWork heartbeats_to(comm::ControlMessages* ranks) {
  return [ranks] {
    if (ranks != nullptr) ranks->heartbeat();
  };
}

/// Names run through the files of all ranks.
void name_files(std::vector<FilePlan>& plans, comm::ControlMessages* ranks) {
  const auto own = static_cast<int64_t>(plans.size());
  std::vector<int64_t> counts{own};
  if (ranks != nullptr)
    counts = ranks->exchange_values(std::span<const int64_t>(&own, 1), "state.files");
  const auto before = counts.begin() + (ranks != nullptr ? ranks->rank() : 0);
  const int64_t first = std::accumulate(counts.begin(), before, int64_t{1});
  const int64_t all = std::accumulate(before, counts.end(), first - 1);
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].name = tensor_file_name(first + static_cast<int64_t>(i), all);
  }
}

FileRecord write_tensors(const fs::path& folder, const FilePlan& plan,
                         const std::vector<TensorContent>& tensors,
                         std::vector<TensorRecord>& records, const AtWork& at_work) {
  const auto part = std::span(tensors).subspan(plan.begin, plan.end - plan.begin);
  const WrittenFile written = write_safetensors(folder / plan.name, part, at_work);
  for (size_t i = plan.begin; i < plan.end; ++i) {
    const TensorContent& tensor = tensors[i];
    const Cut cut = tensor.cut.value_or(Cut{tensor.shape, Shard::whole(tensor.shape)});
    MEGA_CHECK(cut.shard.local_shape(cut.whole) == tensor.shape, "tensor {} of {}", tensor.name,
               tensor.shape);
    const WrittenTensor& hashes = written.tensors.at(tensor.name);
    records[i] = {tensor.name,
                  tensor.dtype,
                  cut.whole,
                  hashes.sha256,
                  {{plan.name, cut.shard.dim, cut.shard.begin, cut.shard.count, hashes.hash,
                    cut.shard.second_begin, cut.shard.second_count}}};
  }
  return {plan.name, written.bytes, written.hash};
}

/// What this rank writes, told to all.
Parts write_all_tensors(const fs::path& folder, const std::vector<TensorContent>& tensors,
                        int threads, int64_t file_bytes, comm::ControlMessages* ranks) {
  std::vector<int64_t> sizes;
  for (const TensorContent& tensor : tensors) sizes.push_back(tensor.bytes());
  std::vector<FilePlan> plans = plan_files(sizes, file_bytes);
  name_files(plans, ranks);
  std::vector<TensorRecord> records(tensors.size());
  std::vector<FileRecord> files(plans.size());
  const AtWork at_work = heartbeats_to(ranks);
  ThreadPool pool(std::clamp(static_cast<int>(plans.size()), 1, threads));
  std::atomic<size_t> next = 0;  // files take as long as their disks do: whoever is free goes on
  pool.run([&](int) {
    for (size_t i = next++; i < plans.size(); i = next++)
      files[i] = write_tensors(folder, plans[i], tensors, records, at_work);
  });
  return join_parts(std::move(files), std::move(records), ranks);
}

/// Fills in the hashes of the tensors that several ranks hold; on rank 0 all of them. The work goes
/// round the holders.
void hash_cut_tensors(Parts& parts, const std::vector<TensorContent>& tensors,
                      comm::ControlMessages& ranks) {
  std::map<std::string_view, const TensorContent*> mine;
  for (const TensorContent& tensor : tensors) mine[tensor.name] = &tensor;
  nlohmann::json found = nlohmann::json::object();
  size_t turn = 0;
  for (const PlacedTensor& tensor : parts.tensors) {
    if (tensor.ranks.size() == 1) continue;
    const int hasher = tensor.ranks[turn++ % tensor.ranks.size()];
    if (std::ranges::find(tensor.ranks, ranks.rank()) == tensor.ranks.end()) continue;
    const std::string digest = digest_of_cut(ranks, tensor, hasher, *mine.at(tensor.record.name));
    if (!digest.empty()) found[tensor.record.name] = digest;
  }
  std::map<std::string, std::string> all;
  for (const std::string& text : ranks.exchange(found.dump(), "state.digests")) {
    all.merge(nlohmann::json::parse(text).get<std::map<std::string, std::string>>());
  }
  for (PlacedTensor& tensor : parts.tensors) {
    if (tensor.ranks.size() > 1) tensor.record.sha256 = all.at(tensor.record.name);
  }
}

void write_texts(const fs::path& folder, const std::map<std::string, std::string>& texts,
                 Manifest& manifest, const AtWork& at_work) {
  for (const auto& [name, text] : texts) {
    MEGA_CHECK(is_plain_name(name) && name != kManifestName && name != kCommitName &&
                   !name.ends_with(".safetensors"),
               "a checkpoint's text cannot be called {}", name);
    const std::string& content = text;  // clang 14 does not capture names of a binding
    write_file_durable(
        folder / name, [&](File& file) { file.write(content); }, false);
    manifest.files.push_back(
        {name, static_cast<int64_t>(text.size()), file_hash(std::as_bytes(std::span(text)))});
    at_work();
  }
}

/// Rank 0's part of the end: all that vouches for the files, then the folder under its name.
FolderSummary finish_folder(StagedFolder& folder, const FolderContent& content, Parts&& parts,
                            comm::ControlMessages* ranks) {
  const AtWork at_work = heartbeats_to(ranks);
  Manifest manifest;
  manifest.step = content.step;
  manifest.state = content.state;
  manifest.files = std::move(parts.files);
  for (PlacedTensor& tensor : parts.tensors) manifest.tensors.push_back(std::move(tensor.record));
  write_texts(folder.path(), content.texts, manifest, at_work);
  StateDigest digest;
  for (const TensorRecord& tensor : manifest.tensors) {
    digest.add(tensor.name, tensor.dtype, tensor.shape, tensor.sha256);
  }
  manifest.state_sha256 = digest.finish();
  manifest.version = manifest.needed_version();
  const std::string text = manifest.to_text();
  // With the folder: every file and its entry are durable before COMMIT vouches for them.
  write_file_durable(folder.path() / kManifestName, text);
  at_work();
  write_file_durable(folder.path() / kCommitName, sha256(std::as_bytes(std::span(text))) + "\n");
  at_work();
  folder.put_in_place();
  FolderSummary summary{manifest.state_sha256, 0};
  for (const FileRecord& file : manifest.files) summary.bytes += file.bytes;
  return summary;
}

FolderSummary write_alone(const fs::path& target, const FolderContent& content, int threads,
                          int64_t file_bytes) {
  require_replaceable(target);
  StagedFolder folder(target);
  return finish_folder(
      folder, content,
      write_all_tensors(folder.path(), content.tensors, threads, file_bytes, nullptr), nullptr);
}

FolderSummary write_together(std::optional<StagedFolder>& folder, const FolderContent& content,
                             int threads, int64_t file_bytes, comm::ControlMessages& ranks) {
  const std::string own = folder ? folder->path().string() : "";
  const fs::path path = ranks.exchange(own, "state.folder")[0];
  Parts parts = write_all_tensors(path, content.tensors, threads, file_bytes, &ranks);
  hash_cut_tensors(parts, content.tensors, ranks);
  // The entries of the files of other ranks are made durable by rank 0's fsync of the folder.
  FolderSummary summary;
  if (folder) summary = finish_folder(*folder, content, std::move(parts), &ranks);
  summary.state_sha256 = ranks.exchange(summary.state_sha256, "state.sha256")[0];
  summary.bytes =
      ranks.exchange_values(std::span<const int64_t>(&summary.bytes, 1), "state.bytes")[0];
  return summary;
}

}  // namespace

std::string tensor_file_name(int64_t number, int64_t of) {
  return fmt::format("state-{:05}-of-{:05}.safetensors", number, of);
}

SystemError save_failure(const fs::path& target, int64_t step, int64_t needed, const char* reason) {
  return SystemError(
      "{}: saving step {} failed: {}; a checkpoint needs {} bytes; checkpoints from before are as "
      "they were",
      target.string(), step, reason, needed);
}

FolderNeeds needs_of(std::span<const int64_t> tensor_bytes, int64_t file_bytes) {
  constexpr int64_t kHeaderBytes = 256;  // of a tensor's entry; a multiple of what names need
  FolderNeeds needs;
  for (const FilePlan& plan : plan_files(tensor_bytes, file_bytes)) {
    int64_t bytes = 0;
    for (size_t i = plan.begin; i < plan.end; ++i) bytes += tensor_bytes[i] + kHeaderBytes;
    needs.bytes += bytes;
    needs.largest = std::max(needs.largest, bytes);
    ++needs.files;
  }
  return needs;
}

FolderSummary write_checkpoint_folder(const fs::path& target, const FolderContent& content,
                                      int threads, int64_t file_bytes,
                                      comm::ControlMessages* ranks) {
  if (ranks == nullptr || ranks->size() == 1) {
    return write_alone(target, content, threads, file_bytes);
  }
  std::optional<StagedFolder> folder;
  try {
    if (ranks->rank() == 0) {
      require_replaceable(target);
      folder.emplace(target);
    }
    return write_together(folder, content, threads, file_bytes, *ranks);
  } catch (const comm::RankFailure&) {
    throw;
  } catch (const std::exception& error) {
    // All are told before the folder goes, so that nobody takes its absence for the cause.
    const SystemError failure = save_failure(target, content.step, content.needed, error.what());
    ranks->abort(failure.what());
    throw SystemError(failure);
  }
}

}  // namespace megalith::checkpoint
