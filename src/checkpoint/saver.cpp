// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saver.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/folder_writer.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/staged_folder.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Files that are hashed and written at once: while some wait for the disk, others hash. More would
/// take cores from training.
constexpr int kWriteThreads = 4;

/// What a save that streams from the device holds of it per file that is written at once.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

int64_t total_bytes(std::span<const TensorSource> tensors) {
  int64_t bytes = 0;
  for (const TensorSource& tensor : tensors) bytes += tensor.view.bytes();
  return bytes;
}

/// Hands a device tensor to `sink` in pieces. Several files may be written at once; the device's
/// stream is for one of them at a time.
void stream(device::Device& device, std::mutex& turn, const ConstView& view,
            const TensorContent::Sink& sink) {
  const int64_t element = bytes_of(view.dtype());
  const ConstView flat = view.reshape(Shape{view.num_elements()});
  const int64_t piece = std::min(kPieceBytes / element, flat.num_elements());
  std::vector<std::byte> host(static_cast<size_t>(piece * element));
  for (int64_t i = 0; i < flat.num_elements(); i += piece) {
    const ConstView part = flat.rows(i, std::min(piece, flat.num_elements() - i));
    {
      const std::lock_guard lock(turn);
      device.wait(device.copy_to_host(host.data(), part));
    }
    sink(std::span(host).first(static_cast<size_t>(part.bytes())));
  }
}

/// Removes what no checkpoint needs: temporary files and folders, step folders that were begun and
/// hold neither manifest nor COMMIT. Damaged checkpoints stay: whoever loads must see and name
/// them.
void clean(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool begun = step_of_folder(name) >= 0 && fs::is_directory(entry.symlink_status()) &&
                       !fs::exists(entry.path() / kCommitName) &&
                       !fs::exists(entry.path() / kManifestName);
    if (begun || name.starts_with(".tmp-")) fs::remove_all(entry.path());
  }
}

/// Throws when that cannot be seen now: a disk that does not answer is no reason to remove what it
/// holds.
bool is_whole(const fs::path& folder) {
  try {
    const Reader reader(folder);
    return true;
  } catch (const IntegrityError&) {
    return false;
  }
}

/// Keeps the newest `keep` whole checkpoints up to `step`, which was just saved, and removes older
/// ones and damaged ones among them. Later steps are not touched and do not count: they can only be
/// damaged ones that a resume passed over, and a run that gets there again replaces them. With two
/// places or more, the newest regular one has one of them.
void prune(const fs::path& folder, int64_t step, const SaverOptions& options) {
  std::map<int64_t, fs::path, std::greater<>> steps;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int64_t other = step_of_folder(entry.path().filename().string());
    if (other >= 0 && other <= step) steps[other] = entry.path();
  }
  const auto is_regular = [&](int64_t other) {
    return options.regular > 0 && other % options.regular == 0;
  };
  const auto keep = static_cast<size_t>(std::max<int64_t>(options.keep, 1));
  std::vector<int64_t> kept;
  for (const auto& [other, path] : steps) {
    const bool room = kept.size() < keep;
    const bool wanted = keep >= 2 && is_regular(other) && std::ranges::none_of(kept, is_regular);
    if ((!room && !wanted) || !is_whole(path)) continue;
    if (!room) kept.pop_back();
    kept.push_back(other);
  }
  for (const auto& [other, path] : steps) {
    if (std::ranges::find(kept, other) == kept.end()) remove_folder(path);
  }
}

/// Refuses before anything is written.
void check_space(const fs::path& folder, int64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) throw SystemError("{} (statvfs): {}", folder.string(), error.message());
  // The manifest and file-system overhead on top.
  const int64_t needed = bytes + bytes / 100 + (int64_t{1} << 20);
  if (space.available < static_cast<uintmax_t>(needed)) {
    throw SystemError(
        "{}: a checkpoint needs {} bytes, the disk has {} free; make room or set checkpoint.keep "
        "lower",
        folder.string(), needed, space.available);
  }
}

/// Makes the folder and proves that files can be made in it, so that a run learns this before its
/// first step. What it made stays until the result goes.
std::unique_ptr<StagedFolder> prepare(const fs::path& folder) {
  step_folders(folder);  // throws when it is a link
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder)) {
    throw UserError("{}: cannot be made a folder{}{}; choose another run.out", folder.string(),
                    error ? ": " : "", error ? error.message() : "");
  }
  try {
    clean(folder);
    return std::make_unique<StagedFolder>(folder / "probe");
  } catch (const std::exception& reason) {
    throw UserError("{}: cannot be written: {}; choose another run.out", folder.string(),
                    reason.what());
  }
}

}  // namespace

struct Saver::Impl {
  fs::path folder;
  SaverOptions options;
  std::unique_ptr<comm::Communicator> ranks;  // of the writing threads; null: this rank alone
  Snapshot snapshot;
  std::thread writer;
  std::exception_ptr failure;
  Saved saved;
  bool has_saved = false;

  void write(FolderContent content);
  SystemError failed(int64_t step, const char* reason) const;
  bool leads() const { return ranks == nullptr || ranks->rank() == 0; }
  int64_t bytes_of_all(int64_t bytes);
  void join() {
    if (writer.joinable()) writer.join();
  }
};

void Saver::Impl::write(FolderContent content) {
  const double begin = monotonic_seconds();
  const fs::path target = folder / step_folder_name(content.step);
  const FolderSummary summary =
      write_checkpoint_folder(target, content, kWriteThreads, kTensorFileBytes, ranks.get());
  saved.step = content.step;
  saved.folder = target;
  saved.state_sha256 = summary.state_sha256;
  saved.bytes = summary.bytes;
  saved.write_seconds = monotonic_seconds() - begin;
  has_saved = true;
  if (!leads()) return;
  try {
    prune(folder, content.step, options);
  } catch (const std::exception& error) {
    log::warning("{}: an old checkpoint could not be removed: {}", folder.string(), error.what());
  }
}

/// A failed save is a failed run (exit 1), whatever its cause.
SystemError Saver::Impl::failed(int64_t step, const char* reason) const {
  return SystemError("{}: saving step {} failed: {}; checkpoints from before are as they were",
                     folder.string(), step, reason);
}

/// What all ranks write. Collective.
int64_t Saver::Impl::bytes_of_all(int64_t bytes) {
  if (ranks == nullptr) return bytes;
  const auto all = ranks->exchange_values(std::span<const int64_t>(&bytes, 1), "state.bytes");
  return std::accumulate(all.begin(), all.end(), int64_t{0});
}

Saver::Saver(fs::path folder, const SaverOptions& options, comm::Communicator* world)
    : impl_(std::make_unique<Impl>()) {
  impl_->folder = std::move(folder);
  impl_->options = options;
  if (world != nullptr && world->size() > 1) impl_->ranks = world->for_second_thread("saving");
  const auto probe = impl_->leads() ? prepare(impl_->folder) : nullptr;
  if (impl_->ranks == nullptr) return;
  const std::string name = impl_->ranks->exchange(
      probe != nullptr ? probe->path().filename().string() : "", "folder of checkpoints")[0];
  if (!fs::is_directory(impl_->folder / name)) {
    throw UserError(
        "{}: rank {} does not see what rank 0 writes there; all ranks must share the run's folder: "
        "set run.out to a file system that they share",
        impl_->folder.string(), impl_->ranks->rank());
  }
  impl_->ranks->barrier("folder is shared");
}

Saver::~Saver() { impl_->join(); }

void Saver::reserve(device::Device& device, int64_t bytes) {
  if (impl_->options.asynchronous) impl_->snapshot.reserve(device, bytes);
}

void Saver::save(device::Device& device, int64_t step, std::span<const TensorSource> tensors,
                 nlohmann::json state, std::map<std::string, std::string> texts) {
  wait();
  const int64_t bytes = total_bytes(tensors), all_bytes = impl_->bytes_of_all(bytes);
  if (impl_->leads()) check_space(impl_->folder, all_bytes);
  if (impl_->ranks != nullptr) impl_->ranks->set_step(step);
  impl_->has_saved = false;
  FolderContent content{step, {}, std::move(state), std::move(texts)};
  const auto write = [impl = impl_.get()](FolderContent&& what) {
    const int64_t which = what.step;
    try {
      impl->write(std::move(what));
    } catch (const comm::RankFailure&) {
      impl->failure = std::current_exception();  // it names who failed first
    } catch (const std::exception& error) {
      const SystemError failure = impl->failed(which, error.what());
      impl->failure = std::make_exception_ptr(failure);
      // At once: the other ranks wait for this one's part, perhaps in their training threads.
      if (impl->ranks != nullptr) impl->ranks->abort(failure.what());
    }
  };
  if (impl_->options.asynchronous) {
    content.tensors = impl_->snapshot.take(device, tensors);
    impl_->writer = std::thread(write, std::move(content));
  } else {
    std::mutex turn;
    for (const TensorSource& tensor : tensors) {
      content.tensors.push_back(
          {tensor.name, tensor.view.dtype(), tensor.view.shape(),
           [&](TensorContent::Sink sink) { stream(device, turn, tensor.view, sink); }, tensor.cut});
    }
    write(std::move(content));
    wait();
  }
}

const Saved* Saver::wait() {
  impl_->join();
  if (impl_->failure != nullptr) std::rethrow_exception(std::exchange(impl_->failure, nullptr));
  return impl_->has_saved ? &impl_->saved : nullptr;
}

}  // namespace megalith::checkpoint
