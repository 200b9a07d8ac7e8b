// SPDX-License-Identifier: Apache-2.0
#include "base/failure.h"

#include <cerrno>
#include <filesystem>
#include <new>

namespace megalith {

bool is_mistake(int error) {
  switch (error) {
    case EACCES:
    case EEXIST:
    case EINVAL:  // a name that its file system does not take
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOENT:
    case ENOTDIR:
    case EPERM:
    case EROFS:
      return true;
    default:
      return false;
  }
}

bool is_full_disk(int error) { return error == ENOSPC || error == EDQUOT; }

Failure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return {e.code(), e.what()};
  } catch (const std::filesystem::filesystem_error& e) {
    return {is_mistake(e.code().value()) ? ExitCode::usage : ExitCode::failure,
            fmt::format("{}: {}; name another path", e.path1().string(), e.code().message())};
  } catch (const std::bad_alloc&) {
    return {ExitCode::failure,
            "out of memory outside of the arenas; close other programs, or use a smaller model or "
            "batch"};
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
