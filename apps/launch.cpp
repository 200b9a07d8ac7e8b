// SPDX-License-Identifier: Apache-2.0
#include "apps/launch.h"

#include <charconv>
#include <cstring>

#include "base/error.h"

namespace megalith::apps {
namespace {

using Variable = std::function<const char*(const char* name)>;

std::optional<int> number(const Variable& variable, const char* name) {
  const char* const text = variable(name);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stopped != end || value < 0)
    throw UserError("environment: {}='{}' is not a number; start with mpirun or srun", name, text);
  return value;
}

/// A launcher that tells both; nothing when it tells neither.
std::optional<Launch> both(const Variable& variable, const char* launcher, const char* rank_name,
                           const char* size_name) {
  const auto rank = number(variable, rank_name), size = number(variable, size_name);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    throw UserError("environment: {} is set but {} is not; {} sets both",
                    rank ? rank_name : size_name, rank ? size_name : rank_name, launcher);
  }
  if (*size < 1 || *rank >= *size)
    throw UserError("environment: {} {} is not below {} {}", rank_name, *rank, size_name, *size);
  return Launch{launcher, *rank, *size};
}

}  // namespace

std::optional<Launch> launch_of(const Variable& variable) {
  if (auto launch = both(variable, "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
    return launch;
  // An interactive allocation exports SLURM_* too: a step makes ranks of it.
  const bool slurm_step =
      variable("SLURM_STEP_ID") != nullptr && variable("SLURM_PROCID") != nullptr;
  if (const auto rank = number(variable, "PMIX_RANK")) {
    // PMIx names no size; Slurm does.
    const auto size = slurm_step ? number(variable, "SLURM_STEP_NUM_TASKS") : std::nullopt;
    return Launch{slurm_step ? "srun" : "a PMIx launcher", *rank, size.value_or(0)};
  }
  if (slurm_step) {
    const char* const size_name =
        variable("SLURM_STEP_NUM_TASKS") != nullptr ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    const auto launch = both(variable, "srun", "SLURM_PROCID", size_name);
    if (launch->size == 1) return std::nullopt;
    throw UserError(
        "environment: srun started {} tasks without PMIx, which Open MPI needs to connect them; "
        "use "
        "srun --mpi=pmix",
        launch->size);
  }
  if (const auto launch = both(variable, "an MPICH launcher", "PMI_RANK", "PMI_SIZE");
      launch && launch->size > 1) {
    throw UserError(
        "environment: PMI_RANK and PMI_SIZE are those of MPICH or Intel MPI; the MPI plug-in is "
        "made "
        "with Open MPI: start with its mpirun, or with srun --mpi=pmix");
  }
  return std::nullopt;
}

}  // namespace megalith::apps
