// SPDX-License-Identifier: Apache-2.0
// What adapters make of products, for each row of a batch, of the adapter that the row has, if any:
// what they add (Hu et al. 2022),
//   y = round(y + (x a) b)          a [I, R], b [R, O], kept as [P, O]: f32, the scale is in b
// learned vectors that multiply a product's outputs or its inputs (Liu et al. 2022),
//   y = round(y * l)                x = round(x * l)                     l [O] or [I]: f32
// after the product and its bias, before an activation; with magnitudes of outputs (DoRA, Liu et
// al. 2024, low_rank/row_norms.h) before the bias b',
//   y = round(round(y + (x a) b) * s) + b'     s [O]: f32, magnitude / norm of the row of w + b a
// a bottleneck adapter behind a row product (Houlsby et al. 2019, kernels/matmul/bottleneck.h); or
// virtual tokens before a text (layers/virtual_tokens.h). The sums are f32 chains in increasing
// index (kernels/matmul/low_rank.h), that over I cut into canonical shards where the product's is.
// A row's result depends on nothing but the row and its adapter: not on the other rows, what else
// is loaded, or the layout. Rows without an adapter keep the bits of the product.
//
// Cut over tensor ranks as the weight is: of a column product each rank has b's columns of its own
// and all of a, of a row product a's rows and all of b; the sums of T x R numbers travel then.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "kernels/matmul/bottleneck.h"
#include "kernels/matmul/low_rank.h"
#include "layers/context.h"
#include "parameters/parameter_set.h"

namespace megalith::layers {

/// The table of tokens, by which adapters have virtual tokens.
inline constexpr std::string_view kTokenTableName = "embedding.weight";

/// What an adapter has at one product: R, the rows of b as it is packed (kernels/matmul/low_rank.h)
/// and whether outputs have magnitudes; or a vector, without a rank; or the size of the bottleneck
/// behind it; or, at the table of tokens, the number of virtual tokens.
struct AdapterRank {
  enum class Vector : uint8_t { none, of_inputs, of_outputs };
  AdapterRank() = default;
  /// Not packed.
  AdapterRank(int64_t all) : rank(all), packed(all) {}
  AdapterRank(int64_t all, int64_t of_column, bool magnitudes = false)
      : rank(all), packed(of_column), has_magnitudes(magnitudes) {}
  AdapterRank(Vector kind) : vector(kind) {}
  /// `in_text`: they stand where a text has their ids, and not before it.
  static AdapterRank of_virtual_tokens(int64_t count, bool in_text = false) {
    AdapterRank made = of(0, count);
    made.in_text = in_text;
    return made;
  }
  static AdapterRank of_bottleneck(int64_t size) { return of(size, 0); }
  int64_t rank = 0, packed = 0, virtual_tokens = 0;
  Vector vector = Vector::none;
  bool has_magnitudes = false;
  int64_t bottleneck = 0;
  bool in_text = false;
  friend bool operator==(const AdapterRank&, const AdapterRank&) = default;

 private:
  static AdapterRank of(int64_t size, int64_t tokens) {
    AdapterRank made;
    made.bottleneck = size;
    made.virtual_tokens = tokens;
    return made;
  }
};
/// By weight of a product ("layers.0.attention.qkv.weight").
using AdapterRanks = std::map<std::string, AdapterRank, std::less<>>;

/// How many virtual tokens stand before a text that is read with it, and how many a text has.
int64_t virtual_tokens_of(const AdapterRanks& ranks);
int64_t tokens_in_text_of(const AdapterRanks& ranks);

/// An adapter as one rank has it.
class Adapter {
 public:
  struct Factors {
    device::Tensor a_IR, b_PO;                    // this rank's part
    std::vector<kernels::LowRankBlock> blocks{};  // of b; none: it is not packed
    device::Tensor scale_O{};                     // beside them, with magnitudes; else absent
    device::Tensor input_I{}, output_O{};         // instead: what multiplies; absent: nothing
    device::Tensor virtual_PE{};                  // instead: of the table of tokens
    // Instead: of a bottleneck, whole on every rank.
    device::Tensor down_RH{}, down_bias_R{}, up_HR{}, up_bias_H{};
    kernels::Bottleneck bottleneck() const { return {down_RH, down_bias_R, up_HR, up_bias_H}; }
  };
  /// Room for the products among `set`'s parameters; those of other ranks are passed over. To be
  /// filled. Memory: class weights.
  Adapter(const parameters::ParameterSet& set, device::Device& device, const AdapterRanks& ranks);

  std::map<std::string, Factors, std::less<>>& factors() { return factors_; }
  /// Null where it adds nothing.
  const Factors* find(std::string_view weight) const;
  /// That stand before a text, on ranks without the table of tokens too.
  int64_t virtual_tokens() const { return virtual_tokens_; }
  /// Whose ids, from the vocabulary's end on, stand in texts.
  int64_t tokens_in_text() const { return tokens_in_text_; }

 private:
  std::map<std::string, Factors, std::less<>> factors_;
  int64_t virtual_tokens_ = 0, tokens_in_text_ = 0;
};

/// Whether rows of the batch have an adapter of this weight.
bool is_adapted(const Context& context, const Batch& batch, const parameters::Parameter& weight);

/// Calls `body` with each run of the batch's rows that one adapter with virtual tokens has.
void for_each_virtual_run(const Context& context, const Batch& batch,
                          FunctionRef<void(int64_t begin, int64_t count, ConstView rows_PE)> body);

/// What a row product reads of x_TI: of rows whose adapters multiply it, that, in `made`; or x_TI.
ConstView adapted_input(Context& context, const Batch& batch, const parameters::Parameter& weight,
                        ConstView x_TI, device::Tensor& made);

/// Calls `body` for all `rows` of a batch, run by run, with whether their adapters of `weight` come
/// before the bias.
void for_each_bias_run(const Context& context, const Batch& batch,
                       const parameters::Parameter& weight, int64_t rows,
                       FunctionRef<void(int64_t begin, int64_t count, bool comes_before)> body);

/// Does to y_TO what the rows' adapters of `weight` do. x_TI: what the product read, in `k_shards`
/// canonical shards on this rank; `sums`: other tensor ranks have the other shards (collective).
struct AdaptedProduct {
  ConstView x_TI;
  View y_TO;
  ConstView bias_O = {};  // of rows whose adapters come before it
  int k_shards = 1;
  bool sums = false;
};
void add_adapters(Context& context, const Batch& batch, const parameters::Parameter& weight,
                  const AdaptedProduct& product);

}  // namespace megalith::layers
