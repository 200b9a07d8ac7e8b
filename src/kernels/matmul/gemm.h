// SPDX-License-Identifier: Apache-2.0
// The one matrix product behind all three linear operations:
//   C[m, n] = sum_k A[m, k] B[k, n]
// in f32 registers and the fixed arithmetic of linear.h. Classical blocking (Goto & van de Geijn
// 2008): panels of A and B are packed so that the micro-kernel reads both in order; packing
// transposes where k is the contiguous index. Between blocks of k the unfinished sums are kept in
// memory as f32, exactly, so blocking never breaks a chain.
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "device/target.h"
#include "kernels/elementwise/activation.h"
#include "tensor/weight.h"

namespace megalith::kernels::matmul {

/// A matrix over k and one other index i. Element (i, k) lies at
///   i * stride + k   if k is contiguous
///   k * stride + i   otherwise
/// B may be in blocks of k (tensor/blocks.h): then its tiles are those of the whole product, and
/// the elements what they widen to, of type f32; in fp8 the numbers of the codes, of type e4m3.
struct Operand {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  int64_t stride = 0;
  bool k_contiguous = false;
  Format format = Format::f32;  // read where it is not plain
};

/// What happens to finished sums s before they are written to `out`:
///   forward    u = round(scale s + bias),  pre = u,  out = round(act(u)); or with scales
///   backward   out = round(scale s * act'(u))
///   weights    out = round(out + round(scale s))
struct Epilogue {
  View out;
  ConstView scale = {};   // f32 [1]
  ConstView scales = {};  // f32 [1, N]
  bool add = false;       // to `out`, which is f32
  ConstView bias = {};    // [1, N]
  View pre_activation = {};
  ConstView gradient_at = {};
  Activation activation = Activation::none;
  bool is_plain() const {
    return !scale && !scales && !add && !bias && !pre_activation && !gradient_at &&
           activation == Activation::none;
  }
};

struct Product {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int k_shards = 1;
  bool accumulate = false;  // chains continue from `out`, which is plain f32
  /// Of weight gradients: where in k pairs of the bf16 chain begin anew (linear.h); empty: at 0.
  std::span<const int32_t> cu_runs = {};
  Operand a;
  Operand b;
  Epilogue epilogue;
  /// Of a weight gradient, whose runs may lie anyhow.
  bool has_runs() const { return accumulate || epilogue.add; }
};

/// What a step of the micro-kernel reads of a packed panel: four bytes per row or column.
///   floats    one k, bf16 widened: the f32 chain
///   swapped   the same in the order of the bf16 chain, the odd k of a pair first, for FMA
///             instructions that flush (elementary/flush_denormals.h)
///   words     a pair of bf16, for VDPBF16PS
enum class PanelForm : uint8_t { floats, swapped, words };
PanelForm panel_form(const Product& product, device::Isa isa);

/// Steps [begin, end) of a block, inside one shard. If the shard ends with it, its sum is added to
/// the newest entry of a stack of partial sums, `merges` times over (each takes its entry off the
/// stack), and the result becomes the newest entry.
struct Segment {
  int64_t begin = 0;
  int64_t end = 0;
  bool starts_shard = false;
  int merges = 0;
};

/// k in [begin, end), packed from step `step` of its block on. Where steps come in pairs, an odd
/// number of k is followed by a zero.
struct KRun {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t step = 0;
};

/// Consecutive segments whose panels are packed together.
struct KBlock {
  int64_t steps = 0;
  int first_run = 0;
  int end_run = 0;
  int first_segment = 0;
  int end_segment = 0;
  int depth = 0;  // entries on the stack of partial sums when it begins
};

inline constexpr int kMaxLevels = 16;  // of that stack: enough for 2^15 shards

/// How many sums of the balanced tree over the shards become complete with each shard.
std::vector<int> shard_merges(int k_shards);

struct TileSize {
  int rows = 0;
  int columns = 0;
  int row_pitch = 0;  // of packed A: from one step to the next
};
constexpr TileSize tile_size(device::Isa isa) {
  return isa == device::Isa::avx2 ? TileSize{6, 16, 8} : TileSize{14, 32, 16};
}

/// How a product is cut: a function of its shape and the target alone. Nothing here changes bits.
struct GemmPlan {
  int grid_m = 1;  // parts of C, one per thread
  int grid_n = 1;
  int64_t m_block = 0;  // rows of A packed at a time
  int64_t n_block = 0;  // columns of B packed at a time
  int64_t n_slab = 0;   // columns whose unfinished sums are kept at a time
  PanelForm form = PanelForm::floats;
  std::vector<KRun> runs;
  std::vector<Segment> segments;
  std::vector<KBlock> blocks;
  int num_levels = 1;
  bool plain_f32 = false;  // finished sums are the output
  bool direct = false;     // unfinished sums live in the output itself
  int64_t packed_a_floats = 0;
  int64_t packed_b_floats = 0;
  int64_t partial_floats = 0;
  int64_t thread_bytes = 0;
  int64_t scratch_bytes = 0;
};
GemmPlan plan_gemm(const Product& product, const device::Target& target);

/// Computes part `thread` of the plan's grid with that thread's scratch, plan.thread_bytes bytes.
void run_gemm_part(const Product& product, const GemmPlan& plan, device::Isa isa, int thread,
                   std::byte* scratch);

/// The whole product, on the pool; done on return. `scratch` holds plan.scratch_bytes bytes,
/// aligned to 64.
void run_gemm(const Product& product, const GemmPlan& plan, device::Isa isa, ThreadPool& pool,
              std::byte* scratch);

/// For sums computed elsewhere: out = round(act(sums)), or round(sums * act'(u)), over a part of C.
void finish_stored_sums(const Epilogue& epilogue, const View& sums, Range rows, Range columns,
                        device::Isa isa);

}  // namespace megalith::kernels::matmul
