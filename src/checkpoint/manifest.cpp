// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/integer.h"
#include "base/json_fault.h"
#include "base/json_number.h"
#include "checkpoint/plain_name.h"

namespace megalith::checkpoint {
namespace {

using Json = nlohmann::json;

bool is_hexadecimal(const std::string& text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}
bool is_sha256(const std::string& text) { return is_hexadecimal(text, 64); }

/// How a version writes files and pieces.
struct PieceFormat {
  const char* key;  // of their hashes
  size_t digits;
  size_t pieces_without;  // a tensor of so many has its own hash alone
  bool second_ranges;
};
PieceFormat format_of(int64_t version) {
  if (version == 1) return {"sha256", 64, 1, false};
  return {"xxh3_128", 32, 0, version >= 3};
}

int64_t integer(const Json& json, const char* key) {
  const auto number = whole_number_in(json.at(key));
  if (!number) throw std::invalid_argument(std::string(key) + " is not a whole number");
  return *number;
}

FileRecord parse_file(const Json& json, const PieceFormat& format) {
  FileRecord file{json.at("name").get<std::string>(), integer(json, "bytes"),
                  json.at(format.key).get<std::string>()};
  if (!is_plain_name(file.name))
    throw std::invalid_argument("file name '" + file.name + "' is not plain");
  if (file.bytes < 0 || !is_hexadecimal(file.hash, format.digits))
    throw std::invalid_argument("entry of file " + file.name);
  return file;
}

TensorRecord parse_tensor(const Json& json, const std::set<std::string>& files,
                          const PieceFormat& format) {
  TensorRecord tensor;
  tensor.name = json.at("name").get<std::string>();
  const auto fault = [&](const std::string& what) {
    return std::invalid_argument("tensor " + tensor.name + ": " + what);
  };
  const auto dtype = dtype_from_name(json.at("dtype").get<std::string>());
  if (!dtype) throw fault("unknown type");
  tensor.dtype = *dtype;
  std::vector<int64_t> dims;
  for (const Json& j : json.at("shape")) {
    const auto size = whole_number_in(j);
    if (!size || *size < 0) throw fault("impossible shape");
    dims.push_back(*size);
  }
  if (dims.size() > static_cast<size_t>(kMaxDims)) throw fault("too many dimensions");
  std::optional<int64_t> bytes = bytes_of(tensor.dtype);
  for (const int64_t size : dims) bytes = !bytes ? std::nullopt : checked_multiply(*bytes, size);
  if (!bytes) throw fault("impossible shape");
  tensor.shape = Shape(std::span<const int64_t>(dims));
  tensor.sha256 = json.at("sha256").get<std::string>();
  if (!is_sha256(tensor.sha256)) throw fault("its sha256 is not one");
  for (const Json& j : json.at("pieces")) {
    const int64_t dim = integer(j, "dim");
    if (dim < 0 || dim >= kMaxDims) throw fault("piece of an impossible dimension");
    PieceRecord piece{j.at("file").get<std::string>(), static_cast<int>(dim), integer(j, "begin"),
                      integer(j, "count"), j.value(format.key, "")};
    if (j.contains("second_begin")) {
      if (!format.second_ranges) throw fault("a piece of two ranges");
      piece.second_begin = integer(j, "second_begin");
      piece.second_count = integer(j, "second_count");
    }
    if (piece.hash.empty() && json["pieces"].size() > format.pieces_without)
      throw fault(std::string("a piece without its ") + format.key);
    if (!piece.hash.empty() && !is_hexadecimal(piece.hash, format.digits))
      throw fault(std::string("a piece's ") + format.key + " is not one");
    if (!files.contains(piece.file)) throw fault("piece in a file that is not listed");
    const int64_t extent = dims.empty() ? 1
                                        : (piece.dim >= 0 && piece.dim < tensor.shape.num_dims()
                                               ? tensor.shape[piece.dim]
                                               : -1);
    if (!tensor.pieces.empty() && piece.dim != tensor.pieces[0].dim)
      throw fault("pieces of several dimensions");
    for (const ShardRun& run : piece.shard().runs()) {
      if (run.begin < 0 || run.count < 0 || run.begin > extent || run.count > extent - run.begin)
        throw fault("pieces do not cover it");
    }
    tensor.pieces.push_back(piece);
  }
  if (tensor.uncovered_at()) throw fault("pieces do not cover it");
  return tensor;
}

}  // namespace

std::optional<int64_t> TensorRecord::uncovered_at() const {
  if (pieces.empty()) return 0;
  std::vector<ShardRun> runs;
  for (const PieceRecord& piece : pieces) {
    for (const ShardRun& run : piece.shard().runs()) {
      if (run.count > 0) runs.push_back(run);
    }
  }
  std::ranges::sort(runs, {}, &ShardRun::begin);
  int64_t covered = 0;
  for (const ShardRun& run : runs) {
    if (run.begin != covered) return covered;
    covered += run.count;
  }
  if (covered != (shape.num_dims() == 0 ? 1 : shape[pieces[0].dim])) return covered;
  return std::nullopt;
}

int64_t Manifest::needed_version() const {
  for (const TensorRecord& tensor : tensors) {
    for (const PieceRecord& piece : tensor.pieces) {
      if (piece.second_count > 0) return 3;
    }
  }
  return 2;
}

std::string Manifest::to_text() const {
  const char* const hash_key = format_of(version).key;
  nlohmann::ordered_json json;
  json["format_version"] = version;
  json["step"] = step;
  json["state_sha256"] = state_sha256;
  json["state"] = state;
  json["files"] = Json::array();
  for (const FileRecord& f : files)
    json["files"].push_back({{"name", f.name}, {"bytes", f.bytes}, {hash_key, f.hash}});
  json["tensors"] = Json::array();
  for (const TensorRecord& t : tensors) {
    nlohmann::ordered_json pieces = Json::array();
    for (const PieceRecord& p : t.pieces) {
      pieces.push_back({{"file", p.file}, {"dim", p.dim}, {"begin", p.begin}, {"count", p.count}});
      if (p.second_count > 0) {
        pieces.back()["second_begin"] = p.second_begin;
        pieces.back()["second_count"] = p.second_count;
      }
      if (!p.hash.empty()) pieces.back()[hash_key] = p.hash;
    }
    json["tensors"].push_back(
        {{"name", t.name},
         {"dtype", std::string(name_of(t.dtype))},
         {"shape", std::vector<int64_t>(t.shape.dims().begin(), t.shape.dims().end())},
         {"sha256", t.sha256},
         {"pieces", pieces}});
  }
  return json.dump(1) + "\n";
}

Manifest Manifest::parse(const std::string& text, const std::filesystem::path& path) {
  const std::string where = path.string();
  try {
    if (const auto fault = json_fault(text)) throw std::invalid_argument(*fault);
    const Json json = Json::parse(text);
    Manifest m;
    m.version = integer(json, "format_version");
    if (m.version > kFormatVersion) throw NewerFormatError(path, m.version);
    if (m.version < 1) throw IntegrityError("{}: there is no format version {}", where, m.version);
    const PieceFormat format = format_of(m.version);
    m.step = integer(json, "step");
    m.state_sha256 = json.at("state_sha256").get<std::string>();
    m.state = json.at("state");
    std::set<std::string> files, tensors;
    for (const Json& f : json.at("files")) {
      m.files.push_back(parse_file(f, format));
      if (!files.insert(m.files.back().name).second)
        throw std::invalid_argument("file " + m.files.back().name + " twice");
    }
    for (const Json& t : json.at("tensors")) {
      m.tensors.push_back(parse_tensor(t, files, format));
      if (!tensors.insert(m.tensors.back().name).second) {
        throw std::invalid_argument("tensor " + m.tensors.back().name + " twice");
      }
    }
    return m;
  } catch (const nlohmann::json::exception& error) {
    throw IntegrityError("{}: {}", where, error.what());
  } catch (const std::invalid_argument& error) {
    throw IntegrityError("{}: {}", where, error.what());
  }
}

std::string step_folder_name(int64_t step) { return fmt::format("step-{:08}", step); }

int64_t step_of_folder(const std::string& name) {
  if (!name.starts_with("step-") || name.size() < 13) return -1;
  int64_t step = -1;
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + 5, end, step);
  return error == std::errc() && stopped == end && step_folder_name(step) == name ? step : -1;
}

}  // namespace megalith::checkpoint
