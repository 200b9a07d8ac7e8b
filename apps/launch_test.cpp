// SPDX-License-Identifier: Apache-2.0
#include "apps/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace megalith::apps {
namespace {

using testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

std::optional<Launch> launch_in(const Environment& environment) {
  return launch_of([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal_of(const Environment& environment) {
  try {
    launch_in(environment);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Launch, NothingStartedThisProcess) {
  EXPECT_FALSE(launch_in({}));
  // An interactive allocation, and the launcher pod of the MPI operator.
  EXPECT_FALSE(launch_in({{"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "5"}}));
  EXPECT_FALSE(launch_in(
      {{"K_MPI_JOB_ROLE", "launcher"}, {"OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"}}));
}

TEST(Launch, MpirunSaysRankAndSizeAlsoInsideABatchJob) {
  const Environment environment{
      {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "3"},
      {"SLURM_STEP_ID", "0"},        {"SLURM_PROCID", "0"},         {"SLURM_NTASKS", "2"}};
  const auto launch = launch_in(environment);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 4);
  EXPECT_EQ(launch->launcher, "mpirun");
}

TEST(Launch, PmixKnowsTheRankAndSlurmTheSize) {
  const auto srun = launch_in({{"PMIX_RANK", "1"},
                               {"SLURM_STEP_ID", "2"},
                               {"SLURM_PROCID", "1"},
                               {"SLURM_STEP_NUM_TASKS", "16"}});
  ASSERT_TRUE(srun);
  EXPECT_EQ(srun->size, 16);
  const auto other = launch_in({{"PMIX_RANK", "1"}});
  ASSERT_TRUE(other);
  EXPECT_EQ(other->size, 0);
}

TEST(Launch, HalfAnEnvironmentIsRefused) {
  EXPECT_THAT(refusal_of({{"OMPI_COMM_WORLD_RANK", "1"}}),
              HasSubstr("OMPI_COMM_WORLD_SIZE is not"));
  EXPECT_THAT(refusal_of({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
              HasSubstr("not below"));
  EXPECT_THAT(refusal_of({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
              HasSubstr("'x' is not a number"));
}

TEST(Launch, LaunchersThatCannotConnectTheRanksAreNamed) {
  EXPECT_THAT(
      refusal_of({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}}),
      HasSubstr("srun --mpi=pmix"));
  EXPECT_FALSE(
      launch_in({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_THAT(refusal_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), HasSubstr("MPICH"));
}

}  // namespace
}  // namespace megalith::apps
