// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/reader.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "base/file.h"
#include "base/file_hash.h"
#include "base/integer.h"
#include "base/thread_pool.h"
#include "checkpoint/manifest.h"
#include "checkpoint/own_file.h"
#include "checkpoint/safetensors.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxManifestBytes = int64_t{256} << 20;

/// What hashes files and pieces in a manifest of `version`.
enum class HashKind { sha256, xxh3_128 };
HashKind hash_kind(int64_t version) { return version == 1 ? HashKind::sha256 : HashKind::xxh3_128; }

/// Of `bytes` bytes that read(buffer, size, offset) gives.
template <typename Read>
std::string hash_of_parts(HashKind kind, int64_t bytes, const AtWork& at_work, const Read& read) {
  Sha256 sha;
  FileHash fast;
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(bytes, int64_t{1} << 20)));
  for (int64_t at = 0; at < bytes;) {
    const int64_t part = std::min(static_cast<int64_t>(buffer.size()), bytes - at);
    if (at_work) at_work();
    read(buffer.data(), part, at);
    if (kind == HashKind::sha256) {
      sha.update(buffer.data(), static_cast<size_t>(part));
    } else {
      fast.update(buffer.data(), static_cast<size_t>(part));
    }
    at += part;
  }
  return kind == HashKind::sha256 ? sha.finish() : fast.digest();
}

std::string hash_of(HashKind kind, const File& file, int64_t bytes, const AtWork& at_work) {
  return hash_of_parts(kind, bytes, at_work, [&](void* to, int64_t size, int64_t at) {
    file.read_at(to, static_cast<size_t>(size), at);
  });
}

std::string hash_of(HashKind kind, const SafetensorsFile& file, const SafetensorsEntry& entry,
                    const AtWork& at_work) {
  return hash_of_parts(kind, entry.bytes, at_work,
                       [&](void* to, int64_t size, int64_t at) { file.read(entry, at, size, to); });
}

/// Reads what `here` (the part of a tensor of `shape` that `entry` holds) and `wanted` share.
void read_overlap(const SafetensorsFile& file, const SafetensorsEntry& entry, const Shape& shape,
                  Shard here, Shard wanted, void* host, const AtWork& at_work) {
  const bool all_here = here.is_whole(shape), all_wanted = wanted.is_whole(shape);
  if ((all_here && all_wanted) || here == wanted)
    return file.read(entry, 0, entry.bytes, host, at_work);
  // What is whole is so along every dimension.
  if (all_here) here = {wanted.dim, 0, shape[wanted.dim]};
  if (all_wanted) wanted = {here.dim, 0, shape[here.dim]};
  MEGA_CHECK_EQ(here.dim, wanted.dim);
  int64_t outer = 1, inner = bytes_of(*entry.dtype);
  for (int dim = 0; dim < here.dim; ++dim) outer *= shape[dim];
  for (int dim = here.dim + 1; dim < shape.num_dims(); ++dim) inner *= shape[dim];
  for (const ShardRun& held : here.runs()) {
    for (const ShardRun& asked : wanted.runs()) {
      const int64_t begin = std::max(asked.begin, held.begin);
      const int64_t end = std::min(asked.begin + asked.count, held.begin + held.count);
      for (int64_t o = 0; begin < end && o < outer; ++o) {  // around the cut dimension
        const int64_t from = o * here.extent() + held.local + begin - held.begin;
        const int64_t to = (o * wanted.extent() + asked.local + begin - asked.begin) * inner;
        file.read(entry, from * inner, (end - begin) * inner, static_cast<std::byte*>(host) + to,
                  at_work);
      }
    }
  }
}

/// "; it holds tensor a", "; it holds tensor a and 4 more", or nothing.
std::string tensors_note(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  if (names.size() == 1) return fmt::format("; it holds tensor {}", names[0]);
  return fmt::format("; it holds tensor {} and {} more", names[0], names.size() - 1);
}

}  // namespace

struct Reader::Impl {
  fs::path folder;
  AtWork default_at_work;  // where a call names none
  Manifest manifest;
  std::vector<TensorInfo> tensors;
  std::map<std::string, size_t> index;
  std::mutex mutex;  // of what reading adds:
  std::set<std::string> verified;
  std::map<std::string, SafetensorsFile> open;

  const FileRecord& record(const std::string& name) const {
    return *std::ranges::find(manifest.files, name, &FileRecord::name);
  }
  void check_size(const FileRecord& file) const;
  void verify(const FileRecord& file, const AtWork& at_work) const;
  std::string damage_in(const FileRecord& file, const AtWork& at_work) const;
  const SafetensorsFile& tensor_file(const std::string& name, const AtWork& at_work) {
    const std::lock_guard lock(mutex);
    if (!verified.contains(name)) verify(record(name), at_work);
    verified.insert(name);
    return open.try_emplace(name, folder / name).first->second;
  }
};

void Reader::Impl::check_size(const FileRecord& file) const {
  const fs::path path = folder / file.name;
  std::string fault;
  if (kind_of(path) != fs::file_type::regular) {
    fault = "is missing or not a regular file";
  } else if (const int64_t size = open_own(path).size(); size != file.bytes) {
    fault = fmt::format("has {} bytes, the manifest says {}", size, file.bytes);
  } else {
    return;
  }
  // Which tensors that concerns.
  std::vector<std::string> held;
  for (const TensorRecord& tensor : manifest.tensors) {
    if (std::ranges::find(tensor.pieces, file.name, &PieceRecord::file) != tensor.pieces.end())
      held.push_back(tensor.name);
  }
  throw IntegrityError("{} {}{}", path.string(), fault, tensors_note(held));
}

void Reader::Impl::verify(const FileRecord& file, const AtWork& at_work) const {
  const fs::path path = folder / file.name;
  if (hash_of(hash_kind(manifest.version), open_own(path), file.bytes, at_work) == file.hash)
    return;
  throw IntegrityError("{}: the content does not match its hash; {}", path.string(),
                       damage_in(file, at_work));
}

/// Which part of a file with a wrong hash is wrong.
std::string Reader::Impl::damage_in(const FileRecord& file, const AtWork& at_work) const {
  if (!file.name.ends_with(".safetensors")) return "the file is damaged";
  try {
    const SafetensorsFile content(folder / file.name);
    for (const TensorRecord& tensor : manifest.tensors) {
      const auto piece = std::ranges::find(tensor.pieces, file.name, &PieceRecord::file);
      if (piece == tensor.pieces.end()) continue;
      const SafetensorsEntry* entry = content.find(tensor.name);
      if (entry == nullptr) return fmt::format("tensor {} is not in it", tensor.name);
      const bool own = !piece->hash.empty();
      const HashKind kind = own ? hash_kind(manifest.version) : HashKind::sha256;
      if (hash_of(kind, content, *entry, at_work) != (own ? piece->hash : tensor.sha256)) {
        return fmt::format("tensor {} is damaged", tensor.name);
      }
    }
  } catch (const IntegrityError& error) {
    return fmt::format("its header is damaged ({})", error.what());
  }
  return "its header is damaged";
}

Reader::Reader(const fs::path& folder, AtWork at_work) : impl_(std::make_unique<Impl>()) {
  impl_->folder = folder;
  impl_->default_at_work = std::move(at_work);
  const fs::path manifest_path = folder / kManifestName;
  const std::string commit = read_own(folder / kCommitName, 4096);
  const std::string text = read_own(manifest_path, kMaxManifestBytes);
  if (sha256(std::as_bytes(std::span(text))) + "\n" != commit) {
    throw IntegrityError(
        "{}: its SHA-256 is not the one in {}; the checkpoint is incomplete or damaged",
        manifest_path.string(), kCommitName);
  }
  impl_->manifest = Manifest::parse(text, manifest_path);
  fs::path name = folder.filename();
  if (name.empty()) name = folder.parent_path().filename();
  const int64_t named_step = step_of_folder(name.string());
  if (named_step >= 0 && named_step != impl_->manifest.step) {
    throw IntegrityError("{}: is of step {}; the folder was renamed or its files swapped",
                         manifest_path.string(), impl_->manifest.step);
  }
  for (const FileRecord& file : impl_->manifest.files) impl_->check_size(file);
  for (const TensorRecord& tensor : impl_->manifest.tensors) {
    impl_->index[tensor.name] = impl_->tensors.size();
    impl_->tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
}

Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

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
  const auto bytes = std::as_bytes(std::span(text));
  const bool is_sha256 = hash_kind(impl_->manifest.version) == HashKind::sha256;
  if ((is_sha256 ? sha256(bytes) : file_hash(bytes)) != record.hash) {
    throw IntegrityError("{}: the content does not match its hash; the file is damaged",
                         (impl_->folder / name).string());
  }
  return text;
}

std::vector<std::string> Reader::text_names() const {
  std::vector<std::string> names;
  for (const FileRecord& file : impl_->manifest.files) {
    if (!file.name.ends_with(".safetensors")) names.push_back(file.name);
  }
  return names;
}

void Reader::verify_all() const {
  const auto& files = impl_->manifest.files;
  ThreadPool pool(std::clamp(static_cast<int>(files.size()), 1, available_cores()));
  // Largest first to the thread with least to do would be better; files are of equal size by
  // design.
  pool.run([&](int thread) {
    for (size_t i = static_cast<size_t>(thread); i < files.size();
         i += static_cast<size_t>(pool.num_threads())) {
      impl_->verify(files[i], impl_->default_at_work);
    }
  });
  const std::lock_guard lock(impl_->mutex);
  for (const FileRecord& file : files) impl_->verified.insert(file.name);
}

void Reader::read(const std::string& name, const Shard& wanted, void* host,
                  const AtWork& at_work) const {
  const AtWork& called = at_work ? at_work : impl_->default_at_work;
  const auto found = impl_->index.find(name);
  MEGA_CHECK(found != impl_->index.end(), "no tensor {}", name);
  const TensorRecord& tensor = impl_->manifest.tensors[found->second];
  for (const PieceRecord& piece : tensor.pieces) {
    const SafetensorsFile& file = impl_->tensor_file(piece.file, called);
    const SafetensorsEntry* entry = file.find(name);
    const Shard held = piece.shard();
    if (entry == nullptr || entry->dtype != tensor.dtype ||
        entry->shape != held.local_shape(tensor.shape)) {
      throw IntegrityError("{}: tensor {} is not there as the manifest says", file.path().string(),
                           name);
    }
    read_overlap(file, *entry, tensor.shape, held, wanted, host, called);
  }
}

}  // namespace megalith::checkpoint
