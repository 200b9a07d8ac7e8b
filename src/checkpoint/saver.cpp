// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saver.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/log.h"
#include "checkpoint/disk_room.h"
#include "checkpoint/folder_writer.h"
#include "checkpoint/kept_checkpoints.h"
#include "checkpoint/manifest.h"
#include "checkpoint/staged_folder.h"
#include "checkpoint/step_folders.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Files that are hashed and written at once: while some wait for the disk, others hash. More would
/// take cores from training.
constexpr int kWriteThreads = 4;

/// What a save that streams from the device holds of it per file that is written at once.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

std::vector<int64_t> bytes_of_each(std::span<const TensorSource> tensors) {
  std::vector<int64_t> bytes;
  for (const TensorSource& tensor : tensors) bytes.push_back(tensor.view.bytes());
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

/// Makes the folder and proves that files can be made in it, of the longest name that a save gives
/// one, so that a run learns this before its first step. What it made stays until the result goes.
std::unique_ptr<StagedFolder> prepare(const fs::path& folder) {
  step_folders(folder);  // throws when it is a link
  make_folders(folder);
  clean_checkpoints(folder);
  try {
    auto probe = std::make_unique<StagedFolder>(folder / "probe");
    File(probe->path() / tensor_file_name(1, 1), File::Mode::create_new).close();
    return probe;
  } catch (const UserError& reason) {
    throw UserError("{}: cannot be written: {}, by run.out", folder.string(), reason.what());
  }
}

/// How many stay once there are enough.
int64_t number_of(const KeptCheckpoints& kept) { return kept.newest + (kept.best ? 1 : 0); }

}  // namespace

struct Saver::Impl {
  fs::path folder;
  SaverOptions options;
  comm::Communicator* world = nullptr;
  std::unique_ptr<comm::ControlMessages> ranks;  // of the writing threads; null: this rank alone
  Snapshot snapshot;
  std::thread writer;
  std::exception_ptr failure;
  Saved saved;
  bool has_saved = false;
  int64_t needed = 0;  // bytes of a save

  void write(FolderContent content);
  void tidy(int64_t step) const;
  bool leads() const { return ranks == nullptr || ranks->rank() == 0; }
  FolderNeeds all_of(const FolderNeeds& own);
  struct Room {
    FolderNeeds all;
    int64_t free = 0;  // bytes; rank 0's
  };
  Room check_room(std::span<const int64_t> tensor_bytes, int64_t text_bytes);
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
  tidy(content.step);
}

void Saver::Impl::tidy(int64_t step) const {
  if (!leads()) return;
  try {
    prune_checkpoints(folder, step, options.kept, [&] {
      if (ranks != nullptr) ranks->heartbeat();
    });
  } catch (const std::exception& error) {
    log::warning("{}: an old checkpoint could not be removed: {}", folder.string(), error.what());
  }
}

/// What all ranks write. Collective.
FolderNeeds Saver::Impl::all_of(const FolderNeeds& own) {
  if (ranks == nullptr) return own;
  const int64_t mine[] = {own.bytes, own.files, own.largest};
  const auto values = ranks->exchange_values(std::span<const int64_t>(mine), "state.needs");
  FolderNeeds all;
  for (size_t i = 0; i < values.size(); i += std::size(mine)) {
    all.bytes += values[i];
    all.files += values[i + 1];
    all.largest = std::max(all.largest, values[i + 2]);
  }
  return all;
}

/// Throws when there is none; what all ranks need. Collective.
Saver::Impl::Room Saver::Impl::check_room(std::span<const int64_t> tensor_bytes,
                                          int64_t text_bytes) {
  FolderNeeds own = needs_of(tensor_bytes);
  check_file_size(folder, own);
  own.bytes += text_bytes;
  const FolderNeeds all = all_of(own);
  needed = bytes_on_disk(all);
  return {all, leads() ? check_disk(folder, all) : 0};
}

Saver::Saver(fs::path folder, const SaverOptions& options, comm::Communicator* world)
    : impl_(std::make_unique<Impl>()) {
  impl_->folder = std::move(folder);
  impl_->options = options;
  impl_->world = world;
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

void Saver::require_room(std::span<const int64_t> tensor_bytes, int64_t text_bytes) {
  const Impl::Room room = impl_->check_room(tensor_bytes, text_bytes);
  if (impl_->leads())
    warn_of_scarce_room(impl_->folder, room.all, number_of(impl_->options.kept), room.free);
}

void Saver::tidy(int64_t step) {
  wait();
  if (!impl_->has_saved) impl_->tidy(step);  // a save has done it
}

void Saver::save(device::Device& device, int64_t step, std::span<const TensorSource> tensors,
                 nlohmann::json state, std::map<std::string, std::string> texts) {
  wait();
  int64_t text_bytes = 0;
  for (const auto& [name, text] : texts) text_bytes += static_cast<int64_t>(text.size());
  impl_->check_room(bytes_of_each(tensors), text_bytes);
  if (impl_->ranks != nullptr) {
    impl_->ranks->set_step(step);
    impl_->ranks->set_deadline(impl_->world->state().deadline_seconds);
  }
  impl_->has_saved = false;
  FolderContent content{step, {}, std::move(state), std::move(texts), impl_->needed};
  const auto write = [impl = impl_.get()](FolderContent&& what) {
    const int64_t which = what.step;
    try {
      impl->write(std::move(what));
    } catch (const std::exception& error) {
      // Ranks have told each other by now, for they may wait in their training threads; this error
      // is what they were told.
      impl->failure =
          impl->ranks != nullptr
              ? std::current_exception()
              : std::make_exception_ptr(save_failure(impl->folder / step_folder_name(which), which,
                                                     impl->needed, error.what()));
    }
  };
  if (impl_->options.asynchronous) {
    content.tensors = impl_->snapshot.take(device, tensors);
    try {
      impl_->writer = std::thread(write, std::move(content));
    } catch (const std::system_error& error) {
      throw save_failure(impl_->folder / step_folder_name(step), step, impl_->needed,
                         fmt::format("no thread can be made: {}", error.what()).c_str());
    }
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
