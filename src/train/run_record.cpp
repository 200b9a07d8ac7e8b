// SPDX-License-Identifier: Apache-2.0
#include "train/run_record.h"

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json_fault.h"
#include "report/run_record.h"

namespace megalith::train {

RunRecord::RunRecord(std::filesystem::path folder) : path_(std::move(folder) / "run.json") {
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(path_))) {
    throw UserError("{}: is a link, and what a run writes is its own; remove it", path_.string());
  }
  if (!std::filesystem::exists(path_)) return;
  require_regular(path_);
  read();
  if (!json_.is_object()) {
    if (!damage_) damage_ = "is not a JSON object";
    json_ = nlohmann::ordered_json::object();
  }
  // The one part that a run fills piece by piece; the others are written whole.
  if (json_.contains("memory") && !json_["memory"].is_object()) json_.erase("memory");
}

void RunRecord::read() {
  constexpr int64_t kMost = report::kMostRunFileBytes;
  if (const auto bytes = std::filesystem::file_size(path_); bytes > uint64_t{kMost}) {
    damage_ = fmt::format("has {} bytes, and a record {} at most", bytes, kMost);
    return;
  }
  const std::string text = read_file(path_, kMost);
  damage_ = json_fault(text);
  if (!damage_) json_ = nlohmann::ordered_json::parse(text);
}

void RunRecord::write() const {
  // The folder may have any name, also one that is not UTF-8: what is not becomes U+FFFD.
  const auto replace = nlohmann::json::error_handler_t::replace;
  write_file_durable(path_, json_.dump(2, ' ', false, replace) + "\n");
}

}  // namespace megalith::train
