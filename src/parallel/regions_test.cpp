// SPDX-License-Identifier: Apache-2.0
// Each region's backward is the adjoint of its forward: <f(x), y> = <x, f'(y)> in exact integers,
// where x and y range over what all ranks hold together (a replicated tensor counts once).
#include "parallel/regions.h"

#include <gtest/gtest.h>

#include <random>

#include "comm/backends.h"

namespace megalith::parallel {
namespace {

constexpr int64_t kColumns = 3;

/// One rank's tensors, filled with small integers from (seed, whose).
struct Bench {
  comm::Communicator& comm;
  std::unique_ptr<device::Device> device = device::make_cpu_device(1);
  kernels::Exec exec{*device};
  static constexpr int kAllRanks = -1;

  device::Tensor rows(int64_t count) {
    device::Tensor t = exec.workspace.tensor(DType::f32, {count, kColumns});
    device->wait(device->fill_zero(t));
    return t;
  }
  device::Tensor random_rows(int64_t count, int seed, int whose) {
    device::Tensor t = rows(count);
    std::mt19937 random(static_cast<unsigned>(seed * 100 + whose + 1));
    for (int64_t i = 0; i < t.view.num_elements(); ++i) {
      t.view.as<float>()[i] = static_cast<float>(static_cast<int>(random() % 9) - 4);
    }
    return t;
  }
  device::Tensor copy_of(ConstView x) {
    device::Tensor t = rows(x.size(0));
    device->wait(device->copy(t, x));
    return t;
  }

  static double dot(ConstView a, ConstView b) {
    double sum = 0;
    for (int64_t i = 0; i < a.num_elements(); ++i)
      sum += double{a.as<float>()[i]} * b.as<float>()[i];
    return sum;
  }
  /// The inner product of tensors that are different on each rank.
  double dot_over_ranks(ConstView a, ConstView b) {
    const std::vector<double> mine{dot(a, b)};
    double sum = 0;
    for (const double part : comm.exchange_values(std::span(mine), "inner product")) sum += part;
    return sum;
  }
};

void on_groups(FunctionRef<void(Bench&, int64_t rows, int64_t own)> body) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int64_t rows : {4, 7, 1, 0}) {
      comm::run_ranks(ranks,
                      [&](comm::Communicator& comm) {
                        Bench bench{comm};
                        body(bench, rows, comm::part_of(rows, comm.rank(), comm.size()).count);
                      },
                      {30});
    }
  }
}

TEST(Regions, CopyIsTheAdjointOfASum) {
  on_groups([](Bench& b, int64_t rows, int64_t) {
    const auto x = b.random_rows(rows, 1, Bench::kAllRanks);  // forward: every rank has x
    const auto y = b.random_rows(rows, 2, b.comm.rank());
    const auto dx = b.copy_of(y);
    copy_backward(b.exec, b.comm, dx, "copy");
    EXPECT_EQ(b.dot_over_ranks(x, y), Bench::dot(x, dx));
  });
}

TEST(Regions, ReduceIsTheAdjointOfACopy) {
  on_groups([](Bench& b, int64_t rows, int64_t) {
    const auto x = b.random_rows(rows, 1, b.comm.rank());
    const auto y = b.random_rows(rows, 2, Bench::kAllRanks);  // backward: every rank gets y
    const auto fx = b.copy_of(x);
    reduce_forward(b.exec, b.comm, fx, "reduce");
    EXPECT_EQ(Bench::dot(fx, y), b.dot_over_ranks(x, y));
  });
}

/// Parts of one sample (any number of rows) and of several (runs that the ranks divide).
void on_shards(
    FunctionRef<void(Bench&, int64_t rows, int64_t own, const SequenceShard& shard)> body) {
  on_groups([&](Bench& b, int64_t rows, int64_t own) { body(b, rows, own, {}); });
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int64_t samples : {1, 2, 3}) {
      comm::run_ranks(ranks,
                      [&](comm::Communicator& comm) {
                        Bench bench{comm};
                        body(bench, samples * 12, samples * 12 / ranks, {samples});
                      },
                      {30});
    }
  }
}

TEST(Regions, GatherRowsBackwardIsItsAdjoint) {
  on_shards([](Bench& b, int64_t rows, int64_t own, const SequenceShard& shard) {
    const auto x = b.random_rows(own, 1, b.comm.rank());
    const auto y = b.random_rows(rows, 2, b.comm.rank());
    const auto fx = b.rows(rows), dx = b.rows(own);
    gather_rows_forward(b.exec, b.comm, x, fx, shard, "gather");
    gather_rows_backward(b.exec, b.comm, y, dx, shard, "gather");
    EXPECT_EQ(b.dot_over_ranks(fx, y), b.dot_over_ranks(x, dx));
  });
}

TEST(Regions, ScatterRowsBackwardIsItsAdjoint) {
  on_shards([](Bench& b, int64_t rows, int64_t own, const SequenceShard& shard) {
    const auto x = b.random_rows(rows, 1, b.comm.rank());
    const auto y = b.random_rows(own, 2, b.comm.rank());
    const auto fx = b.rows(own), dx = b.rows(rows);
    scatter_rows_forward(b.exec, b.comm, x, fx, shard, "scatter");
    scatter_rows_backward(b.exec, b.comm, y, dx, shard, "scatter");
    EXPECT_EQ(b.dot_over_ranks(fx, y), b.dot_over_ranks(x, dx));
  });
}

/// Row t of the whole comes from the rank that has position t % run of its sample.
TEST(Regions, PartsAreRunsOfEverySample) {
  constexpr int64_t kSamples = 3, kRun = 8;
  comm::run_ranks(4, [&](comm::Communicator& comm) {
    Bench b{comm};
    const int64_t each = kRun / comm.size();
    const auto x = b.rows(kSamples * each), y = b.rows(kSamples * kRun);
    for (int64_t row = 0; row < kSamples * each; ++row) {
      const int64_t t = row / each * kRun + comm.rank() * each + row % each;
      for (int64_t c = 0; c < kColumns; ++c)
        x.view.as<float>()[row * kColumns + c] = static_cast<float>(t);
    }
    gather_rows_forward(b.exec, comm, x, y, {kSamples}, "gather");
    for (int64_t i = 0; i < y.view.num_elements(); ++i)
      EXPECT_EQ(y.view.as<float>()[i], static_cast<float>(i / kColumns));
  });
}

}  // namespace
}  // namespace megalith::parallel
