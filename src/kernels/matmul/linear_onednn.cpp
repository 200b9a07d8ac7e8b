// SPDX-License-Identifier: Apache-2.0
// The three operations on oneDNN's matmul primitives, for `fast` numerics where the library knows
// an instruction that exact arithmetic cannot use (library.h). Every thread of our pool
// computes its own tile of the result with a primitive made for one thread; the library never
// starts threads and takes its scratch from us. Primitives are found again in oneDNN's own cache.
#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>
#include <set>
#include <utility>

#include "kernels/matmul/gemm.h"
#include "kernels/matmul/library.h"
#include "kernels/matmul/linear_lists.h"
#include "kernels/matmul/linear_products.h"
#include "kernels/matmul/small_m.h"

namespace megalith::kernels::matmul {
namespace {

using dnnl::memory;

memory::data_type type_of(DType dtype) {
  return dtype == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
}

/// The sums before the activation: what the library computes, with their bias.
View sums_of(const Product& product) {
  const Epilogue& e = product.epilogue;
  return e.pre_activation ? e.pre_activation : e.out;
}

/// A tile [rows, columns] of the product as oneDNN describes it.
struct Tile {
  Range rows;
  Range columns;
  memory::desc a, b, c, bias;
};

memory::desc describe(const Operand& o, memory::dims dims, bool is_a) {
  const bool row_major = o.k_contiguous == is_a;
  return {std::move(dims), type_of(o.dtype),
          row_major ? memory::dims{o.stride, 1} : memory::dims{1, o.stride}};
}

Tile tile_of(const Product& product, Range rows, Range columns) {
  Tile tile{rows, columns, {}, {}, {}, {}};
  const int64_t m = rows.size(), n = columns.size();
  tile.a = describe(product.a, {m, product.k}, true);
  tile.b = describe(product.b, {product.k, n}, false);
  const View sums = sums_of(product);
  tile.c = {{m, n}, type_of(sums.dtype()), memory::dims{sums.row_stride(), 1}};
  if (product.epilogue.bias)
    tile.bias = {{1, n}, type_of(product.epilogue.bias.dtype()), memory::dims{n, 1}};
  return tile;
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const Product& product,
                                      const Tile& tile) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (product.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const auto description = product.epilogue.bias
                               ? dnnl::matmul::desc(tile.a, tile.b, tile.bias, tile.c)
                               : dnnl::matmul::desc(tile.a, tile.b, tile.c);
  return {description, attributes, engine};
}

/// A oneDNN built with OpenMP plans for as many threads as this thread's OpenMP setting says.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

const std::byte* at(const Operand& o, int64_t i) {
  return o.data + i * (o.k_contiguous ? o.stride : 1) * bytes_of(o.dtype);
}

void run_tile(const dnnl::engine& engine, const Product& product, const Tile& tile, device::Isa isa,
              std::byte* scratch) {
  const OneThread one_thread;
  const auto description = describe(engine, product, tile);
  const View sums = sums_of(product);
  const auto wrap = [&](const memory::desc& desc, const std::byte* data) {
    return memory(desc, engine, const_cast<std::byte*>(data));
  };
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, wrap(tile.a, at(product.a, tile.rows.begin))},
      {DNNL_ARG_WEIGHTS, wrap(tile.b, at(product.b, tile.columns.begin))},
      {DNNL_ARG_DST, wrap(tile.c, sums.rows(tile.rows.begin, tile.rows.size())
                                      .columns(tile.columns.begin, tile.columns.size())
                                      .data())},
      {DNNL_ARG_SCRATCHPAD, wrap(description.scratchpad_desc(), scratch)}};
  if (const ConstView& bias = product.epilogue.bias)
    arguments.emplace(DNNL_ARG_BIAS,
                      wrap(tile.bias, bias.data() + tile.columns.begin * bytes_of(bias.dtype())));
  dnnl::stream stream(engine);
  dnnl::matmul(description).execute(stream, arguments);
  stream.wait();
  const Epilogue& e = product.epilogue;
  if (e.pre_activation || e.activation != Activation::none)
    finish_stored_sums(e, sums, tile.rows, tile.columns, isa);
}

int64_t tile_scratch_bytes(const dnnl::engine& engine, const Product& product, const Tile& tile) {
  const OneThread one_thread;
  const auto bytes = describe(engine, product, tile).scratchpad_desc().get_size();
  return round_up<int64_t>(static_cast<int64_t>(bytes), device::kAlignment);
}

/// The library keeps the f32 sums of a bf16 result in scratch: of as many rows at a time as give
/// about this much, so that they stay near the core and scratch does not grow with the batch.
constexpr int64_t kSumsBytes = int64_t{4} << 20;

/// Rows of a thread's part that are one call of the library.
int64_t rows_at_once(const Product& product, TileSize size, int64_t columns) {
  if (sums_of(product).dtype() != DType::bf16) return product.m;
  return std::max<int64_t>(1, kSumsBytes / (4 * columns) / size.rows) * size.rows;
}

/// Each thread's tiles, one after another.
struct Tiles {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::vector<std::vector<Tile>> of_thread;

  /// Of each thread.
  int64_t scratch_bytes(const Product& product) const;
};

int64_t Tiles::scratch_bytes(const Product& product) const {
  int64_t bytes = 0;
  std::set<std::pair<int64_t, int64_t>> asked;  // tiles of one size take the same scratch
  for (const auto& tiles : of_thread) {
    for (const Tile& tile : tiles) {
      if (asked.emplace(tile.rows.size(), tile.columns.size()).second)
        bytes = std::max(bytes, tile_scratch_bytes(engine, product, tile));
    }
  }
  return bytes;
}

Tiles cut(const Product& product, const device::Target& target) {
  Tiles cut;
  const GemmPlan plan = plan_gemm(product, target);
  const TileSize size = tile_size(target.isa);
  cut.of_thread.resize(static_cast<size_t>(plan.grid_m * plan.grid_n));
  for (int thread = 0; thread < plan.grid_m * plan.grid_n; ++thread) {
    const Range rows = static_part(product.m, 1, thread / plan.grid_n, plan.grid_m);
    const Range columns = static_part(product.n, size.columns, thread % plan.grid_n, plan.grid_n);
    if (rows.empty() || columns.empty()) continue;
    const int64_t step = rows_at_once(product, size, columns.size());
    for (int64_t row = rows.begin; row < rows.end; row += step) {
      const Range some{row, std::min(row + step, rows.end)};
      cut.of_thread[static_cast<size_t>(thread)].push_back(tile_of(product, some, columns));
    }
  }
  return cut;
}

template <typename Arguments>
void run(Exec& exec, const Arguments& arguments) {
  const Product product = product_of(arguments);
  if (product.m == 0 || product.n == 0 || product.k == 0) return;
  const Tiles cut_tiles = cut(product, exec.device.target());
  const int64_t own_bytes = exec.scratch_bytes / static_cast<int64_t>(cut_tiles.of_thread.size());
  exec.device.pool().run([&](int thread) {
    if (thread >= static_cast<int>(cut_tiles.of_thread.size())) return;
    for (const Tile& tile : cut_tiles.of_thread[static_cast<size_t>(thread)])
      run_tile(cut_tiles.engine, product, tile, exec.device.target().isa,
               exec.scratch + thread * own_bytes);
  });
}

template <typename Arguments>
int64_t scratch_bytes(const Exec& exec, const Arguments& arguments) {
  const Product product = product_of(arguments);
  if (product.m == 0 || product.n == 0 || product.k == 0) return 0;
  const Tiles tiles = cut(product, exec.device.target());
  return tiles.scratch_bytes(product) * static_cast<int64_t>(tiles.of_thread.size());
}

std::string_view refuse(const Exec& exec, const Product& product) {
  if (!is_plain(product.b.format)) return "oneDNN does not read weights in blocks";
  if (product.a.dtype != product.b.dtype) return "operands of different types";
  if (product.epilogue.scale || bytes_of(product.a.dtype) == 1) return "codes with a scale";
  const DType sums = sums_of(product).dtype();
  const bool is_f32 = product.a.dtype == DType::f32;
  if ((is_f32 && sums != DType::f32) || product.a.dtype == DType::f64 || sums == DType::f64 ||
      product.a.dtype == DType::f16 || sums == DType::f16)
    return "types that oneDNN does not multiply";
  if (!library_multiplies(product.a.dtype)) return "oneDNN multiplies bf16 with AVX-512 only";
  if (!exec.only.empty()) return {};
  if (is_small_m(product)) return "a few rows read the weights once, and nothing is to be packed";
  if (!library_is_faster(exec.device.target(), product.a.dtype))
    return "exact arithmetic is as fast here";
  return {};
}

}  // namespace

std::string_view onednn_refuses(const Exec& exec, const LinearForward& a) {
  return refuse(exec, product_of(a));
}
std::string_view onednn_refuses(const Exec& exec, const LinearBackwardInput& a) {
  return refuse(exec, product_of(a));
}
std::string_view onednn_refuses(const Exec& exec, const LinearBackwardWeight& a) {
  return refuse(exec, product_of(a));
}

void onednn(Exec& exec, const LinearForward& a) { run(exec, a); }
void onednn(Exec& exec, const LinearBackwardInput& a) { run(exec, a); }
void onednn(Exec& exec, const LinearBackwardWeight& a) { run(exec, a); }

int64_t onednn_scratch_bytes(const Exec& exec, const LinearForward& a) {
  return scratch_bytes(exec, a);
}
int64_t onednn_scratch_bytes(const Exec& exec, const LinearBackwardInput& a) {
  return scratch_bytes(exec, a);
}
int64_t onednn_scratch_bytes(const Exec& exec, const LinearBackwardWeight& a) {
  return scratch_bytes(exec, a);
}

}  // namespace megalith::kernels::matmul
