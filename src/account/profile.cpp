// SPDX-License-Identifier: Apache-2.0
#include "account/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>

#include "report/trace_writer.h"

namespace megalith::account {
namespace {

/// "layers.3.mlp" -> "layers.*.mlp"
std::string without_numbers(const std::string& scope) {
  std::string part;
  for (size_t i = 0; i < scope.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(scope[i])) != 0;
    const bool begins = digit && (i == 0 || scope[i - 1] == '.');
    if (!begins) {
      part += scope[i];
      continue;
    }
    while (i + 1 < scope.size() && scope[i + 1] != '.') ++i;
    part += '*';
  }
  return part.empty() ? "step" : part;
}

void add(ProfileRow& row, const device::Record& record, const Roofline& roofline) {
  row.calls += record.calls;
  row.seconds += record.seconds;
  row.least_seconds += roofline.seconds(record.work);
  row.work.flops += record.work.flops;
  row.work.bytes_read += record.work.bytes_read;
  row.work.bytes_written += record.work.bytes_written;
  row.work.bytes_wire += record.work.bytes_wire;
}

std::vector<ProfileRow> longest_first(const std::map<std::string, ProfileRow>& by_name) {
  std::vector<ProfileRow> rows;
  for (const auto& [name, row] : by_name) {
    rows.push_back(row);
    rows.back().name = name;
  }
  std::ranges::stable_sort(rows, std::greater<>(), &ProfileRow::seconds);
  return rows;
}

std::string table(const char* title, const std::vector<ProfileRow>& rows, const Profile& profile) {
  const auto steps = static_cast<double>(profile.steps);
  std::string text = fmt::format("{:<28} {:>9} {:>7} {:>8} {:>9} {:>8} {:>9}\n", title, "ms/step",
                                 "share", "calls", "GFLOP/s", "GB/s", "roofline");
  for (const ProfileRow& row : rows) {
    const double bytes = static_cast<double>(row.work.bytes_read + row.work.bytes_written);
    text += fmt::format("{:<28} {:>9.2f} {:>6.1f}% {:>8} {:>9.1f} {:>8.1f} {:>8.0f}%\n", row.name,
                        1e3 * row.seconds / steps, 100 * row.seconds / profile.seconds,
                        row.calls / profile.steps, 1e-9 * row.work.flops / row.seconds,
                        1e-9 * bytes / row.seconds, 100 * row.least_seconds / row.seconds);
  }
  return text;
}

}  // namespace

double Roofline::seconds(const device::Work& work) const {
  return std::max(work.flops / flops,
                  static_cast<double>(work.bytes_read + work.bytes_written) / bytes);
}

Profile profile_of(const device::Recorder& recorder, int64_t steps, double seconds,
                   const Roofline& roofline) {
  Profile profile{steps, seconds, 0, seconds, {}, {}};
  std::map<std::string, ProfileRow> by_kernel, by_part;
  for (const device::Record& record : recorder.records()) {
    add(by_kernel[record.name], record, roofline);
    add(by_part[without_numbers(record.scope)], record, roofline);
    profile.least_seconds += roofline.seconds(record.work);
    profile.gap_seconds -= record.seconds;
  }
  profile.by_kernel = longest_first(by_kernel);
  profile.by_part = longest_first(by_part);
  return profile;
}

std::string to_text(const Profile& profile, const Roofline& roofline) {
  const auto steps = static_cast<double>(profile.steps);
  return fmt::format(
      "{}\n{}\n{} steps of {:.1f} ms; between kernels {:.1f} ms ({:.1f} %); the least that this "
      "work takes at {:.0f} GFLOP/s and {:.1f} GB/s: {:.1f} ms ({:.0f} %)\n",
      table("kernel", profile.by_kernel, profile), table("part", profile.by_part, profile),
      profile.steps, 1e3 * profile.seconds / steps, 1e3 * profile.gap_seconds / steps,
      100 * profile.gap_seconds / profile.seconds, roofline.flops / 1e9, roofline.bytes / 1e9,
      1e3 * profile.least_seconds / steps, 100 * profile.least_seconds / profile.seconds);
}

namespace {

void write_trace(const device::Recorder& recorder, File& file) {
  double start = std::numeric_limits<double>::infinity();
  for (const device::Event& event : recorder.events()) start = std::min(start, event.begin);
  report::TraceWriter writer(file);
  writer.process_name(0, "rank 0");
  writer.thread_name(0, 0, "kernels");
  for (const device::Event& event : recorder.events()) {
    const device::Record& record = recorder.records()[event.record];
    writer.complete(0, 0, record.scope, record.name, event.begin - start, event.seconds);
  }
  writer.finish();
}

}  // namespace

void write_trace(const device::Recorder& recorder, const std::filesystem::path& path) {
  write_file_durable(path, [&](File& file) { write_trace(recorder, file); });
}

}  // namespace megalith::account
