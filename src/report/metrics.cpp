// SPDX-License-Identifier: Apache-2.0
// ordered_json keeps the keys in the order of the contract, and writes each double in the shortest
// form that reads back as the same bits.
#include "report/metrics.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_fault.h"
#include "base/json_number.h"
#include "base/line_reader.h"
#include "report/hex_float.h"

namespace megalith::report {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostLineBytes = int64_t{16} << 20;  // there may be 65536 tasks

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

const Json& field(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end()) throw IntegrityError("no key \"{}\"", key);
  return *found;
}

int64_t integer_field(const Json& line, const char* key) {
  const Json& value = field(line, key);
  const auto integer = whole_number_in(value);
  if (!integer) throw IntegrityError("\"{}\" is {}, not an integer", key, value.dump());
  return *integer;
}

double number_of(const Json& value, std::string_view key) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) throw IntegrityError("\"{}\" is {}, not a number", key, value.dump());
  return value.get<double>();
}

double number_field(const Json& line, const char* key) { return number_of(field(line, key), key); }

/// The number under `key` from its hex twin, which is exact and knows infinities; the two must
/// agree.
double twin_field(const Json& line, const char* key, const char* hex_key) {
  const double plain = number_field(line, key);
  const Json& text = field(line, hex_key);
  const auto exact =
      text.is_string() ? parse_hex_float(text.get_ref<const std::string&>()) : std::nullopt;
  if (!exact) throw IntegrityError("\"{}\" is {}, not a hexadecimal float", hex_key, text.dump());
  if (std::isfinite(*exact) ? *exact != plain : !std::isnan(plain)) {
    throw IntegrityError("\"{}\" and \"{}\" are not the same number", key, hex_key);
  }
  return *exact;
}

/// What not every line has, in the order of writing.
template <typename Metrics>
auto optional_values(Metrics& m) {
  return std::array{std::pair{"pair_loss", &m.pair_loss},
                    std::pair{"validation_loss", &m.validation_loss},
                    std::pair{"validation_pair_loss", &m.validation_pair_loss},
                    std::pair{"loss_scale", &m.loss_scale},
                    std::pair{"overflowed_steps", &m.overflowed_steps},
                    std::pair{"fp8_loss_difference", &m.fp8_loss_difference},
                    std::pair{"fp8_gradient_cosine", &m.fp8_gradient_cosine},
                    std::pair{"fp8_saturated", &m.fp8_saturated},
                    std::pair{"fp8_flushed", &m.fp8_flushed},
                    std::pair{"fp8_products_in_16_bits", &m.fp8_products_in_16_bits}};
}

/// Objects of what has names of its own, in the order of writing.
template <typename Metrics>
auto named_values(Metrics& m) {
  return std::array{std::pair{"validation_scores", &m.validation_scores},
                    std::pair{"validation_task_losses", &m.validation_task_losses}};
}

/// There may be many, and ordered_json goes over all members before it adds or finds one by name.
Json object_of(const NamedValues& values) {
  Json object = Json::object();
  auto& members = object.get_ref<Json::object_t&>();
  members.reserve(values.size());
  for (const auto& [name, value] : values) members.emplace_back(name, number(value));
  return object;
}

NamedValues read_named(const Json& line, const char* key) {
  NamedValues values;
  const auto found = line.find(key);
  if (found == line.end()) return values;
  if (!found->is_object()) throw IntegrityError("\"{}\" is {}, not an object", key, found->dump());
  values.reserve(found->size());
  for (const auto& [name, value] : found->items())
    values.emplace_back(name, number_of(value, name));
  return values;
}

constexpr std::string_view kValidation = "validation_";

void write_compared(const std::optional<ComparedMeans>& means, std::string_view before,
                    Json& line) {
  for (size_t i = 0; means && i < means->size(); ++i)
    line[std::string(before) + std::string(kComparedNames[i])] = number((*means)[i]);
}

std::optional<ComparedMeans> read_compared(const Json& line, std::string_view before) {
  const auto key = [&](size_t i) { return std::string(before) + std::string(kComparedNames[i]); };
  if (!line.contains(key(0))) return std::nullopt;
  ComparedMeans means{};
  for (size_t i = 0; i < means.size(); ++i) means[i] = number_field(line, key(i).c_str());
  return means;
}

}  // namespace

std::string StepMetrics::to_json_line() const {
  Json line;
  line["step"] = step;
  line["tokens"] = tokens;
  line["samples"] = samples;
  line["loss"] = number(loss);
  line["loss_hex"] = hex_float(loss);
  line["lr"] = number(lr);
  line["grad_norm"] = number(grad_norm);
  line["grad_norm_hex"] = hex_float(grad_norm);
  line["step_seconds"] = number(step_seconds);
  line["tokens_per_second"] = number(tokens_per_second);
  line["mfu"] = number(mfu);
  line["memory_bytes"] = memory_bytes;
  for (const auto& [key, value] : optional_values(*this))
    if (*value) line[key] = number(**value);
  write_compared(compared, "", line);
  write_compared(validation_compared, kValidation, line);
  for (const auto& [key, values] : named_values(*this))
    if (!values->empty()) line[key] = object_of(*values);
  return line.dump() + '\n';
}

StepMetrics StepMetrics::parse(std::string_view text) {
  if (const auto fault = json_fault(text)) throw IntegrityError("{}", *fault);
  const Json line = Json::parse(text);
  if (!line.is_object()) throw IntegrityError("not a JSON object");
  StepMetrics metrics;
  metrics.step = integer_field(line, "step");
  metrics.tokens = integer_field(line, "tokens");
  metrics.samples = integer_field(line, "samples");
  metrics.loss = twin_field(line, "loss", "loss_hex");
  metrics.lr = number_field(line, "lr");
  metrics.grad_norm = twin_field(line, "grad_norm", "grad_norm_hex");
  metrics.step_seconds = number_field(line, "step_seconds");
  metrics.tokens_per_second = number_field(line, "tokens_per_second");
  metrics.mfu = number_field(line, "mfu");
  metrics.memory_bytes = integer_field(line, "memory_bytes");
  for (const auto& [key, value] : optional_values(metrics))
    if (line.contains(key)) *value = number_field(line, key);
  metrics.compared = read_compared(line, "");
  metrics.validation_compared = read_compared(line, kValidation);
  for (const auto& [key, values] : named_values(metrics)) *values = read_named(line, key);
  return metrics;
}

void visit_metrics(const std::filesystem::path& path, FunctionRef<void(const StepMetrics&)> visit) {
  require_regular(path);
  LineReader lines(path, kMostLineBytes);
  int64_t last = INT64_MIN;
  for (std::string_view line; lines.next(line);) {
    try {
      const StepMetrics next = StepMetrics::parse(line);
      if (next.step <= last) throw IntegrityError("step {} after step {}", next.step, last);
      last = next.step;
      visit(next);
    } catch (const IntegrityError& error) {
      throw IntegrityError("{}:{}: {}", path.string(), lines.number(), error.what());
    }
  }
  if (lines.is_too_long()) {
    throw IntegrityError("{}:{}: longer than {} bytes, which no step's line is", path.string(),
                         lines.number() + 1, kMostLineBytes);
  }
}

std::vector<StepMetrics> read_metrics(const std::filesystem::path& path) {
  std::vector<StepMetrics> all;
  visit_metrics(path, [&](const StepMetrics& metrics) { all.push_back(metrics); });
  return all;
}

std::optional<StepMetrics> last_metrics(const std::filesystem::path& path) {
  std::optional<StepMetrics> last;
  visit_metrics(path, [&](const StepMetrics& metrics) { last = metrics; });
  return last;
}

}  // namespace megalith::report
