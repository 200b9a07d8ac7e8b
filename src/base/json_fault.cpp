// SPDX-License-Identifier: Apache-2.0
#include "base/json_fault.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

namespace megalith {
namespace {

/// Each handler says whether to go on; the first fault ends the pass.
class Judge : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Judge(size_t most_levels) : most_levels_(most_levels) {}
  std::optional<std::string> fault;

  bool start_object(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    return refuse(fmt::format("names '{}' twice", name.substr(0, 100)));
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    return refuse(fmt::format("is not JSON: {}", std::string_view(error.what()).substr(0, 200)));
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

 private:
  bool open() {
    keys_.emplace_back();
    if (keys_.size() <= most_levels_) return true;
    return refuse(fmt::format("is nested too deeply (more than {} levels)", most_levels_));
  }
  bool close() {
    keys_.pop_back();
    return true;
  }
  bool refuse(std::string what) {
    fault = std::move(what);
    return false;
  }

  size_t most_levels_;
  std::vector<std::unordered_set<std::string>> keys_;  // of what is open
};

}  // namespace

std::optional<std::string> json_fault(std::string_view text, size_t most_levels) {
  Judge judge(most_levels);
  nlohmann::json::sax_parse(text.begin(), text.end(), &judge);
  return judge.fault;
}

}  // namespace megalith
