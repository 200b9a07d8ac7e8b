// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/file.h"
#include "base/integer.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxManifestBytes = int64_t{256} << 20;

std::string hash_of(const File& file, int64_t bytes) {
  Sha256 hash;
  std::vector<std::byte> buffer(size_t{4} << 20);
  for (int64_t at = 0; at < bytes;) {
    const auto part = std::min<int64_t>(static_cast<int64_t>(buffer.size()), bytes - at);
    file.read_at(buffer.data(), static_cast<size_t>(part), at);
    hash.update(buffer.data(), static_cast<size_t>(part));
    at += part;
  }
  return hash.finish();
}

/// A regular file of the folder itself: a link could lead anywhere.
File open_own(const fs::path& path) {
  if (!fs::is_regular_file(fs::symlink_status(path))) {
    throw IntegrityError("{} is missing or not a regular file", path.string());
  }
  return File(path, File::Mode::read);
}

std::string read_own(const fs::path& path, int64_t limit) {
  const File file = open_own(path);
  const int64_t size = file.size();
  if (size > limit) throw IntegrityError("{}: {} bytes are too many", path.string(), size);
  std::string text(static_cast<size_t>(size), '\0');
  file.read_at(text.data(), text.size(), 0);
  return text;
}

}  // namespace

struct Reader::Impl {
  fs::path folder;
  Manifest manifest;
  std::vector<TensorInfo> tensors;
  std::map<std::string, size_t> index;
  std::set<std::string> verified;
  std::map<std::string, SafetensorsFile> open;

  const FileRecord& record(const std::string& name) const {
    return *std::ranges::find(manifest.files, name, &FileRecord::name);
  }
  void verify(const FileRecord& file) const {
    const fs::path path = folder / file.name;
    if (hash_of(open_own(path), file.bytes) != file.sha256) {
      throw IntegrityError("{}: the content does not match its SHA-256; the file is damaged", path.string());
    }
  }
  SafetensorsFile& tensor_file(const std::string& name) {
    if (verified.insert(name).second) verify(record(name));
    return open.try_emplace(name, folder / name).first->second;
  }
};

Reader::Reader(const fs::path& folder) : impl_(std::make_unique<Impl>()) {
  impl_->folder = folder;
  const fs::path manifest_path = folder / kManifestName;
  std::string commit = read_own(folder / kCommitName, 4096);
  while (!commit.empty() && commit.back() == '\n') commit.pop_back();
  const std::string text = read_own(manifest_path, kMaxManifestBytes);
  if (sha256(std::as_bytes(std::span(text))) != commit) {
    throw IntegrityError("{}: its SHA-256 is not the one in {}; the checkpoint is incomplete or damaged",
                         manifest_path.string(), kCommitName);
  }
  impl_->manifest = Manifest::parse(text, manifest_path);
  for (const FileRecord& file : impl_->manifest.files) {
    const int64_t size = open_own(folder / file.name).size();
    if (size != file.bytes) {
      throw IntegrityError("{}: {} bytes, the manifest says {}", (folder / file.name).string(), size, file.bytes);
    }
  }
  for (const TensorRecord& tensor : impl_->manifest.tensors) {
    impl_->index[tensor.name] = impl_->tensors.size();
    impl_->tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
}

Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;

const fs::path& Reader::folder() const { return impl_->folder; }
int64_t Reader::step() const { return impl_->manifest.step; }
const std::vector<TensorInfo>& Reader::tensors() const { return impl_->tensors; }
const TensorInfo* Reader::find(const std::string& name) const {
  const auto found = impl_->index.find(name);
  return found == impl_->index.end() ? nullptr : &impl_->tensors[found->second];
}
const nlohmann::json& Reader::state() const { return impl_->manifest.state; }
const std::string& Reader::state_sha256() const { return impl_->manifest.state_sha256; }

std::optional<std::string> Reader::text(const std::string& name) const {
  const auto& files = impl_->manifest.files;
  if (std::ranges::find(files, name, &FileRecord::name) == files.end()) return std::nullopt;
  const FileRecord& record = impl_->record(name);
  std::string text = read_own(impl_->folder / name, record.bytes);
  if (sha256(std::as_bytes(std::span(text))) != record.sha256) {
    throw IntegrityError("{}: the content does not match its SHA-256; the file is damaged",
                         (impl_->folder / name).string());
  }
  return text;
}

void Reader::verify_all() const {
  ThreadPool pool(available_cores());
  const auto& files = impl_->manifest.files;
  // Largest first to the thread with least to do would be better; files are of equal size by design.
  pool.run([&](int thread) {
    for (size_t i = static_cast<size_t>(thread); i < files.size(); i += static_cast<size_t>(pool.num_threads())) {
      impl_->verify(files[i]);
    }
  });
  for (const FileRecord& file : files) impl_->verified.insert(file.name);
}

void Reader::read(const std::string& name, const Shard& shard, void* host) const {
  const auto found = impl_->index.find(name);
  MEGA_CHECK(found != impl_->index.end(), "no tensor {}", name);
  const TensorRecord& tensor = impl_->manifest.tensors[found->second];
  const bool scalar = tensor.shape.num_dims() == 0;
  for (const PieceRecord& piece : tensor.pieces) {
    SafetensorsFile& file = impl_->tensor_file(piece.file);
    const SafetensorsEntry* entry = file.find(name);
    Shape expected = tensor.shape;
    if (!scalar) expected.set(piece.dim, piece.count);
    if (entry == nullptr || entry->dtype != tensor.dtype || entry->shape != expected) {
      throw IntegrityError("{}: tensor {} is not there as the manifest says", file.path().string(), name);
    }
    if (scalar || (tensor.pieces.size() == 1 && shard.is_whole(tensor.shape))) {
      file.read(*entry, 0, entry->bytes, host);
      continue;
    }
    MEGA_CHECK_EQ(shard.dim, piece.dim);
    // The overlap of what is wanted and what is here, run by run around the cut dimension.
    const int64_t begin = std::max(shard.begin, piece.begin);
    const int64_t end = std::min(shard.begin + shard.count, piece.begin + piece.count);
    if (begin >= end) continue;
    int64_t outer = 1, inner = bytes_of(tensor.dtype);
    for (int dim = 0; dim < shard.dim; ++dim) outer *= tensor.shape[dim];
    for (int dim = shard.dim + 1; dim < tensor.shape.num_dims(); ++dim) inner *= tensor.shape[dim];
    for (int64_t o = 0; o < outer; ++o) {
      file.read(*entry, (o * piece.count + begin - piece.begin) * inner, (end - begin) * inner,
                static_cast<std::byte*>(host) + (o * shard.count + begin - shard.begin) * inner);
    }
  }
}

std::optional<fs::path> find_newest(const fs::path& checkpoints, bool verify) {
  if (!fs::is_directory(checkpoints)) return std::nullopt;
  std::map<int64_t, fs::path, std::greater<>> steps;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    const int64_t step = step_of_folder(entry.path().filename().string());
    // Without COMMIT a folder is a save that never finished, not a checkpoint.
    if (step >= 0 && fs::exists(entry.path() / kCommitName)) steps[step] = entry.path();
  }
  std::string first_fault;
  for (const auto& [step, folder] : steps) {
    try {
      const Reader reader(folder);
      if (verify) reader.verify_all();
      return folder;
    } catch (const Error& error) {
      log::warning("passing over the damaged checkpoint {}: {}", folder.string(), error.what());
      if (first_fault.empty()) first_fault = error.what();
    }
  }
  if (steps.empty()) return std::nullopt;
  throw IntegrityError("{}: none of {} checkpoints is whole ({}); restore one or choose another run.out",
                       checkpoints.string(), steps.size(), first_fault);
}

}  // namespace megalith::checkpoint
