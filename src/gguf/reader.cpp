// SPDX-License-Identifier: Apache-2.0
#include "gguf/reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/integer.h"
#include "base/one_line.h"

namespace megalith::gguf {
namespace {

static_assert(std::endian::native == std::endian::little);

/// As a message shows it.
std::string shown(std::string_view name) { return one_line(name, 80); }

/// The bytes of a header one after the other. Whatever it holds, no more is asked of the file, or
/// allocated, than there is.
class Cursor {
 public:
  explicit Cursor(const File& file)
      : file_(file), name_(file.path().string()), size_(file.size()) {}

  const std::string& file_name() const { return name_; }
  int64_t position() const { return position_; }
  int64_t left() const { return std::min(size_, kMaxHeaderBytes) - position_; }

  /// Refuses `count` things of at least `bytes` each, of which the file cannot have so many.
  void require(uint64_t count, int64_t bytes, std::string_view what) const {
    if (bytes == 0 || count <= static_cast<uint64_t>(left() / bytes)) return;
    if (size_ > kMaxHeaderBytes) {
      throw IntegrityError("{}: {} at byte {}: {} of at least {} bytes do not fit a header of {}",
                           name_, what, position_, count, bytes, kMaxHeaderBytes);
    }
    throw IntegrityError("{}: {} at byte {}: {} of at least {} bytes, the file has {} left", name_,
                         what, position_, count, bytes, left());
  }

  template <typename T>
  T number(std::string_view what) {
    T value{};
    copy(&value, sizeof value, what);
    return value;
  }
  void copy(void* to, size_t bytes, std::string_view what) {
    require(bytes, 1, what);
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      if (position_ < begin_ || position_ >= begin_ + static_cast<int64_t>(buffer_.size())) fill();
      const auto from = static_cast<size_t>(position_ - begin_);
      const size_t part = std::min(bytes, buffer_.size() - from);
      std::memcpy(at, buffer_.data() + from, part);
      at += part;
      bytes -= part;
      position_ += static_cast<int64_t>(part);
    }
  }
  std::string bytes(uint64_t count, std::string_view what) {
    require(count, 1, what);
    std::string text(count, '\0');
    copy(text.data(), text.size(), what);
    return text;
  }

 private:
  void fill() {
    begin_ = position_;
    buffer_.resize(static_cast<size_t>(std::min<int64_t>(size_ - begin_, int64_t{1} << 16)));
    file_.read_at(buffer_.data(), buffer_.size(), begin_);
  }

  const File& file_;
  std::string name_;
  int64_t size_, position_ = 0, begin_ = 0;
  std::string buffer_;
};

uint32_t check_version(Cursor& cursor) {
  const std::string& name = cursor.file_name();
  if (cursor.left() < 4 || cursor.bytes(4, "the magic") != "GGUF")
    throw IntegrityError("{}: is no GGUF file: it does not begin with GGUF", name);
  const auto version = cursor.number<uint32_t>("the version");
  if (version == 2 || version == 3) return version;
  if (version != 0 && (version & 0xffff) == 0)
    throw UserError("{}: a big-endian GGUF file is not supported; convert it on its machine", name);
  throw UserError("{}: GGUF version {} is not supported, versions 2 and 3 are", name, version);
}

std::string read_name(Cursor& cursor, int64_t most, std::string_view what) {
  const auto length = cursor.number<uint64_t>(what);
  if (length == 0 || length > static_cast<uint64_t>(most)) {
    throw IntegrityError("{}: {} at byte {} has {} bytes, must have 1 to {}", cursor.file_name(),
                         what, cursor.position(), length, most);
  }
  return cursor.bytes(length, what);
}

/// Texts as they stand in the file, each with its length before it.
std::string read_texts(Cursor& cursor, uint64_t count, const std::string& what) {
  std::string all;
  for (uint64_t i = 0; i < count; ++i) {
    const auto length = cursor.number<uint64_t>(what);
    cursor.require(length, 1, what);
    const size_t at = all.size();
    all.resize(at + sizeof length + length);
    std::memcpy(all.data() + at, &length, sizeof length);
    cursor.copy(all.data() + at + sizeof length, length, what);
  }
  return all;
}

Value read_value(Cursor& cursor, const std::string& key) {
  const std::string what = "the value of " + shown(key);
  const std::string& name = cursor.file_name();
  auto type = static_cast<ValueType>(cursor.number<uint32_t>(what));
  const bool is_array = type == ValueType::array;
  uint64_t count = 1;
  if (is_array) {
    type = static_cast<ValueType>(cursor.number<uint32_t>(what));
    count = cursor.number<uint64_t>(what);
  }
  if (type == ValueType::array)
    throw UserError("{}: {} is an array of arrays, which is not supported", name, what);
  const bool is_text = type == ValueType::text;
  if (!is_text && bytes_of(type) == 0) {
    throw IntegrityError("{}: {} has the unknown type {}", name, what, static_cast<uint32_t>(type));
  }
  const int64_t each = is_text ? static_cast<int64_t>(sizeof(uint64_t)) : bytes_of(type);
  cursor.require(count, each, what);
  std::string bytes = is_text ? read_texts(cursor, count, what)
                              : cursor.bytes(count * static_cast<uint64_t>(each), what);
  if (type == ValueType::boolean &&
      std::ranges::any_of(bytes, [](char byte) { return byte != '\0' && byte != '\1'; })) {
    throw IntegrityError("{}: {} holds a truth value that is neither 0 nor 1", name, what);
  }
  return Value::stored(type, is_array, static_cast<int64_t>(count), std::move(bytes));
}

Metadata read_metadata(Cursor& cursor, uint64_t count) {
  Metadata metadata;
  for (uint64_t i = 0; i < count; ++i) {
    std::string key = read_name(cursor, kMaxKeyBytes, "a key");
    Value value = read_value(cursor, key);
    const auto [at, is_new] = metadata.emplace(std::move(key), std::move(value));
    if (!is_new)
      throw IntegrityError("{}: the key {} occurs twice", cursor.file_name(), shown(at->first));
  }
  return metadata;
}

int64_t read_alignment(const Metadata& metadata, const std::string& name) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return kDefaultAlignment;
  const auto alignment = found->second.integer();
  if (!alignment || *alignment < 1 || *alignment > kMaxAlignment ||
      !std::has_single_bit(static_cast<uint64_t>(*alignment))) {
    throw IntegrityError("{}: general.alignment must be a power of two up to {}", name,
                         kMaxAlignment);
  }
  return *alignment;
}

/// The sizes as we have them, the last the elements of a row.
Shape read_shape(Cursor& cursor, const std::string& tensor) {
  const std::string& name = cursor.file_name();
  const auto num_dims = cursor.number<uint32_t>("the dimensions of a tensor");
  if (num_dims > static_cast<uint32_t>(kMaxTensorDims)) {
    throw IntegrityError("{}: tensor {} has {} dimensions, at most {} are possible", name, tensor,
                         num_dims, kMaxTensorDims);
  }
  std::vector<int64_t> dims(num_dims);
  std::optional<int64_t> elements = 1;
  for (uint32_t dim = 0; dim < num_dims; ++dim) {
    const auto size = cursor.number<uint64_t>("the dimensions of a tensor");
    if (size == 0 || size > static_cast<uint64_t>(INT64_MAX)) {
      throw IntegrityError("{}: tensor {} has a dimension of {}", name, tensor, size);
    }
    dims[num_dims - 1 - dim] = static_cast<int64_t>(size);
    if (elements) elements = checked_multiply(*elements, static_cast<int64_t>(size));
  }
  if (!elements) throw IntegrityError("{}: tensor {}: its size overflows", name, tensor);
  return Shape(std::span<const int64_t>(dims));
}

/// `begin` counts from the first tensor's bytes, which nobody knows yet.
TensorEntry read_entry(Cursor& cursor) {
  const std::string& file = cursor.file_name();
  TensorEntry entry;
  entry.name = read_name(cursor, kMaxNameBytes, "the name of a tensor");
  const std::string name = shown(entry.name);
  entry.shape = read_shape(cursor, name);
  entry.type = static_cast<TensorType>(cursor.number<uint32_t>("the type of a tensor"));
  const BlockLayout* layout = find_block_layout(entry.type);
  if (layout == nullptr) {
    throw IntegrityError("{}: tensor {} has the unknown type {}", file, name,
                         static_cast<uint32_t>(entry.type));
  }
  const int num_dims = entry.shape.num_dims();
  const int64_t row = num_dims > 0 ? entry.shape[num_dims - 1] : 1;
  if (row % layout->elements != 0) {
    throw IntegrityError("{}: tensor {} has rows of {} elements, {} needs a multiple of {}", file,
                         name, row, layout->name, layout->elements);
  }
  const auto bytes = checked_multiply(entry.shape.num_elements() / layout->elements, layout->bytes);
  const auto offset = cursor.number<uint64_t>("the offset of a tensor");
  if (!bytes || offset > static_cast<uint64_t>(INT64_MAX))
    throw IntegrityError("{}: tensor {}: its size or offset overflows", file, name);
  entry.bytes = *bytes;
  entry.begin = static_cast<int64_t>(offset);
  return entry;
}

/// Each must begin where the one before ends, rounded up to the alignment, and the last must end
/// where the file does, padding aside.
void place(std::vector<TensorEntry>& tensors, int64_t data_begin, int64_t alignment,
           const Cursor& cursor, int64_t file_size) {
  std::ranges::sort(tensors, {}, &TensorEntry::begin);
  const std::string& file = cursor.file_name();
  int64_t at = 0;
  const int64_t room = std::max<int64_t>(file_size - data_begin, 0);
  for (TensorEntry& entry : tensors) {
    if (entry.begin != at) {
      throw IntegrityError("{}: tensor {} begins at byte {} of the data, expected {}: {}", file,
                           shown(entry.name), entry.begin, at,
                           entry.begin < at ? "it overlaps another" : "a hole");
    }
    if (entry.begin > room || entry.bytes > room - entry.begin) {
      throw IntegrityError("{}: tensor {} has {} bytes at byte {} of the data, the file ends at {}",
                           file, shown(entry.name), entry.bytes, entry.begin, room);
    }
    at = round_up(entry.begin + entry.bytes, alignment);
    entry.begin += data_begin;
  }
  if (room > at) {
    throw IntegrityError("{}: tensors end at byte {}, the file at {}", file, data_begin + at,
                         file_size);
  }
}

}  // namespace

bool is_gguf_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  File file(path, File::Mode::read);
  char magic[4] = {};
  return file.read(magic, sizeof magic) == sizeof magic &&
         std::string_view(magic, sizeof magic) == "GGUF";
}

Reader::Reader(const std::filesystem::path& path)
    : file_((require_regular(path), path), File::Mode::read) {
  const std::string name = path.string();
  Cursor cursor(file_);
  check_version(cursor);
  const auto num_tensors = cursor.number<uint64_t>("the number of tensors");
  const auto num_keys = cursor.number<uint64_t>("the number of keys");
  // Of a key: its length, one byte, the type, a value of one byte. Of a tensor: the same of its
  // name, the number of dimensions, the type, the offset.
  cursor.require(num_keys, 14, "keys");
  cursor.require(num_tensors, 25, "tensors");
  if (num_keys > kMaxKeys || num_tensors > kMaxTensors) {
    throw IntegrityError("{}: {} keys and {} tensors, at most {} and {} are read", name, num_keys,
                         num_tensors, kMaxKeys, kMaxTensors);
  }
  metadata_ = read_metadata(cursor, num_keys);
  alignment_ = read_alignment(metadata_, name);
  for (uint64_t i = 0; i < num_tensors; ++i) tensors_.push_back(read_entry(cursor));
  place(tensors_, round_up(cursor.position(), alignment_), alignment_, cursor, file_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!index_.emplace(tensors_[i].name, i).second)
      throw IntegrityError("{}: tensor {} occurs twice", name, shown(tensors_[i].name));
  }
}

const TensorEntry* Reader::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

void Reader::read(const TensorEntry& tensor, int64_t offset, int64_t size, void* host) const {
  MEGA_CHECK(offset >= 0 && size >= 0 && offset <= tensor.bytes - size);
  file_.read_at(host, static_cast<size_t>(size), tensor.begin + offset);
}

}  // namespace megalith::gguf
