// SPDX-License-Identifier: Apache-2.0
// What the program and its MPI plug-in agree on. A change raises the version in the name.
#pragma once

#include "comm/messages/transport.h"

/// Starts MPI. Null and a text in `error` when it refuses. The transport lives to the end of the
/// process.
extern "C" megalith::comm::Transport* megalith_open_mpi(char* error, int error_size);

namespace megalith::comm {

inline constexpr char kMpiPluginFile[] = "libmegalith_mpi.so";
inline constexpr char kMpiPluginEntry[] = "megalith_open_mpi";

}  // namespace megalith::comm
