// SPDX-License-Identifier: Apache-2.0
#include "protocols/json_body.h"

#include <cmath>

#include "base/json_fault.h"
#include "protocols/api_error.h"

namespace megalith::protocols {
namespace {

/// Counts what a document holds; stops at the first limit. Faults are json_fault's to find.
class Counter : public nlohmann::json_sax<Json> {
 public:
  explicit Counter(const JsonLimits& limits) : limits_(limits) {}
  std::string fault;

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t& digits) override {
    if (digits.size() <= limits_.number_digits) return value();
    return refuse(fmt::format("has a number of more than {} characters", limits_.number_digits));
  }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return keys_.pop_back(), true; }
  bool end_array() override { return keys_.pop_back(), true; }
  bool key(string_t&) override {
    if (++keys_.back() <= limits_.keys) return true;
    return refuse(fmt::format("has an object of more than {} keys", limits_.keys));
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  bool value() {
    if (++values_ <= limits_.values) return true;
    return refuse(fmt::format("has more than {} values", limits_.values));
  }
  bool open() {
    keys_.push_back(0);
    if (keys_.size() <= limits_.levels) return value();
    return refuse(fmt::format("is nested too deeply (more than {} levels)", limits_.levels));
  }
  bool refuse(std::string what) { return fault = std::move(what), false; }

  const JsonLimits& limits_;
  size_t values_ = 0;
  std::vector<size_t> keys_;  // of what is open
};

}  // namespace

Json parse_body(std::string_view text, const JsonLimits& limits) {
  Counter counter(limits);
  Json::sax_parse(text.begin(), text.end(), &counter);
  if (!counter.fault.empty()) throw ApiError("", "the body {}", counter.fault);
  if (const auto fault = json_fault(text, limits.levels)) {
    // The parser tells where, then shows the last bytes it read, which need not be UTF-8.
    throw ApiError("", "the body {}", *fault).with_reason("invalid_json");
  }
  Json body = Json::parse(text);
  if (!body.is_object()) throw ApiError("", "the body is not a JSON object");
  return body;
}

std::string text_of_json(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json json_of_logprob(double logprob) {
  // OpenAI's interface sends this for what is impossible.
  return std::isfinite(logprob) ? Json(logprob) : Json(-9999.0);
}

}  // namespace megalith::protocols
