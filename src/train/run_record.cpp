// SPDX-License-Identifier: Apache-2.0
#include "train/run_record.h"

#include "base/file.h"

namespace megalith::train {

RunRecord::RunRecord(std::filesystem::path folder) : path_(std::move(folder) / "run.json") {
  if (!std::filesystem::exists(path_)) return;
  json_ = nlohmann::ordered_json::parse(read_file(path_, 16 << 20), nullptr, false);
  if (!json_.is_object()) json_ = nlohmann::ordered_json::object();
}

void RunRecord::write() const { write_file_durable(path_, json_.dump(2) + "\n"); }

}  // namespace megalith::train
