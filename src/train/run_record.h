// SPDX-License-Identifier: Apache-2.0
// run.json: what a run is and where it stands, for people and for the report.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace megalith::train {

class RunRecord {
 public:
  /// Keeps what an earlier start of the same run wrote, if there is a readable run.json.
  /// UserError when a link stands in its place, IntegrityError when something else does.
  explicit RunRecord(std::filesystem::path folder);
  nlohmann::ordered_json& json() { return json_; }
  /// What was wrong with the run.json that was there, if anything was: what it said is lost.
  const std::optional<std::string>& damage() const { return damage_; }
  /// Replaces run.json durably.
  void write() const;

 private:
  void read();

  std::filesystem::path path_;
  nlohmann::ordered_json json_;
  std::optional<std::string> damage_;
};

}  // namespace megalith::train
