// SPDX-License-Identifier: Apache-2.0
// Events are written as text directly: a trace has millions of them, and each is a handful of
// numbers between fixed keys. Strings go through the JSON library, which knows the escapes.
#include "report/trace_writer.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace megalith::report {

namespace {

constexpr size_t kFlushBytes = size_t{1} << 20;

std::string quoted(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Microseconds to the nanosecond.
std::string microseconds(double seconds) {
  MEGA_CHECK(std::isfinite(seconds), "a time must be finite");
  return fmt::format("{:.3f}", seconds * 1e6);
}

std::string to_json(const std::variant<int64_t, double, std::string_view>& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* text = std::get_if<std::string_view>(&value)) return quoted(*text);
  return nlohmann::json(std::get<double>(value)).dump();  // NaN and infinity become null
}

std::string to_json(std::span<const TraceArgument> arguments) {
  std::string out = "{";
  for (const TraceArgument& argument : arguments) {
    if (out.size() > 1) out += ',';
    out += quoted(argument.name) + ':' + to_json(argument.value);
  }
  return out + '}';
}

}  // namespace

void TraceWriter::process_name(int process, std::string_view name) {
  add(fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":{}}}}})", process,
                  quoted(name)));
  add(fmt::format(
      R"({{"name":"process_sort_index","ph":"M","pid":{0},"args":{{"sort_index":{0}}}}})",
      process));
}

void TraceWriter::thread_name(int process, int thread, std::string_view name) {
  add(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})",
                  process, thread, quoted(name)));
  add(fmt::format(
      R"({{"name":"thread_sort_index","ph":"M","pid":{0},"tid":{1},"args":{{"sort_index":{1}}}}})",
      process, thread));
}

void TraceWriter::complete(int process, int thread, std::string_view category,
                           std::string_view name, double start_seconds, double duration_seconds,
                           std::span<const TraceArgument> arguments) {
  MEGA_CHECK_GE(duration_seconds, 0.0);
  add(fmt::format(
      R"({{"name":{},"cat":{},"ph":"X","ts":{},"dur":{},"pid":{},"tid":{}{}{}}})", quoted(name),
      quoted(category), microseconds(start_seconds), microseconds(duration_seconds), process,
      thread, arguments.empty() ? "" : ",\"args\":", arguments.empty() ? "" : to_json(arguments)));
}

void TraceWriter::instant(int process, int thread, std::string_view category, std::string_view name,
                          double seconds) {
  add(fmt::format(R"({{"name":{},"cat":{},"ph":"i","s":"t","ts":{},"pid":{},"tid":{}}})",
                  quoted(name), quoted(category), microseconds(seconds), process, thread));
}

void TraceWriter::counter(int process, std::string_view name, double seconds,
                          std::span<const TraceArgument> series) {
  add(fmt::format(R"({{"name":{},"ph":"C","ts":{},"pid":{},"args":{}}})", quoted(name),
                  microseconds(seconds), process, to_json(series)));
}

void TraceWriter::add(std::string_view event) {
  MEGA_CHECK(!finished_, "an event after finish()");
  if (!empty_) buffer_ += ",\n";
  empty_ = false;
  buffer_ += event;
  if (buffer_.size() >= kFlushBytes) {
    file_.write(buffer_);
    buffer_.clear();
  }
}

void TraceWriter::finish() {
  MEGA_CHECK(!finished_, "finish() called twice");
  file_.write(buffer_ + "\n]\n");
  finished_ = true;
}

}  // namespace megalith::report
