// SPDX-License-Identifier: Apache-2.0
// The one logger: spdlog with a sink on standard error, coloured when that is a terminal. It is
// made on first use and safe to call from any thread.
#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>

#include "base/check.h"
#include "base/one_line.h"

namespace megalith::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  throw InternalError("unknown log level");
}

spdlog::logger& logger() {
  static spdlog::logger the_logger = [] {
    spdlog::logger made("megalith", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made.set_pattern("%H:%M:%S %^%l%$ %v");
    made.set_level(spdlog::level::info);
    made.flush_on(spdlog::level::debug);
    return made;
  }();
  return the_logger;
}

}  // namespace

void set_level(Level level) { logger().set_level(to_spdlog(level)); }

Level level() {
  switch (logger().level()) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return Level::debug;
    case spdlog::level::info:
      return Level::info;
    case spdlog::level::warn:
      return Level::warning;
    default:
      return Level::error;
  }
}

void write(Level level, std::string_view message) {
  // A message may quote a file.
  const std::string line = one_line(message);
  logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace megalith::log
