// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/integer.h"
#include "base/json_fault.h"
#include "base/json_number.h"

namespace megalith::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

// In rising order of the reference writer's alignment rank.
constexpr std::array<std::pair<DType, std::string_view>, 11> kTypes{{{DType::u8, "U8"},
                                                                     {DType::f8_e5m2, "F8_E5M2"},
                                                                     {DType::f8_e4m3, "F8_E4M3"},
                                                                     {DType::f8_e8m0, "F8_E8M0"},
                                                                     {DType::u16, "U16"},
                                                                     {DType::f16, "F16"},
                                                                     {DType::bf16, "BF16"},
                                                                     {DType::i32, "I32"},
                                                                     {DType::f32, "F32"},
                                                                     {DType::f64, "F64"},
                                                                     {DType::i64, "I64"}}};

/// Bits of the format's other types; those of 4 and 6 bits must fill whole bytes.
constexpr std::array<std::pair<std::string_view, int64_t>, 11> kOtherTypes{{{"BOOL", 8},
                                                                            {"F4", 4},
                                                                            {"F6_E2M3", 6},
                                                                            {"F6_E3M2", 6},
                                                                            {"I8", 8},
                                                                            {"F8_E4M3FNUZ", 8},
                                                                            {"F8_E5M2FNUZ", 8},
                                                                            {"I16", 16},
                                                                            {"U32", 32},
                                                                            {"C64", 64},
                                                                            {"U64", 64}}};

size_t rank_of(DType dtype) {
  return static_cast<size_t>(
      std::ranges::find(kTypes, dtype, &std::pair<DType, std::string_view>::first) -
      kTypes.begin());
}

std::optional<DType> dtype_of(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &std::pair<DType, std::string_view>::second);
  return found == kTypes.end() ? std::nullopt : std::optional(found->first);
}

/// Bits of one element; nothing for an unknown type.
std::optional<int64_t> bits_of(std::string_view name) {
  if (const auto dtype = dtype_of(name)) return 8 * bytes_of(*dtype);
  const auto found =
      std::ranges::find(kOtherTypes, name, &std::pair<std::string_view, int64_t>::first);
  return found == kOtherTypes.end() ? std::nullopt : std::optional(found->second);
}

nlohmann::json parse_header(const std::string& path, const std::string& header) {
  // The format needs 3 levels.
  if (const auto fault = json_fault(header, 8))
    throw IntegrityError("{}: the header {}", path, *fault);
  return nlohmann::json::parse(header);
}

int64_t unsigned_number(const std::string& path, const std::string& name,
                        const nlohmann::json& json) {
  // "-0" is a number, and no size.
  const auto number = json.is_number_unsigned() ? whole_number_in(json) : std::nullopt;
  if (!number) throw IntegrityError("{}: tensor {}: '{}' is not a size", path, name, json.dump());
  return *number;
}

SafetensorsEntry parse_entry(const std::string& path, const std::string& name,
                             const nlohmann::json& json) {
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets")) {
    throw IntegrityError("{}: tensor {} must have exactly dtype, shape and data_offsets", path,
                         name);
  }
  SafetensorsEntry entry;
  entry.name = name;
  const std::string type = json["dtype"].is_string() ? json["dtype"].get<std::string>() : "";
  const auto bits_each = bits_of(type);
  if (!bits_each)
    throw IntegrityError("{}: tensor {} has the unknown type {}", path, name, json["dtype"].dump());
  entry.dtype = dtype_of(type);
  if (!json["shape"].is_array() || json["shape"].size() > static_cast<size_t>(kMaxTensorDims)) {
    throw IntegrityError("{}: tensor {}: its shape is not a list of at most {} sizes", path, name,
                         kMaxTensorDims);
  }
  std::vector<int64_t> dims;
  std::optional<int64_t> bits = *bits_each;
  for (const nlohmann::json& size : json["shape"]) {
    dims.push_back(unsigned_number(path, name, size));
    if (bits) bits = checked_multiply(*bits, dims.back());
  }
  if (!bits) throw IntegrityError("{}: tensor {}: its size overflows", path, name);
  if (*bits % 8 != 0) throw IntegrityError("{}: tensor {} does not fill whole bytes", path, name);
  entry.shape = Shape(std::span<const int64_t>(dims));
  const nlohmann::json& offsets = json["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) {
    throw IntegrityError("{}: tensor {}: data_offsets is not a pair", path, name);
  }
  entry.begin = unsigned_number(path, name, offsets[0]);
  const int64_t end = unsigned_number(path, name, offsets[1]);
  entry.bytes = *bits / 8;
  if (end < entry.begin || end - entry.begin != entry.bytes) {
    throw IntegrityError("{}: tensor {} takes bytes {} to {}, its shape and type need {}", path,
                         name, entry.begin, end, entry.bytes);
  }
  return entry;
}

void check_metadata(const std::string& path, const nlohmann::json& json) {
  bool strings = json.is_object();
  for (const nlohmann::json& value : json) strings = strings && value.is_string();
  if (!strings) throw IntegrityError("{}: __metadata__ must map names to strings", path);
}

/// Bytes must follow one another from the data's begin to the file's end.
void check_no_gaps(const std::string& path, const std::vector<SafetensorsEntry>& entries,
                   int64_t data_begin, int64_t file_size) {
  int64_t at = data_begin;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != at) {
      throw IntegrityError("{}: tensor {} begins at byte {}, expected {}: a hole or an overlap",
                           path, entry.name, entry.begin - data_begin, at - data_begin);
    }
    at += entry.bytes;
  }
  if (at != file_size)
    throw IntegrityError("{}: tensors end at byte {}, the file at {}", path, at, file_size);
}

}  // namespace

std::string safetensors_dtype(DType dtype) { return std::string(kTypes.at(rank_of(dtype)).second); }

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path, File::Mode::read) {
  const std::string name = path.string();
  if (!std::filesystem::is_regular_file(path)) throw IntegrityError("{}: not a regular file", name);
  const int64_t size = file_.size();
  if (size < 8) throw IntegrityError("{}: {} bytes are too few for a safetensors file", name, size);
  uint64_t length = 0;
  static_assert(std::endian::native == std::endian::little);
  file_.read_at(&length, 8, 0);
  if (length > static_cast<uint64_t>(kMaxHeaderBytes) || static_cast<int64_t>(length) > size - 8) {
    throw IntegrityError("{}: the header claims {} bytes, the file has {}", name, length, size);
  }
  std::string header(length, '\0');
  file_.read_at(header.data(), header.size(), 8);
  if (header.empty() || header.front() != '{')
    throw IntegrityError("{}: the header does not begin with {{", name);
  const nlohmann::json json = parse_header(name, header);
  const int64_t data_begin = 8 + static_cast<int64_t>(length);
  for (const auto& [key, value] : json.items()) {
    if (key == "__metadata__") {
      check_metadata(name, value);
      continue;
    }
    entries_.push_back(parse_entry(name, key, value));
    const auto begin = checked_add(entries_.back().begin, data_begin);
    if (!begin) throw IntegrityError("{}: tensor {}: its offset overflows", name, key);
    entries_.back().begin = *begin;
  }
  std::ranges::sort(entries_, {}, [](const SafetensorsEntry& e) {
    return std::pair(e.begin, e.begin + e.bytes);
  });
  check_no_gaps(name, entries_, data_begin, size);
  for (size_t i = 0; i < entries_.size(); ++i) index_[entries_[i].name] = i;
}

const SafetensorsEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

void SafetensorsFile::read(const SafetensorsEntry& entry, int64_t offset, int64_t size, void* host,
                           const AtWork& at_work) const {
  MEGA_CHECK(offset >= 0 && size >= 0 && offset + size <= entry.bytes);
  for (int64_t at = 0; at < size; at += kReadPartBytes) {
    if (at_work) at_work();
    file_.read_at(static_cast<std::byte*>(host) + at,
                  static_cast<size_t>(std::min(kReadPartBytes, size - at)),
                  entry.begin + offset + at);
  }
}

std::string safetensors_header(std::vector<SafetensorsEntry>& entries) {
  std::ranges::sort(entries, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(rank_of(*b.dtype), std::string_view(a.name)) <
           std::pair(rank_of(*a.dtype), std::string_view(b.name));
  });
  Json json;
  json["__metadata__"] = {{"format", "pt"}};
  int64_t at = 0;
  for (SafetensorsEntry& entry : entries) {
    MEGA_CHECK(entry.dtype.has_value());
    entry.bytes = entry.shape.num_elements() * bytes_of(*entry.dtype);
    entry.begin = at;
    at += entry.bytes;
    json[entry.name] = {
        {"dtype", safetensors_dtype(*entry.dtype)},
        {"shape", Json(std::vector<int64_t>(entry.shape.dims().begin(), entry.shape.dims().end()))},
        {"data_offsets", {entry.begin, at}}};
  }
  std::string text = json.dump();
  text.resize(round_up<size_t>(text.size(), 8), ' ');
  const uint64_t length = text.size();
  std::string header(8, '\0');
  std::memcpy(header.data(), &length, 8);
  header += text;
  for (SafetensorsEntry& entry : entries) entry.begin += static_cast<int64_t>(header.size());
  return header;
}

}  // namespace megalith::checkpoint
