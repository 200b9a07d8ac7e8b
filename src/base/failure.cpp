// SPDX-License-Identifier: Apache-2.0
#include "base/failure.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace megalith {
namespace {

namespace fs = std::filesystem;

/// A path that cannot be is the person's mistake; the rest is the machine's trouble.
ExitCode code_of(const fs::filesystem_error& error) {
  const auto mistakes = {std::errc::too_many_symbolic_link_levels,
                         std::errc::filename_too_long,
                         std::errc::permission_denied,
                         std::errc::not_a_directory,
                         std::errc::no_such_file_or_directory,
                         std::errc::read_only_file_system,
                         std::errc::operation_not_permitted};
  const bool mistake = std::ranges::any_of(
      mistakes, [&](const std::errc mistaken) { return error.code() == mistaken; });
  return mistake ? ExitCode::usage : ExitCode::failure;
}

}  // namespace

Failure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return {e.code(), e.what()};
  } catch (const fs::filesystem_error& e) {
    return {code_of(e),
            fmt::format("{}: {}; name another path", e.path1().string(), e.code().message())};
  } catch (const std::exception& e) {
    return {ExitCode::failure, e.what()};
  } catch (...) {
    return {ExitCode::failure, "an exception of unknown type"};
  }
}

void Failure::raise() const {
  switch (code) {
    case ExitCode::usage:
      throw UserError("{}", text);
    case ExitCode::integrity:
      throw IntegrityError("{}", text);
    case ExitCode::do_not_restart:
      throw DoNotRestartError("{}", text);
    case ExitCode::ok:
    case ExitCode::failure:
      break;
  }
  throw SystemError("{}", text);
}

}  // namespace megalith
