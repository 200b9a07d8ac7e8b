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

/// One layer's keys and values. Layers of a group keep those of a position in blocks of one number.
struct CachedLayer {
  kernels::KvCacheShape shape;
  View storage;
  size_t group = 0;
};
/// Where keys and values are kept between passes, and which blocks hold which sequence.
struct KvCacheBinding {
  std::span<const CachedLayer> layers;  // self-attention's, by layer on this rank
  std::span<const CachedLayer> memory;  // cross attention's, the same
  /// By group: the batch's sequences. Of cross attention each row is a sequence of one new token,
  /// the last of its memory, so that it sees all of that.
  std::span<const kernels::CachedSequences> groups;
};

class Adapter;
/// Rows [begin, begin + count) of a batch, which one adapter adds to (layers/adapter.h).
struct AdapterRun {
  int64_t begin = 0;
  int64_t count = 0;
  const Adapter* adapter = nullptr;  // null: none
};

struct Batch;
/// The rows of another sequence, an encoder's output, that cross attention reads keys and values
/// from: sequence s of the batch sees all of sequence s of these.
struct Memory {
  const Batch* batch = nullptr;  // whose tokens they are; as many sequences as the batch that reads
  ConstView rows_TH;             // the rank's own tokens
  /// f32 (f64 beside f64), the rank's own tokens. Each layer's backward ADDS its gradient of the
  /// rows: all layers read the same ones. Zero it before the first.
  View gradient_TH;
};

/// The tokens whose norms, dropouts and residual sums this rank computes: all of the batch, or with
/// sequence parallelism its part of each sample (parallel/sequence_shard.h).
struct OwnTokens {
  int64_t count = 0;
  int64_t per_sample = 0;       // of full samples (training); fixes the token shards of gradients
  ConstView ids_T;              // i32, for virtual tokens
  ConstView position_T;         // i32, for position embeddings
  ConstView type_T;             // i32, for embeddings of token types; absent where none has them
  ConstView sample_T;           // i64: the sample of the run, for dropout
  ConstView sample_position_T;  // i32: the place in it
};

/// The tokens whose losses may weigh anything, as many of each sample, in order. What a head leaves
/// out for them is a function of shapes, so that plans have it.
struct PredictedTokens {
  ConstView row_R;                // i32: which token; absent: all of them
  ConstView place_T;              // i32: of each token its place among them, -1: none
  ConstView targets_R;            // i32
  ConstView weight_R;             // f32
  std::span<const int32_t> runs;  // like cu_seqlens: the rows of each sample
};

/// What is asked about each sample as a pair of stretches of text: its first sequence is one.
struct SentencePairs {
  ConstView targets_N;   // i32 [samples]; absent: nothing is asked
  ConstView weight_N;    // f32, all 1
  ConstView cu_samples;  // i32 [samples + 1]: where samples begin
  float loss_scale = 0;  // 1 / pairs of the step
};

/// Answers that are compared: then a unit of loss is a pair of sequences, of which the first was
/// chosen over the second, right behind it. Beside its targets_T (of tokens; below 0: not learned)
/// and loss_weight_T (of pairs) a batch has these.
struct ComparedAnswers {
  ConstView rows_P3;       // i32 [pairs, 3]: where both begin, and the end; absent: none compared
  ConstView reference_P2;  // f32 [pairs, 2]: what the reference says of them
  double beta = 0, label_smoothing = 0;
};

/// Device views; owned by whoever made the batch, valid for the whole pass.
struct Batch {
  int64_t num_tokens = 0;
  int64_t num_samples = 1;  // of equal length (training)
  ConstView ids_T;          // i32
  ConstView position_T;     // i32, for position embeddings
  ConstView type_T;         // i32, for embeddings of token types; absent where none has them

  /// Sequence s is tokens [cu_seqlens[s], cu_seqlens[s + 1]); attention stays inside it.
  std::span<const int32_t> cu_seqlens;
  ConstView cu_seqlens_device;  // i32, the same numbers
  /// Positions that each sequence will come to have, where scaled rotary positions ask; absent:
  /// those it has here.
  std::span<const int32_t> reach;

  /// Names of sequences for dropout: which sample of the run, and where in it.
  ConstView sample_S;           // i64, per sequence
  ConstView sample_position_S;  // i64, per sequence: where in its sample it begins
  OwnTokens own;

  /// Of each unit of loss (heads/head.h): of the T tokens in order, or of the sequences,
  /// cu_seqlens' order, followed by as many of weight 0 as the batch might have had more. Of pairs
  /// see ComparedAnswers.
  ConstView targets_T;      // i32 [units]; or i32 or f32 [units, numbers]; absent for inference
  ConstView loss_weight_T;  // f32 [units]
  float loss_scale = 1;     // 1 / global weight of the step
  PredictedTokens predicted;
  SentencePairs pairs;
  ComparedAnswers compared;

  /// Of all rows, in order, where they have adapters of their own; empty: that of the context.
  std::span<const AdapterRun> adapters;

  /// When bound: keys and values go to the cache and attention reads it (inference); those of cross
  /// attention are there (CrossAttention::keep).
  const KvCacheBinding* cache = nullptr;
  /// Of an encoder-decoder: what its encoder reads, as many sequences as here.
  const Batch* encoder = nullptr;
  /// What layers with cross attention read.
  const Memory* memory = nullptr;
};

}  // namespace megalith::layers
