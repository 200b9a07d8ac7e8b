// SPDX-License-Identifier: Apache-2.0
// A block with cross attention on several tensor ranks: the bits of one, and a trace that takes
// what a run takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "comm/backends.h"
#include "testing/cross_case.h"

namespace megalith::layers {
namespace {

namespace toys = megalith::testing;

/// Bytes of a logical tensor from `begin` on.
struct Piece {
  std::string name;
  int64_t begin;
  std::vector<std::byte> bytes;
};
using Pieces = std::vector<Piece>;

void add_piece(Pieces& pieces, const std::string& name, int64_t begin, ConstView view) {
  pieces.push_back({name,
                    begin * bytes_of(view.dtype()),
                    {view.data(), view.data() + view.num_elements() * bytes_of(view.dtype())}});
}

/// The rank's own rows of each sample.
void add_rows(Pieces& pieces, const std::string& name, const toys::LayerCase& c, const Batch& batch,
              ConstView rows_TH) {
  const int64_t each = batch.own.per_sample;
  for (int64_t s = 0; s < batch.num_samples; ++s) {
    const int64_t first = (s * c.token_part().count + c.token_part().index) * each;
    add_piece(pieces, name, first * toys::kCrossHidden, rows_TH.rows(s * each, each));
  }
}

/// All gradients, partial row by partial row.
void add_gradients(Pieces& pieces, toys::LayerCase& c) {
  for (const parameters::Parameter& parameter : c.parameters().all()) {
    const parameters::Declaration& declaration = parameter.declaration();
    const int64_t rows = declaration.gradient_partials, elements = parameter.local_elements();
    const int64_t first = declaration.partials_over_tensor ? c.ranks().rank() * rows : 0;
    const View sums = parameter.gradient_sum().reshape(Shape{rows * elements});
    for (int64_t p = 0; p < rows; ++p) {
      declaration.shard.for_each_run(parameter.shape(), [&](int64_t from, int64_t to,
                                                            int64_t count) {
        add_piece(pieces, parameter.name(), (first + p) * parameter.shape().num_elements() + from,
                  sums.rows(p * elements + to, count));
      });
    }
  }
}

void run_block(toys::CrossCase& t, const LayerSpec& spec, Recompute mode) {
  const Block layer(t.c.parameters(), {1, 0}, {spec, toys::kCrossHidden, 8}, t.c.partition());
  t.c.place();
  Context context = t.c.context();
  BlockSaved saved;
  layer.forward(context, t.batch, t.x, t.y, &saved, mode);
  layer.backward(context, t.batch, {t.dy, t.dx}, t.x, saved, mode);
}

/// Output, gradients of both inputs and of all parameters of one block.
Pieces run_rank(const engine::Settings& settings, const LayerSpec& spec, Recompute mode,
                const toys::LayerRank& rank) {
  toys::CrossCase t(settings, rank);
  run_block(t, spec, mode);
  Pieces pieces;
  add_rows(pieces, "y", t.c, t.batch, t.y);
  add_rows(pieces, "dx", t.c, t.batch, t.dx);
  add_rows(pieces, "dmemory", t.c, *t.memory.batch, t.gradient);
  add_gradients(pieces, t.c);
  return pieces;
}

using Whole = std::map<std::string, std::vector<std::byte>>;

Whole joined(const Pieces& pieces) {
  Whole whole;
  for (const Piece& piece : pieces) {
    std::vector<std::byte>& bytes = whole[piece.name];
    const auto begin = static_cast<size_t>(piece.begin);
    bytes.resize(std::max(bytes.size(), begin + piece.bytes.size()));
    std::ranges::copy(piece.bytes, bytes.begin() + piece.begin);
  }
  return whole;
}

void expect_same_on(int ranks, bool sequence, const engine::Settings& settings,
                    const LayerSpec& spec, Recompute mode) {
  const Whole expected = joined(run_rank(settings, spec, Recompute::none, {}));
  std::vector<Pieces> all(static_cast<size_t>(ranks));
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    world.set_device(device.get());
    all[static_cast<size_t>(world.rank())] =
        run_rank(settings, spec, mode, {device.get(), &world, sequence});
    world.set_device(nullptr);
  });
  for (const Pieces& pieces : all) {
    EXPECT_EQ(joined(pieces).size(), expected.size());
    for (const Piece& piece : pieces) {
      const std::vector<std::byte>& want = expected.at(piece.name);
      ASSERT_LE(static_cast<size_t>(piece.begin) + piece.bytes.size(), want.size()) << piece.name;
      EXPECT_TRUE(std::ranges::equal(
          piece.bytes,
          std::span(want).subspan(static_cast<size_t>(piece.begin), piece.bytes.size())))
          << piece.name << " from byte " << piece.begin;
    }
  }
}

TEST(CrossLayout, EveryLayoutHasTheBitsOfOneRank) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    engine::Settings settings = toys::tiny_f64_settings();
    settings.masters = DType::f32;
    settings.weights = settings.activations = dtype;
    settings.split.tensor_shards = 4;
    for (const int64_t kv_heads : {4, 2, 1}) {
      for (const QkNorm qk_norm : {QkNorm::none, QkNorm::head, QkNorm::whole}) {
        LayerSpec spec = toys::crossed_layer(qk_norm);
        spec.cross->kv_heads = kv_heads;
        for (const int ranks : {2, 4}) {
          for (const bool sequence : {false, true}) {
            SCOPED_TRACE(fmt::format("{} {} {} t{} {}", name_of(dtype), kv_heads,
                                     settings::name_of(qk_norm), ranks, sequence));
            spec.cross->materialised = sequence;
            expect_same_on(ranks, sequence, settings, spec,
                           ranks == 2 ? Recompute::selective : Recompute::full);
          }
        }
      }
    }
  }
}

/// Peaks of a pass over shapes alone, as one of `ranks`.
TEST(CrossLayout, ATraceTakesWhatARunTakes) {
  engine::Settings settings = toys::tiny_f64_settings();
  settings.masters = settings.weights = settings.activations = DType::f32;
  const LayerSpec spec = toys::crossed_layer(QkNorm::whole);
  const auto peak = [&](device::Device& device, comm::Communicator& ranks) {
    toys::CrossCase t(settings, {&device, &ranks, true});
    run_block(t, spec, Recompute::selective);
    return device.total().peak;
  };
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    world.set_device(device.get());
    const int64_t measured = peak(*device, world);
    world.set_device(nullptr);
    const auto trace = device::make_trace_device(device->target());
    const auto nobody = comm::make_traced_communicator(*trace, world.rank(), world.size());
    EXPECT_EQ(peak(*trace, *nobody), measured);
  });
}

}  // namespace
}  // namespace megalith::layers
