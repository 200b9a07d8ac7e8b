// SPDX-License-Identifier: Apache-2.0
#include "store/gguf_layout.h"

#include <cstring>
#include <vector>

#include "base/check.h"

namespace megalith::store {
namespace {

void reorder(std::span<std::byte> rows, int64_t count, int64_t head_dim, bool into_pairs) {
  MEGA_CHECK(head_dim > 0 && head_dim % 2 == 0 && count % head_dim == 0);
  const size_t each = rows.size() / static_cast<size_t>(count);
  const std::vector<std::byte> before(rows.begin(), rows.end());
  for (int64_t row = 0; row < count; ++row) {
    const int64_t in_head = row % head_dim;
    const int64_t ours = row - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
    const int64_t to = into_pairs ? row : ours, from = into_pairs ? ours : row;
    std::memcpy(rows.data() + static_cast<size_t>(to) * each,
                before.data() + static_cast<size_t>(from) * each, each);
  }
}

}  // namespace

int64_t paired_head_dim(const gguf_models::Architecture& architecture,
                        const models::ModelSpec& spec, std::string_view foreign_name) {
  const bool turns = foreign_name.find(".attn_q.") != std::string_view::npos ||
                     foreign_name.find(".attn_k.") != std::string_view::npos;
  return architecture.paired_heads && turns ? spec.layers.front().attention.head_dim : 0;
}

void pair_rows(std::span<std::byte> rows, int64_t count, int64_t head_dim) {
  reorder(rows, count, head_dim, true);
}

void unpair_rows(std::span<std::byte> rows, int64_t count, int64_t head_dim) {
  reorder(rows, count, head_dim, false);
}

float stored_offset(const models::ModelSpec& spec, std::string_view our_name) {
  const bool is_norm =
      our_name.find("norm") != std::string_view::npos && our_name.ends_with(".weight");
  return is_norm ? static_cast<float>(spec.final_norm.offset) : 0.0F;
}

}  // namespace megalith::store
