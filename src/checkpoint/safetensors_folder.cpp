// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors_folder.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_fault.h"
#include "checkpoint/plain_name.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;

/// tensor -> file of the index, checked.
std::map<std::string, std::string> parse_index(const fs::path& path) {
  const std::string where = path.string();
  const std::string text = read_regular(path, kMaxHeaderBytes);
  std::map<std::string, std::string> map;
  if (const auto fault = json_fault(text)) throw IntegrityError("{}: {}", where, *fault);
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    const nlohmann::json& entries = json.at("weight_map");
    if (!entries.is_object()) throw IntegrityError("{}: weight_map must be an object", where);
    for (const auto& [tensor, file] : entries.items()) {
      map[tensor] = file.get<std::string>();
      if (!is_plain_name(map[tensor])) {
        throw IntegrityError("{}: tensor {}: the file name '{}' is not plain", where, tensor,
                             map[tensor]);
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw IntegrityError("{}: not an index of safetensors files: {}", where, error.what());
  }
  return map;
}

/// ", only pytorch_model.bin", or nothing: weights in a form that is not read.
std::string pickled_note(const fs::path& folder) {
  if (!fs::is_directory(folder)) return "";
  for (const auto& entry : fs::directory_iterator(folder)) {
    for (const char* ending : {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack"}) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(ending)) return ", only " + name;
    }
  }
  return "";
}

}  // namespace

void require_inside(const fs::path& file, const fs::path& folder) {
  const fs::path home = fs::canonical(folder);
  const fs::path below = file.lexically_relative(folder).parent_path();
  const fs::path parent = fs::canonical(file).parent_path();
  if (parent == (below.empty() ? home : home / below) ||
      parent == home.parent_path().parent_path() / "blobs")
    return;
  throw IntegrityError("{} is a link that leads out of its folder; copy the file there",
                       file.string());
}

std::string read_inside(const fs::path& file, const fs::path& folder, int64_t limit) {
  require_inside(file, folder);
  return read_regular(file, limit);
}

SafetensorsFolder::SafetensorsFolder(const fs::path& folder) : folder_(folder) {
  if (fs::exists(folder / kSingleName)) {
    add(folder / kSingleName);
  } else if (fs::exists(folder / kIndexName)) {
    require_inside(folder / kIndexName, folder);
    open_shards(folder / kIndexName);
  } else {
    throw IntegrityError(
        "{}: neither {} nor {} is there{} (other formats can execute code and are "
        "not read; save the model as safetensors)",
        folder.string(), kSingleName, kIndexName, pickled_note(folder));
  }
}

void SafetensorsFolder::add(const fs::path& path) {
  if (!fs::is_regular_file(path)) {
    throw IntegrityError("{} is missing or not a regular file", path.string());
  }
  require_inside(path, folder_);
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  const SafetensorsFile& file = *files_.back();
  for (const SafetensorsEntry& entry : file.entries()) {
    const auto [other, added] = tensors_.try_emplace(entry.name, Location{&file, &entry});
    if (!added) {
      throw IntegrityError("{}: tensor {} is also in {}", path.string(), entry.name,
                           other->second.file->path().string());
    }
  }
}

void SafetensorsFolder::open_shards(const fs::path& index_path) {
  const std::map<std::string, std::string> map = parse_index(index_path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) names.insert(file);
  for (const std::string& name : names) add(folder_ / name);
  for (const auto& [tensor, file] : map) {
    const Location* location = find(tensor);
    if (location == nullptr || location->file->path().filename() != file) {
      throw IntegrityError("{}: tensor {} is missing; {} says it is there",
                           (folder_ / file).string(), tensor, index_path.filename().string());
    }
  }
  for (const auto& [name, location] : tensors_) {
    if (!map.contains(name)) {
      throw IntegrityError("{}: tensor {} is not in {}", location.file->path().string(), name,
                           index_path.filename().string());
    }
  }
}

const SafetensorsFolder::Location* SafetensorsFolder::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace megalith::checkpoint
