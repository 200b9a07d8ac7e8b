// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"
#include "kernels/embedding/embedding_cases.h"
#include "tensor/blocks.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;
constexpr DType kNarrow[] = {DType::f32, DType::bf16, DType::f16};

std::string describe(const EmbeddingCase& c) {
  return fmt::format("{} tokens, table {}x{} from {}", c.tokens, c.vocab, c.columns, c.vocab_begin);
}
TestTensor token_ids(const EmbeddingCase& c) {
  return TestTensor(DType::i32, Shape{c.tokens}).fill_integers(5, 0, c.vocab_begin + c.vocab + 2);
}
bool is_here(const EmbeddingCase& c, double id) {
  return id >= static_cast<double>(c.vocab_begin) &&
         id < static_cast<double>(c.vocab_begin + c.vocab);
}

TEST(Embedding, LookupCopiesTheRowOrGivesZero) {
  for (const EmbeddingCase& c : kEmbeddingCases) {
    for (const DType table_type : kNarrow) {
      for (const DType y_type : kNarrow) {
        TestTensor table =
            TestTensor(table_type, Shape{c.vocab, c.columns}, c.gap, 1).fill_normal(1);
        table.set(0, 0, -0.0);
        const TestTensor ids = token_ids(c);
        const auto run = [&](Exec& exec) {
          TestTensor y(y_type, Shape{c.tokens, c.columns}, c.gap, 1);
          embedding_lookup(exec, {ids, table, c.vocab_begin, y});
          return Outputs{y};
        };
        const Outputs y = testing::run_everywhere(run, describe(c));
        testing::expect_same_bits(y, testing::run_reference(run), describe(c));
        for (int64_t t = 0; t < c.tokens; ++t) {
          for (int64_t i = 0; i < c.columns; ++i) {
            TestTensor expected(y_type, Shape{1, 1});
            const int64_t row = static_cast<int64_t>(ids.at(t)) - c.vocab_begin;
            expected.set(0, is_here(c, ids.at(t)) ? table.at(row, i) : 0.0);
            ASSERT_EQ(y[0].at(t, i), expected.at(0));
            ASSERT_FALSE(y[0].at(t, i) == 0 && std::signbit(y[0].at(t, i))) << "-0 must become +0";
          }
        }
      }
    }
  }
}

TEST(Embedding, RowsInBlocksWidenExactly) {
  constexpr int64_t kRows = 37, kColumns = 96;
  TestTensor ids(DType::i32, Shape{40});
  ids.fill_integers(2, 0, kRows + 5);
  for (const Format format : {Format::q8_0, Format::q4_0, Format::q4_1}) {
    std::vector<std::byte> blocks(
        static_cast<size_t>(kRows * kColumns / kBlockColumns * block_bytes(format)));
    for (size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = static_cast<std::byte>(philox(3, i, 0)[0] & 0x7bU);  // scales are finite
    const Shape shape{kRows, kColumns}, stored = stored_shape(format, shape);
    std::vector<std::byte> tiles(static_cast<size_t>(stored.num_elements()));
    to_tiles(format, blocks, kRows, kColumns, tiles);
    const Weight table(ConstView(tiles.data(), DType::u8, stored), format, shape);
    TestTensor wide(DType::f32, shape);
    wide.fill([&](int64_t i) {
      return static_cast<double>(tile_value(table, i / kColumns, i % kColumns));
    });
    for (const DType y_type : kNarrow) {
      const auto run = [&](const Weight& from) {
        return [&, from](Exec& exec) {
          TestTensor y(y_type, Shape{40, kColumns}, 3, 1);
          embedding_lookup(exec, {ids, from, 3, y});
          return Outputs{y};
        };
      };
      const Outputs expected = testing::run_everywhere(run(wide), "widened");
      testing::expect_same_bits(testing::run_everywhere(run(table), "blocks"), expected,
                                std::string(name_of(format)));
      testing::expect_same_bits(testing::run_reference(run(table)), expected, "reference");
    }
  }
  const auto read = [&](Exec& exec) {
    const Shape shape{64, 96};
    const Weight table(ConstView(nullptr, DType::u8, stored_shape(Format::q4_0, shape)),
                       Format::q4_0, shape);
    embedding_lookup(exec, {ConstView(nullptr, DType::i32, Shape{5}), table, 0,
                            View(nullptr, DType::f32, Shape{5, 96})});
  };
  EXPECT_EQ(testing::traced_work(read, "embedding_lookup").bytes_read, 5 * 3 * 18 + 5 * 4);
}

TEST(Embedding, ShardsOfTheVocabularySumToTheWhole) {
  const TestTensor table = TestTensor(DType::f32, Shape{12, 33}).fill_normal(1);
  const TestTensor ids = TestTensor(DType::i32, Shape{50}).fill_integers(2, 0, 11);
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor whole(DType::f32, Shape{50, 33}), low = whole, high = whole;
  embedding_lookup(exec, {ids, table, 0, whole});
  embedding_lookup(exec, {ids, table.view().rows(0, 7), 0, low});
  embedding_lookup(exec, {ids, table.view().rows(7, 5), 7, high});
  for (int64_t i = 0; i < whole.size(); ++i) ASSERT_EQ(low.at(i) + high.at(i), whole.at(i));
}

TEST(Embedding, PositionsAreAddedAndRoundedOnce) {
  for (const EmbeddingCase& c : kEmbeddingCases) {
    for (const DType table_type : kNarrow) {
      for (const DType y_type : kNarrow) {
        const TestTensor table = TestTensor(table_type, Shape{c.vocab, c.columns}).fill_normal(1);
        const TestTensor positions =
            TestTensor(DType::i32, Shape{c.tokens}).fill_integers(3, 0, c.vocab - 1);
        const TestTensor before =
            TestTensor(y_type, Shape{c.tokens, c.columns}, c.gap, 3).fill_normal(4);
        const auto run = [&](Exec& exec) {
          TestTensor y = before;
          embedding_add_positions(exec, {positions, table, y});
          return Outputs{y};
        };
        const Outputs y = testing::run_everywhere(run, describe(c)),
                      expected = testing::run_reference(run);
        testing::expect_close(
            y[0], expected[0],
            [&](int64_t i) {
              return 2.01 * testing::unit_roundoff(y_type) * std::abs(expected[0].at(i));
            },
            describe(c));
      }
    }
  }
}

/// To +0, as a lookup leaves it where an id is none of the vocabulary's, they are the rows
/// themselves; where an id is no row of the table, nothing is touched.
TEST(Embedding, RowsAreAddedWhereIdsAreRows) {
  for (const EmbeddingCase& c : kEmbeddingCases) {
    for (const DType table_type : kNarrow) {
      for (const DType y_type : kNarrow) {
        const TestTensor table =
            TestTensor(table_type, Shape{c.vocab, c.columns}, c.gap, 1).fill_normal(1);
        const TestTensor ids = token_ids(c);
        TestTensor before = TestTensor(y_type, Shape{c.tokens, c.columns}, c.gap, 3).fill_normal(4);
        for (int64_t t = 0; t < c.tokens; t += 2)
          for (int64_t i = 0; i < c.columns; ++i) before.set(t, i, 0.0);
        const auto run = [&](Exec& exec) {
          TestTensor y = before;
          embedding_add_rows(exec, {ids, table, c.vocab_begin, y});
          return Outputs{y};
        };
        const Outputs y = testing::run_everywhere(run, describe(c)),
                      expected = testing::run_reference(run);
        for (int64_t t = 0; t < c.tokens; ++t) {
          const int64_t row = static_cast<int64_t>(ids.at(t)) - c.vocab_begin;
          for (int64_t i = 0; i < c.columns; ++i) {
            if (!is_here(c, ids.at(t))) {
              ASSERT_EQ(y[0].at(t, i), before.at(t, i)) << describe(c);
            } else if (t % 2 == 0) {
              TestTensor rounded(y_type, Shape{1, 1});
              rounded.set(0, table.at(row, i));
              ASSERT_EQ(y[0].at(t, i), rounded.at(0)) << describe(c);
            } else {
              ASSERT_NEAR(y[0].at(t, i), expected[0].at(t, i),
                          2.01 * testing::unit_roundoff(y_type) * std::abs(expected[0].at(t, i)))
                  << describe(c);
            }
          }
        }
      }
    }
  }
}

TEST(Embedding, BackwardIsOneChainInTokenOrder) {
  for (const EmbeddingCase& c : kEmbeddingCases) {
    for (const DType dtype : kNarrow) {
      const TestTensor dy = TestTensor(dtype, Shape{c.tokens, c.columns}, c.gap, 1).fill_normal(1);
      const TestTensor ids = token_ids(c);
      const TestTensor before =
          TestTensor(DType::f32, Shape{c.vocab, c.columns}, c.gap).fill_normal(2);
      const auto run_split = [&](int64_t rows) {
        const auto run = [&](Exec& exec) {
          TestTensor dtable = before;
          for (int64_t t = 0; t < c.tokens; t += rows) {
            const int64_t n = std::min(rows, c.tokens - t);
            embedding_backward(
                exec, {dy.view().rows(t, n), ids.view().rows(t, n), c.vocab_begin, dtable});
          }
          return Outputs{dtable};
        };
        return testing::run_everywhere(run, describe(c));
      };
      const Outputs whole = run_split(1000);
      testing::expect_same_bits(run_split(7), whole, "split into calls");
      std::vector<float> chain(static_cast<size_t>(before.size()));
      for (int64_t i = 0; i < before.size(); ++i)
        chain[static_cast<size_t>(i)] = static_cast<float>(before.at(i));
      for (int64_t t = 0; t < c.tokens; ++t) {
        if (!is_here(c, ids.at(t))) continue;
        const int64_t row = static_cast<int64_t>(ids.at(t)) - c.vocab_begin;
        for (int64_t i = 0; i < c.columns; ++i) {
          chain[static_cast<size_t>(row * c.columns + i)] += static_cast<float>(dy.at(t, i));
        }
      }
      for (int64_t i = 0; i < before.size(); ++i) {
        ASSERT_EQ(static_cast<float>(whole[0].at(i)), chain[static_cast<size_t>(i)]) << describe(c);
      }
    }
  }
}

TEST(Embedding, BackwardOfExactNumbersEqualsTheReference) {
  const EmbeddingCase c = {200, 12, 37, 3};
  const TestTensor dy =
      TestTensor(DType::bf16, Shape{c.tokens, c.columns}).fill_integers(1, -100, 100);
  const TestTensor ids = token_ids(c);
  const auto run = [&](Exec& exec) {
    TestTensor dtable(DType::f32, Shape{c.vocab, c.columns});
    dtable.fill_constant(1);
    embedding_backward(exec, {dy, ids, c.vocab_begin, dtable});
    return Outputs{dtable};
  };
  testing::expect_same_bits(testing::run_everywhere(run, "integers"), testing::run_reference(run),
                            "integers");
}

TEST(Embedding, BackwardMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor table = TestTensor(DType::f64, Shape{6, 5}).fill_normal(1);
  const TestTensor ids = TestTensor(DType::i32, Shape{9}).fill_integers(2, 0, 8);
  const TestTensor dy = TestTensor(DType::f64, Shape{9, 5}).fill_normal(3);
  TestTensor y(DType::f64, Shape{9, 5}), dtable(DType::f64, Shape{6, 5});
  dtable.fill_constant(0);
  embedding_backward(exec, {dy, ids, 1, dtable});
  const auto loss = [&] {
    embedding_lookup(exec, {ids, table, 1, y});
    return testing::weighted_sum(y, dy);
  };
  testing::expect_gradient(loss, table, dtable, 1e-10, "dtable");
}

TEST(Embedding, RefusesPositionsOutsideOfTheTable) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor table(DType::f32, Shape{4, 8}), y(DType::f32, Shape{2, 8}),
      positions(DType::i32, Shape{2});
  for (const double wrong : {4.0, -1.0}) {
    positions.fill_constant(0);
    positions.set(1, wrong);
    EXPECT_THROW(embedding_add_positions(exec, {positions, table, y}), InternalError);
  }
}

TEST(Embedding, TraceCountsBytes) {
  TestTensor table(DType::bf16, Shape{40, 8}), y(DType::f32, Shape{2, 8}),
      ids(DType::i32, Shape{2});
  const auto work = testing::traced_work(
      [&](Exec& e) {
        embedding_lookup(e, {ids, table, 0, y});
      },
      "embedding_lookup");
  EXPECT_EQ(work.bytes_read, 16 * 2 + 8);
  EXPECT_EQ(work.bytes_written, 16 * 4);
}

}  // namespace
}  // namespace megalith::kernels
