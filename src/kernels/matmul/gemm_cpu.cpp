// SPDX-License-Identifier: Apache-2.0
// The blocked loops of one thread's part of a product. From outside in: slabs of columns whose
// unfinished sums fit a cache, blocks of rows, blocks of k (A packed here), blocks of columns (B
// packed here), and then tiles of the micro-kernel.
#include <algorithm>

#include "kernels/elementary/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/gemm_cpu.cpp"
#include "hwy/foreach_target.h"
// Above: compiles all that follows once per instruction set.
#include "kernels/elementary/bf16_chain-inl.h"
#include "kernels/matmul/code_tiles-inl.h"
#include "kernels/matmul/epilogue-inl.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/micro_kernel-inl.h"
#include "kernels/matmul/pack-inl.h"
#include "kernels/matmul/pack_codes-inl.h"
#include "kernels/matmul/quantized_tile-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {

template <int kVectors>
void pack(const Operand& operand, Range i, const GemmPlan& plan, const KBlock& block, float* out,
          int64_t width) {
  const auto pack_run =
      bytes_of(operand.dtype) == 1      ? codes_packing<kVectors>(operand.dtype, plan.form)
      : plan.form == PanelForm::words   ? pack_panels<kVectors, bf16_t, PanelForm::words>
      : plan.form == PanelForm::swapped ? pack_panels<kVectors, bf16_t, PanelForm::swapped>
      : operand.dtype == DType::bf16    ? pack_panels<kVectors, bf16_t, PanelForm::floats>
      : operand.dtype == DType::f16     ? pack_panels<kVectors, f16_t, PanelForm::floats>
                                        : pack_panels<kVectors, float, PanelForm::floats>;
  for (int r = block.first_run; r < block.end_run; ++r)
    pack_run(operand, i, plan.runs[static_cast<size_t>(r)], block.steps, width, out);
}

/// B, plain or in blocks.
void pack_b(const Product& product, Range columns, const GemmPlan& plan, const KBlock& block,
            float* out) {
  const Operand& b = product.b;
  if (is_plain(b.format)) return pack<2>(b, columns, plan, block, out, kTileColumns);
  const auto pack_codes = plan.form == PanelForm::words     ? pack_code_tiles<2, PanelForm::words>
                          : plan.form == PanelForm::swapped ? pack_code_tiles<2, PanelForm::swapped>
                                                            : pack_code_tiles<2, PanelForm::floats>;
  const auto pack_run = b.format == Format::fp8    ? pack_codes
                        : b.format == Format::q8_0 ? pack_tiles<Format::q8_0, 2>
                        : b.format == Format::q4_0 ? pack_tiles<Format::q4_0, 2>
                                                   : pack_tiles<Format::q4_1, 2>;
  for (int r = block.first_run; r < block.end_run; ++r)
    pack_run(product, columns, plan.runs[static_cast<size_t>(r)], block.steps, out);
}

// What the plan takes for the size of panels is what the loops below make.
constexpr TileSize kPlanned = tile_size(kTileRows == 6 ? device::Isa::avx2 : device::Isa::avx512);
static_assert(kPlanned.rows == kTileRows && kPlanned.columns == kTileColumns &&
              kPlanned.row_pitch == kRowPitch);

/// Where the stack of partial sums of one tile lies: level l at base + l * level_distance.
struct Partials {
  float* base = nullptr;
  int64_t level_distance = 0;
  int64_t stride = 0;  // between rows
};

/// The tile to the right comes next: its lines arrive while this one is computed.
HWY_INLINE void prefetch_tile(const float* tile, int64_t stride) {
  for (int r = 0; r < kTileRows; ++r)
    for (int line = 0; line < kTileColumns; line += 16)
      __builtin_prefetch(tile + r * stride + line, 1);
}

/// All segments of a block for one tile. The last sum goes to `result` where one is given.
void run_segments(const GemmPlan& plan, const KBlock& block, const float* a, const float* b,
                  int rows, const Partials& partials, float* result, int64_t result_stride) {
  const MultiplyTile multiply = multiply_tile_of(plan.form, rows);
  const auto level = [&](int l) { return partials.base + l * partials.level_distance; };
  int depth = block.depth;
  for (int s = block.first_segment; s < block.end_segment; ++s) {
    const Segment& segment = plan.segments[static_cast<size_t>(s)];
    const bool to_result = result != nullptr && s + 1 == block.end_segment;
    const int top = segment.starts_shard ? depth : depth - 1;
    multiply({.a = a + segment.begin * kRowPitch,
              .b = b + segment.begin * kTileColumns,
              .steps = segment.end - segment.begin,
              .flushes = plan.form == PanelForm::swapped,
              .start = segment.starts_shard ? nullptr : level(top),
              .merge = level(top - 1),
              .merge_distance = partials.level_distance,
              .num_merges = segment.merges,
              .stride = partials.stride,
              .out = to_result ? result : level(top - segment.merges),
              .out_stride = to_result ? result_stride : partials.stride});
    depth = top - segment.merges + 1;
  }
}

/// The part of C that one thread makes, and the buffers it works in.
class Part {
 public:
  Part(const Product& product, const GemmPlan& plan, Range rows, Range columns, float* scratch)
      : product_(product),
        plan_(plan),
        rows_(rows),
        columns_(columns),
        packed_a_(scratch),
        packed_b_(packed_a_ + plan.packed_a_floats),
        partials_(packed_b_ + plan.packed_b_floats) {}

  void run() {
    for (int64_t slab = columns_.begin; slab < columns_.end; slab += plan_.n_slab) {
      const Range columns{slab, std::min(slab + plan_.n_slab, columns_.end)};
      for (int64_t i = rows_.begin; i < rows_.end; i += plan_.m_block)
        run_rows({i, std::min(i + plan_.m_block, rows_.end)}, columns);
    }
  }

 private:
  void run_rows(Range rows, Range slab) {
    for (const KBlock& block : plan_.blocks) {
      pack<1>(product_.a, rows, plan_, block, packed_a_, kTileRows);
      for (int64_t j = slab.begin; j < slab.end; j += plan_.n_block) {
        const Range columns{j, std::min(j + plan_.n_block, slab.end)};
        pack_b(product_, columns, plan_, block, packed_b_);
        run_tiles(rows, columns, slab.begin, block);
      }
    }
  }

  void run_tiles(Range rows, Range columns, int64_t slab_begin, const KBlock& block) {
    for (int64_t i = rows.begin; i < rows.end; i += kTileRows) {
      const Range tile_rows{i, std::min<int64_t>(i + kTileRows, rows.end)};
      const float* a = packed_a_ + (i - rows.begin) / kTileRows * kRowPitch * block.steps;
      for (int64_t j = columns.begin; j < columns.end; j += kTileColumns) {
        const Range tile_columns{j, std::min<int64_t>(j + kTileColumns, columns.end)};
        const float* b = packed_b_ + (j - columns.begin) * block.steps;
        if (plan_.direct)
          run_direct(block, a, b, tile_rows, tile_columns);
        else
          run_kept(block, a, b, tile_rows, tile_columns, i - rows.begin, j - slab_begin);
      }
    }
  }

  /// Unfinished sums in the output; tiles at the right edge in a copy of it.
  void run_direct(const KBlock& block, const float* a, const float* b, Range rows, Range columns) {
    const View& out = product_.epilogue.out;
    float* c = reinterpret_cast<float*>(out.data()) + rows.begin * out.row_stride() + columns.begin;
    const int num_rows = static_cast<int>(rows.size());
    if (columns.size() == kTileColumns) {
      prefetch_tile(c + kTileColumns, out.row_stride());
      run_segments(plan_, block, a, b, num_rows, {c, 0, out.row_stride()}, nullptr, 0);
      return;
    }
    const size_t bytes = static_cast<size_t>(columns.size()) * sizeof(float);
    if (block.depth > 0)
      for (int r = 0; r < num_rows; ++r)
        std::memcpy(partials_ + r * kTileColumns, c + r * out.row_stride(), bytes);
    run_segments(plan_, block, a, b, num_rows, {partials_, 0, kTileColumns}, nullptr, 0);
    for (int r = 0; r < num_rows; ++r)
      std::memcpy(c + r * out.row_stride(), partials_ + r * kTileColumns, bytes);
  }

  /// Unfinished sums in scratch, at (row, column) of this block of rows and slab.
  void run_kept(const KBlock& block, const float* a, const float* b, Range rows, Range columns,
                int64_t row, int64_t column) {
    Partials partials{partials_, int64_t{kTileRows} * kTileColumns, kTileColumns};
    if (plan_.blocks.size() > 1) {
      partials = {partials_ + row * plan_.n_slab + column, plan_.m_block * plan_.n_slab,
                  plan_.n_slab};
      for (int l = 0; l < std::max(block.depth, 1); ++l)
        prefetch_tile(partials.base + l * partials.level_distance + kTileColumns, partials.stride);
    }
    const bool last = &block == &plan_.blocks.back();
    const View& out = product_.epilogue.out;
    const bool straight = last && plan_.plain_f32 && columns.size() == kTileColumns;
    float* result = straight ? reinterpret_cast<float*>(out.data()) +
                                   rows.begin * out.row_stride() + columns.begin
                             : nullptr;
    run_segments(plan_, block, a, b, static_cast<int>(rows.size()), partials, result,
                 out.row_stride());
    if (last && !straight)
      finish_tile(product_.epilogue, partials.base, partials.stride, rows.begin, rows.size(),
                  columns.begin, columns.size());
  }

  const Product& product_;
  const GemmPlan& plan_;
  Range rows_;
  Range columns_;
  float* packed_a_;
  float* packed_b_;
  float* partials_;
};

void run_part(const Product& product, const GemmPlan& plan, Range rows, Range columns,
              float* scratch) {
  Part(product, plan, rows, columns, scratch).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels::matmul {

void run_gemm_part(const Product& product, const GemmPlan& plan, device::Isa isa, int thread,
                   std::byte* scratch) {
  const TileSize tile = tile_size(isa);
  const Range rows = static_part(product.m, 1, thread / plan.grid_n, plan.grid_m);
  const Range columns = static_part(product.n, tile.columns, thread % plan.grid_n, plan.grid_n);
  if (rows.empty() || columns.empty()) return;
  const auto run = isa == device::Isa::avx2 ? N_AVX2::run_part : N_AVX3::run_part;
  run(product, plan, rows, columns, reinterpret_cast<float*>(scratch));
}

void finish_stored_sums(const Epilogue& epilogue, const View& sums, Range rows, Range columns,
                        device::Isa isa) {
  const auto run = isa == device::Isa::avx2 ? N_AVX2::finish_stored : N_AVX3::finish_stored;
  run(epilogue, sums, rows, columns);
}

}  // namespace megalith::kernels::matmul
#endif
