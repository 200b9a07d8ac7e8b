// SPDX-License-Identifier: Apache-2.0
// One rank of an MPI launch: opens the plug-in, joins the world, leaves it in order or with the
// notice of what failed.
#include <array>

#include "base/host.h"
#include "base/plugin.h"
#include "comm/backends.h"
#include "comm/messages/message_communicator.h"
#include "comm/mpi/mpi_plugin.h"

namespace megalith::comm {
namespace {

Transport& open_transport() {
  void* const entry =
      open_plugin(kMpiPluginFile, kMpiPluginEntry, true, "this is an MPI launch",
                  "install Open MPI (libopenmpi-dev), build again, or start without mpirun");
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
