// SPDX-License-Identifier: Apache-2.0
// One rank of an MPI launch: opens the plug-in, joins the world, leaves it in order or with the
// notice of what failed.
#include <dlfcn.h>

#include <array>
#include <filesystem>

#include "base/host.h"
#include "comm/backends.h"
#include "comm/messages/message_communicator.h"
#include "comm/mpi/mpi_plugin.h"

namespace megalith::comm {
namespace {

namespace fs = std::filesystem;

/// Beside the program, or in ../lib of it (an installation).
void* open_plugin() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::string reasons;
  for (const fs::path& path : {folder / kMpiPluginFile, folder / ".." / "lib" / kMpiPluginFile}) {
    if (!fs::exists(path, error)) continue;
    // Global: the library opens parts of its own that look for its symbols.
    void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle != nullptr) return handle;
    reasons += fmt::format("; {}", ::dlerror());
  }
  throw SystemError(
      "this is an MPI launch, but {} cannot be opened from {} or ../lib{}; install Open MPI "
      "(libopenmpi-dev), build again, or start without mpirun",
      kMpiPluginFile, folder.string(), reasons);
}

Transport& open_transport() {
  void* const entry = ::dlsym(open_plugin(), kMpiPluginEntry);
  if (entry == nullptr) throw SystemError("{}: {}", kMpiPluginFile, ::dlerror());
  std::array<char, 1024> error{};
  Transport* const transport = reinterpret_cast<decltype(&megalith_open_mpi)>(entry)(
      error.data(), static_cast<int>(error.size()));
  if (transport == nullptr) throw SystemError("{}: {}", kMpiPluginFile, error.data());
  return *transport;
}

}  // namespace

void run_mpi_rank(FunctionRef<void(Communicator&)> body, const RankOptions& options) {
  Transport& transport = open_transport();
  try {
    run_message_rank(transport, host_name(), body, options);
  } catch (...) {
    transport.leave(false);
    throw;
  }
  transport.leave(true);
}

}  // namespace megalith::comm
