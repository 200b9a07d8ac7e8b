// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/measured_table.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/line_reader.h"
#include "base/one_line.h"

namespace megalith::serving_plan {
namespace {

constexpr int64_t kMostLineBytes = 1 << 16;
constexpr size_t kMostRows = 1'000'000, kToldBytes = 40;
constexpr std::string_view kLatency = "Latency [ms]", kTtft = "TTFT [ms]", kTpot = "TPOT [ms]",
                           kThroughput = "Throughput per GPU [samples/sec/gpu]";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// The cells of a line; one in quotes may hold commas, and quotes twice.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  for (std::string& cell : cells) cell = trimmed(cell);
  return cells;
}

/// A finite number and nothing else.
template <typename T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stopped != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(static_cast<double>(value))) return std::nullopt;
  return value;
}

class Table {
 public:
  Table(std::string name, std::string_view header) : name_(std::move(name)) {
    if (header.starts_with("\xEF\xBB\xBF")) header.remove_prefix(3);
    const std::vector<std::string> names = cells_of(header);
    for (size_t i = 0; i < names.size(); ++i)
      if (!names[i].empty() && !columns_.emplace(names[i], i).second)
        throw UserError("{}:1: the column '{}' is there twice", name_, told(names[i]));
    width_ = names.size();
    for (const std::string_view needed :
         {std::string_view("TP"), std::string_view("PP"), std::string_view("BS"), kLatency})
      if (!columns_.contains(std::string(needed)))
        throw UserError("{}:1: has no column '{}'; the first line names TP,PP,BS,{}", name_, needed,
                        kLatency);
  }

  Candidate row(std::string_view line, int64_t number) const {
    const std::vector<std::string> cells = cells_of(line);
    const auto at = fmt::format("{}:{}", name_, number);
    if (cells.size() != width_)
      throw UserError("{}: has {} cells, the first line has {}", at, cells.size(), width_);
    Candidate c;
    c.tensor = whole(cells, "TP", at);
    c.pipeline = whole(cells, "PP", at);
    c.batch = whole(cells, "BS", at);
    const std::string& latency = cells[columns_.at(std::string(kLatency))];
    if (!number_in<double>(latency)) {
      c.failure = latency.empty() ? "no latency" : told(latency);
      return c;
    }
    c.latency_ms = *milliseconds(cells, kLatency, at);
    c.ttft_ms = milliseconds(cells, kTtft, at);
    c.tpot_ms = milliseconds(cells, kTpot, at);
    c.throughput = throughput_of(c);
    check_throughput(cells, c, at);
    return c;
  }

 private:
  static std::string told(std::string_view text) { return one_line(text, kToldBytes); }

  int64_t whole(const std::vector<std::string>& cells, const char* column,
                const std::string& at) const {
    const std::string& cell = cells[columns_.at(column)];
    const auto value = number_in<int64_t>(cell);
    if (!value || *value < 1 || *value > 1'000'000)
      throw UserError("{}: {} is '{}', not a whole number from 1 to 1000000", at, column,
                      told(cell));
    return *value;
  }

  /// Nothing where there is no such column, or nothing in it.
  std::optional<double> milliseconds(const std::vector<std::string>& cells, std::string_view column,
                                     const std::string& at) const {
    const auto found = columns_.find(std::string(column));
    if (found == columns_.end() || cells[found->second].empty()) return std::nullopt;
    const auto value = number_in<double>(cells[found->second]);
    if (!value || !(*value > 0 && *value < 1e12))
      throw UserError("{}: {} is '{}', not milliseconds above 0", at, column,
                      told(cells[found->second]));
    return value;
  }

  /// NeMo rounds to three digits behind the point, others to fewer.
  void check_throughput(const std::vector<std::string>& cells, const Candidate& c,
                        const std::string& at) const {
    const auto found = columns_.find(std::string(kThroughput));
    if (found == columns_.end() || cells[found->second].empty()) return;
    const auto value = number_in<double>(cells[found->second]);
    if (!value || std::abs(*value - c.throughput) > 0.0006 + 0.005 * c.throughput)
      throw UserError("{}: {} is '{}', but BS x 1000 / latency / TP / PP is {:.3f}", at,
                      kThroughput, told(cells[found->second]), c.throughput);
  }

  std::string name_;
  std::map<std::string, size_t> columns_;
  size_t width_ = 0;
};

}  // namespace

std::vector<Candidate> read_measured_table(const std::filesystem::path& path) {
  LineReader lines(path, kMostLineBytes);
  std::optional<Table> table;
  std::vector<Candidate> rows;
  const auto take = [&](std::string_view line, int64_t number) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!table) {
      table.emplace(path.string(), line);
    } else if (!trimmed(line).empty()) {
      if (rows.size() == kMostRows)
        throw UserError("{}: has more than {} rows", path.string(), kMostRows);
      rows.push_back(table->row(line, number));
    }
  };
  std::string_view line;
  while (lines.next(line)) take(line, lines.number());
  if (lines.is_too_long())
    throw UserError("{}:{}: is longer than {} bytes; is this a table?", path.string(),
                    lines.number() + 1, kMostLineBytes);
  if (!lines.rest().empty()) take(lines.rest(), lines.number() + 1);
  if (rows.empty()) throw UserError("{}: has no rows; give TP,PP,BS,{}", path.string(), kLatency);
  return rows;
}

}  // namespace megalith::serving_plan
