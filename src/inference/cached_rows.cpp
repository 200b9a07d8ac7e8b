// SPDX-License-Identifier: Apache-2.0
#include "inference/cached_rows.h"

#include <algorithm>
#include <numeric>

#include "kernels/attention/kv_cache.h"

namespace megalith::inference {
namespace {

TextSequences text_of(std::span<const SequenceRows> rows) {
  TextSequences text;
  const auto is_adapted = [](const SequenceRows& row) { return row.adapter != nullptr; };
  if (std::ranges::any_of(rows, is_adapted)) {
    for (const SequenceRows& row : rows) text.adapters.push_back(row.adapter);
  }
  for (const SequenceRows& row : rows) {
    text.ids.insert(text.ids.end(), row.ids.begin(), row.ids.end());
    text.cu_seqlens.push_back(static_cast<int32_t>(text.ids.size()));
    text.past.push_back(narrow<int32_t>(row.past));
    text.reach.push_back(narrow<int32_t>(row.reach));
  }
  return text;
}

/// Appends a sequence's table to those before it, each `width` long.
void append(std::span<const int32_t> table, int64_t width, std::vector<int32_t>& tables) {
  const size_t end = tables.size() + static_cast<size_t>(width);
  const auto count = std::min(table.size(), static_cast<size_t>(width));
  tables.insert(tables.end(), table.begin(), table.begin() + static_cast<ptrdiff_t>(count));
  tables.resize(end);
}

}  // namespace

CachedRows::CachedRows(device::Device& device, const std::vector<KvGroup>& groups,
                       std::span<const SequenceRows> rows)
    : text_(device, text_of(rows)), copies_(device), groups_(groups.size()) {
  for (size_t g = 0; g < groups.size(); ++g) {
    Group& group = groups_[g];
    int64_t width = 1;
    for (const SequenceRows& row : rows) {
      const int64_t positions = groups[g].is_memory ? row.memory : row.past + std::ssize(row.ids);
      const int64_t blocks = kernels::kv_cache_blocks(positions);
      MEGA_CHECK_LE(blocks, std::ssize((*row.blocks)[g]));
      width = std::max(width, blocks);
    }
    std::vector<int32_t> tables;
    for (const SequenceRows& row : rows) {
      // A row of cross attention is a sequence of its own that sees all of the memory.
      const int64_t times = groups[g].is_memory ? std::ssize(row.ids) : 1;
      for (int64_t i = 0; i < times; ++i) {
        append((*row.blocks)[g], width, tables);
        group.past.push_back(narrow<int32_t>(groups[g].is_memory ? row.memory - 1 : row.past));
      }
    }
    group.cu_seqlens = text_.sequences().cu_seqlens;
    if (groups[g].is_memory) {
      group.cu_seqlens.resize(group.past.size() + 1);
      std::iota(group.cu_seqlens.begin(), group.cu_seqlens.end(), 0);
    }
    sequences_.push_back(place(group, tables, width));
  }
}

kernels::CachedSequences CachedRows::place(Group& group, const std::vector<int32_t>& tables,
                                           int64_t width) {
  return {group.cu_seqlens, group.past, copies_.place<int32_t>(group.cu_seqlens),
          copies_.place<int32_t>(group.past),
          copies_.place<int32_t>(tables).reshape(Shape{std::ssize(group.past), width})};
}

KeptRows::KeptRows(device::Device& device, const std::vector<KvGroup>& groups,
                   std::span<const int32_t> ids, const BlockTables& tables)
    : text_(device, one_sequence(ids)), copies_(device), sequences_(groups.size()) {
  const std::vector<int32_t>& table = tables.back();
  MEGA_CHECK(groups.back().is_memory &&
             std::ssize(table) >= kernels::kv_cache_blocks(std::ssize(ids)));
  const TextSequences& text = text_.sequences();
  sequences_.back() = {text.cu_seqlens, text.past, text_.batch().cu_seqlens_device,
                       copies_.place<int32_t>(text.past),
                       copies_.place<int32_t>(table).reshape(Shape{1, std::ssize(table)})};
}

}  // namespace megalith::inference
