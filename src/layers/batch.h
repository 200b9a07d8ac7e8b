// SPDX-License-Identifier: Apache-2.0
// What one pass through a model works on: T tokens of several sequences, one behind the other, no
// padding. Training, packed documents, masked losses, chunked prefill and cached decoding differ
// only in what stands here. Only embedding, attention, dropout and loss look into it.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/kv_cache.h"
#include "tensor/view.h"

namespace megalith::layers {

/// Where keys and values are kept between passes: the storage of every layer on this rank and which
/// of its blocks hold which sequence.
struct KvCacheBinding {
  kernels::KvCacheShape shape;
  std::span<const View> layers;  // by layer on this rank
  kernels::CachedSequences sequences;
};

/// Device views; owned by whoever made the batch, valid for the whole pass.
struct Batch {
  int64_t num_tokens = 0;
  ConstView ids_T;       // i32
  ConstView position_T;  // i32, for position embeddings

  /// Sequence s is tokens [cu_seqlens[s], cu_seqlens[s + 1]); attention stays inside it.
  std::span<const int32_t> cu_seqlens;
  ConstView cu_seqlens_device;  // i32, the same numbers
  bool causal = true;

  /// Names of tokens for dropout: which sample of the run, and where in it.
  ConstView sample_T;             // i64
  ConstView sample_position_T;    // i32
  ConstView sample_S;             // i64, per sequence
  ConstView sample_position_S;    // i64, per sequence: where in its sample it begins
  int64_t tokens_per_sample = 0;  // of full samples (training); fixes the token shards of gradients

  ConstView targets_T;      // i32; absent for inference
  ConstView loss_weight_T;  // f32
  float loss_scale = 1;     // 1 / global weight of the step

  /// When bound: keys and values go to the cache and attention reads it (inference).
  const KvCacheBinding* cache = nullptr;
};

}  // namespace megalith::layers
