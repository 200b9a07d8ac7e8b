// SPDX-License-Identifier: Apache-2.0
#include "models/gpt2_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace megalith::models {
namespace {

/// Side of the square that is transposed at once: two of them fit the first-level cache.
constexpr int64_t kTile = 32;

/// The foreign column of our fused row: ours [head][q k v][d], theirs [q k v][head][d].
int64_t fused_column(int64_t row, int64_t hidden, int64_t head_size) {
  const int64_t head = row / (3 * head_size);
  const int64_t part = row / head_size % 3;
  return part * hidden + head * head_size + row % head_size;
}

/// Calls move(ours index, foreign index) for every element both sides have.
template <typename Move>
void for_each_pair(const Gpt2Tensor& tensor, const Move& move) {
  const int64_t rows = tensor.shape[0];
  const int64_t columns = tensor.shape.num_dims() > 1 ? tensor.shape[1] : 1;
  const auto foreign_column = [&](int64_t row) {
    return tensor.layout == Gpt2Tensor::Layout::fused
               ? fused_column(row, rows / 3, tensor.head_size)
               : row;
  };
  for (int64_t row_0 = 0; row_0 < rows; row_0 += kTile) {
    for (int64_t column_0 = 0; column_0 < columns; column_0 += kTile) {
      const int64_t column_end = std::min(column_0 + kTile, columns);
      for (int64_t row = row_0; row < std::min(row_0 + kTile, rows); ++row) {
        const int64_t foreign = foreign_column(row);
        for (int64_t column = column_0; column < column_end; ++column) {
          move(row * columns + column, column * rows + foreign);
        }
      }
    }
  }
}

template <typename Word>
void permute(const Gpt2Tensor& tensor, const void* from, void* to, bool to_ours) {
  const auto* const source = static_cast<const Word*>(from);
  auto* const target = static_cast<Word*>(to);
  if (to_ours) {
    for_each_pair(tensor, [&](int64_t ours, int64_t theirs) { target[ours] = source[theirs]; });
  } else {
    for_each_pair(tensor, [&](int64_t ours, int64_t theirs) { target[theirs] = source[ours]; });
  }
}

void convert(const Gpt2Tensor& tensor, int64_t element_bytes, const void* from, void* to,
             bool to_ours) {
  if (tensor.layout == Gpt2Tensor::Layout::rows) {
    const int64_t bytes = tensor.foreign_shape.num_elements() * element_bytes;
    std::memcpy(to, from, static_cast<size_t>(bytes));
    const int64_t all = tensor.shape.num_elements() * element_bytes;
    if (to_ours) std::memset(static_cast<char*>(to) + bytes, 0, static_cast<size_t>(all - bytes));
    return;
  }
  switch (element_bytes) {
    case 1:
      return permute<uint8_t>(tensor, from, to, to_ours);
    case 2:
      return permute<uint16_t>(tensor, from, to, to_ours);
    case 4:
      return permute<uint32_t>(tensor, from, to, to_ours);
    case 8:
      return permute<uint64_t>(tensor, from, to, to_ours);
    default:
      MEGA_CHECK(false, "elements of {} bytes", element_bytes);
  }
}

/// Collects the tensors of one model.
class Listing {
 public:
  using Layout = Gpt2Tensor::Layout;
  std::vector<Gpt2Tensor> tensors;

  void norm(const std::string& name, const std::string& foreign, int64_t size) {
    for (const char* part : {".weight", ".bias"}) {
      tensors.push_back({name + part, {size}, foreign + part, {size}, Layout::rows, 0});
    }
  }
  void linear(const std::string& name, const std::string& foreign, int64_t out, int64_t in,
              int64_t head_size = 0) {
    const bool fused = head_size > 0;
    tensors.push_back({name + ".weight",
                       {out, in},
                       foreign + ".weight",
                       {in, out},
                       fused ? Layout::fused : Layout::transposed,
                       head_size});
    tensors.push_back({name + ".bias",
                       {out},
                       foreign + ".bias",
                       {out},
                       fused ? Layout::fused : Layout::rows,
                       head_size});
  }
};

}  // namespace

void check_gpt2_can_express(const Architecture& a) {
  std::vector<std::string> faults;
  if (a.norm != NormKind::layer_norm) faults.emplace_back("a norm that is not layer norm");
  if (a.position != PositionKind::learned) faults.emplace_back("positions that are not learned");
  if (a.mlp == MlpKind::swiglu) faults.emplace_back("a gated MLP");
  if (a.kv_heads != a.heads) faults.emplace_back("fewer key/value heads than heads");
  if (!a.bias) faults.emplace_back("layers without bias");
  if (!faults.empty()) {
    throw UserError("the model has {}, which the GPT-2 format cannot express",
                    fmt::join(faults, " and "));
  }
}

std::vector<Gpt2Tensor> gpt2_tensors(const Architecture& a) {
  check_gpt2_can_express(a);
  const std::string prefix(kGpt2Prefix);
  constexpr auto kRows = Gpt2Tensor::Layout::rows;
  const int64_t hidden = a.hidden;
  Listing list;
  list.tensors.push_back({"embedding.weight",
                          {a.padded_vocab(), hidden},
                          prefix + "wte.weight",
                          {a.vocab, hidden},
                          kRows,
                          0});
  list.tensors.push_back({"position.weight",
                          {a.context, hidden},
                          prefix + "wpe.weight",
                          {a.context, hidden},
                          kRows,
                          0});
  for (int64_t i = 0; i < a.layers; ++i) {
    const std::string ours = fmt::format("layers.{}.", i);
    const std::string theirs = fmt::format("{}h.{}.", prefix, i);
    list.norm(ours + "norm_1", theirs + "ln_1", hidden);
    list.linear(ours + "attention.qkv", theirs + "attn.c_attn", 3 * hidden, hidden, a.head_size());
    list.linear(ours + "attention.output", theirs + "attn.c_proj", hidden, hidden);
    list.norm(ours + "norm_2", theirs + "ln_2", hidden);
    list.linear(ours + "mlp.up", theirs + "mlp.c_fc", a.ffn, hidden);
    list.linear(ours + "mlp.down", theirs + "mlp.c_proj", hidden, a.ffn);
  }
  list.norm("final_norm", prefix + "ln_f", hidden);
  if (!a.tied) {
    list.tensors.push_back(
        {"head.weight", {a.padded_vocab(), hidden}, "lm_head.weight", {a.vocab, hidden}, kRows, 0});
  }
  return std::move(list.tensors);
}

bool is_gpt2_buffer(std::string_view name) {
  if (name.starts_with(kGpt2Prefix)) name.remove_prefix(kGpt2Prefix.size());
  if (!name.starts_with("h.")) return false;
  name.remove_prefix(2);
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  return digits > 0 &&
         (name.substr(digits) == ".attn.bias" || name.substr(digits) == ".attn.masked_bias");
}

void gpt2_to_ours(const Gpt2Tensor& tensor, int64_t element_bytes, const void* foreign,
                  void* ours) {
  convert(tensor, element_bytes, foreign, ours, true);
}

void gpt2_from_ours(const Gpt2Tensor& tensor, int64_t element_bytes, const void* ours,
                    void* foreign) {
  convert(tensor, element_bytes, ours, foreign, false);
}

}  // namespace megalith::models
