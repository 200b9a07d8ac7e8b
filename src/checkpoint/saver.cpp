// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saver.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/state_digest.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Tensor files are cut here: bounds the work that one damaged file costs, and lets several threads
/// hash and write at once.
constexpr int64_t kFileBytes = int64_t{512} << 20;

/// A tensor in the snapshot.
struct HostTensor {
  std::string name;
  DType dtype;
  Shape shape;
  const std::byte* data;
  int64_t bytes;
};

/// The tensors of one file, in the order of their bytes.
struct FilePlan {
  std::string name;
  std::vector<size_t> tensors;  // into the snapshot
};

std::vector<FilePlan> plan_files(const std::vector<HostTensor>& tensors) {
  std::vector<FilePlan> plans;
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (plans.empty() || bytes + tensors[i].bytes > kFileBytes) {
      plans.emplace_back();
      bytes = 0;
    }
    plans.back().tensors.push_back(i);
    bytes += tensors[i].bytes;
  }
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].name = fmt::format("state-{:05}-of-{:05}.safetensors", i + 1, plans.size());
  }
  return plans;
}

/// Writes and hashes one file; fills the records of its tensors.
FileRecord write_tensors(const fs::path& folder, const FilePlan& plan, const std::vector<HostTensor>& tensors,
                         std::vector<TensorRecord>& records) {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, size_t> by_name;
  for (const size_t i : plan.tensors) {
    entries.push_back({tensors[i].name, tensors[i].dtype, tensors[i].shape, 0, 0});
    by_name[tensors[i].name] = i;
  }
  const std::string header = safetensors_header(entries);
  Sha256 hash;
  int64_t bytes = 0;
  const auto fill = [&](File& file) {
    file.write(header);
    hash.update(header.data(), header.size());
    bytes = static_cast<int64_t>(header.size());
    for (const SafetensorsEntry& entry : entries) {
      const size_t i = by_name.at(entry.name);
      const HostTensor& tensor = tensors[i];
      file.write(tensor.data, static_cast<size_t>(tensor.bytes));
      hash.update(tensor.data, static_cast<size_t>(tensor.bytes));
      bytes += tensor.bytes;
      records[i] = {tensor.name, tensor.dtype, tensor.shape,
                    sha256(std::span(tensor.data, static_cast<size_t>(tensor.bytes))),
                    {{plan.name, 0, 0, tensor.shape.num_dims() == 0 ? 1 : tensor.shape[0]}}};
    }
  };
  write_file_durable(folder / plan.name, fill, false);
  return {plan.name, bytes, hash.finish()};
}

/// Removes what no complete checkpoint needs: temporary files, step folders without COMMIT.
void clean(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool unfinished = step_of_folder(name) >= 0 && !fs::exists(entry.path() / kCommitName);
    if (unfinished || name.starts_with(".tmp-")) fs::remove_all(entry.path());
  }
}

/// Keeps the newest `keep` folders with COMMIT. COMMIT goes first, so that what is half removed is no
/// checkpoint.
void prune(const fs::path& folder, int64_t keep) {
  std::vector<std::pair<int64_t, fs::path>> steps;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int64_t step = step_of_folder(entry.path().filename().string());
    if (step >= 0 && fs::exists(entry.path() / kCommitName)) steps.emplace_back(step, entry.path());
  }
  std::ranges::sort(steps, std::greater<>());
  for (size_t i = static_cast<size_t>(std::max<int64_t>(keep, 1)); i < steps.size(); ++i) {
    fs::remove(steps[i].second / kCommitName);
    sync_folder(steps[i].second);
    fs::remove_all(steps[i].second);
  }
}

void check_space(const fs::path& folder, int64_t bytes) {
  const auto space = fs::space(folder);
  // The manifest and file-system overhead on top.
  const int64_t needed = bytes + bytes / 100 + (int64_t{1} << 20);
  if (space.available < static_cast<uintmax_t>(needed)) {
    throw SystemError("{}: a checkpoint needs {} bytes, the disk has {} free; make room or set checkpoint.keep lower",
                      folder.string(), needed, space.available);
  }
}

}  // namespace

struct Saver::Impl {
  fs::path folder;
  SaverOptions options;
  std::vector<std::byte> buffer;
  std::vector<HostTensor> snapshot;
  std::thread writer;
  std::exception_ptr failure;
  Saved saved;
  bool has_saved = false;

  void take_snapshot(device::Device& device, std::span<const TensorSource> tensors);
  void write(int64_t step, const nlohmann::json& state, const std::map<std::string, std::string>& texts);
  void join() {
    if (writer.joinable()) writer.join();
  }
};

void Saver::Impl::take_snapshot(device::Device& device, std::span<const TensorSource> tensors) {
  int64_t bytes = 0;
  for (const TensorSource& tensor : tensors) bytes += tensor.view.bytes();
  check_space(folder, bytes);
  buffer.resize(static_cast<size_t>(bytes));
  snapshot.clear();
  std::byte* at = buffer.data();
  device::Ticket last;
  for (const TensorSource& tensor : tensors) {
    MEGA_CHECK(tensor.view.is_contiguous());
    last = device.copy_to_host(at, tensor.view);
    snapshot.push_back({tensor.name, tensor.view.dtype(), tensor.view.shape(), at, tensor.view.bytes()});
    at += tensor.view.bytes();
  }
  device.wait(last);
}

void Saver::Impl::write(int64_t step, const nlohmann::json& state, const std::map<std::string, std::string>& texts) {
  const double begin = monotonic_seconds();
  const fs::path target = folder / step_folder_name(step);
  // A folder of this step can only be a damaged one that was passed over: it makes way.
  fs::remove_all(target);
  fs::create_directory(target);
  Manifest manifest;
  manifest.step = step;
  manifest.state = state;
  manifest.tensors.resize(snapshot.size());
  const std::vector<FilePlan> plans = plan_files(snapshot);
  manifest.files.resize(plans.size());
  ThreadPool pool(static_cast<int>(std::clamp<size_t>(plans.size(), 1, 2)));
  pool.run([&](int thread) {
    for (size_t i = static_cast<size_t>(thread); i < plans.size(); i += static_cast<size_t>(pool.num_threads())) {
      manifest.files[i] = write_tensors(target, plans[i], snapshot, manifest.tensors);
    }
  });
  for (const auto& [name, text] : texts) {
    write_file_durable(target / name, [&](File& file) { file.write(text); }, false);
    manifest.files.push_back({name, static_cast<int64_t>(text.size()), sha256(std::as_bytes(std::span(text)))});
  }
  StateDigest digest;
  for (const TensorRecord& tensor : manifest.tensors) {
    digest.add(tensor.name, tensor.dtype, tensor.shape, tensor.sha256);
  }
  manifest.state_sha256 = digest.finish();
  const std::string text = manifest.to_text();
  write_file_durable(target / kManifestName, text);  // with the folder: all entries are durable now
  sync_folder(folder);
  write_file_durable(target / kCommitName, sha256(std::as_bytes(std::span(text))) + "\n");
  prune(folder, options.keep);
  int64_t bytes = 0;
  for (const FileRecord& file : manifest.files) bytes += file.bytes;
  saved = {step, target, manifest.state_sha256, bytes, saved.snapshot_seconds, monotonic_seconds() - begin};
  has_saved = true;
}

Saver::Saver(fs::path folder, const SaverOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->folder = std::move(folder);
  impl_->options = options;
  std::error_code error;
  fs::create_directories(impl_->folder, error);
  if (error || !fs::is_directory(impl_->folder)) {
    throw UserError("{}: cannot be made a folder{}{}; choose another run.out", impl_->folder.string(),
                    error ? ": " : "", error ? error.message() : "");
  }
  clean(impl_->folder);
}

Saver::~Saver() { impl_->join(); }

void Saver::save(device::Device& device, int64_t step, std::span<const TensorSource> tensors, nlohmann::json state,
                 std::map<std::string, std::string> texts) {
  wait();
  const double begin = monotonic_seconds();
  impl_->take_snapshot(device, tensors);
  impl_->saved.snapshot_seconds = monotonic_seconds() - begin;
  impl_->has_saved = false;
  impl_->writer = std::thread([impl = impl_.get(), step, state = std::move(state), texts = std::move(texts)] {
    try {
      impl->write(step, state, texts);
    } catch (const Error&) {
      impl->failure = std::current_exception();
    } catch (const std::exception& error) {
      impl->failure = std::make_exception_ptr(
          SystemError("{}: saving step {} failed: {}; older checkpoints are whole", impl->folder.string(), step,
                      error.what()));
    }
  });
  if (!impl_->options.asynchronous) wait();
}

const Saved* Saver::wait() {
  impl_->join();
  if (impl_->failure != nullptr) std::rethrow_exception(std::exchange(impl_->failure, nullptr));
  return impl_->has_saved ? &impl_->saved : nullptr;
}

}  // namespace megalith::checkpoint
