// SPDX-License-Identifier: Apache-2.0
// run.json: what a run is and where it stands, for people and for the report.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace megalith::train {

class RunRecord {
 public:
  /// Keeps what an earlier start of the same run wrote, if there is a readable run.json.
  /// UserError when a link stands in its place.
  explicit RunRecord(std::filesystem::path folder);
  nlohmann::ordered_json& json() { return json_; }
  /// Replaces run.json durably.
  void write() const;

 private:
  std::filesystem::path path_;
  nlohmann::ordered_json json_;
};

}  // namespace megalith::train
