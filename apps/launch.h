// SPDX-License-Identifier: Apache-2.0
// Whether a launcher started this process as one rank of many, read from the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace megalith::apps {

struct Launch {
  std::string launcher;  // "mpirun", "srun", ...: for messages
  int rank = 0;
  int size = 1;  // 0: the launcher does not say, MPI will
};

/// Looks for Open MPI's mpirun (also under the Kubernetes MPI operator), a PMIx launcher and
/// Slurm's srun, in this order; nothing when none started this process. An interactive allocation
/// and the operator's launcher pod are not ranks. UserError when a launcher's variables are there
/// by half, are no numbers, or are those of an MPI that the plug-in is not made for. `variable` is
/// getenv, or a table in tests.
std::optional<Launch> launch_of(const std::function<const char*(const char* name)>& variable);

}  // namespace megalith::apps
