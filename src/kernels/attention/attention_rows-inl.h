// SPDX-License-Identifier: Apache-2.0
// One block of keys against some query rows: the step that training, prefill and decoding share, so
// that their bits agree. Included once per instruction set.

#if defined(MEGA_ATTENTION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_ROWS_INL_H_
#undef MEGA_ATTENTION_ROWS_INL_H_
#else
#define MEGA_ATTENTION_ROWS_INL_H_
#endif

#include "kernels/attention/attention_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

/// Query rows per step: four register tiles, whose scores stay in the first-level cache.
inline constexpr int64_t kRowChunk = 24;

/// Running state of query rows: q and sum are [count, width].
struct QueryRows {
  float* q;
  float* sum;
  float* max;
  float* norm;
  int64_t head_size;
  int64_t width;

  QueryRows at(int64_t r) const {
    return {q + r * width, sum + r * width, max + r, norm + r, head_size, width};
  }
};

/// Scores [begin, limit) of a row, times scale; -inf before them in their first 16 lanes and after
/// them in their last vector; their maximum.
HWY_INLINE float scale_and_mask(float* s, int64_t begin, int64_t limit, float scale) {
  const FloatTag d;
  const FloatVec lowest = hn::Set(d, -INFINITY);
  const FloatVec by = hn::Set(d, scale);
  FloatVec max = lowest;
  int64_t j = block_start(begin, 16);
  for (; j < begin; j += kFloatLanes) {
    const auto lanes = [&](int64_t count) HWY_ATTR {
      return hn::FirstN(d, static_cast<size_t>(std::clamp<int64_t>(count, 0, kFloatLanes)));
    };
    const auto valid = hn::AndNot(lanes(begin - j), lanes(limit - j));
    const FloatVec scaled = hn::IfThenElse(valid, hn::Mul(load(s + j), by), lowest);
    store(scaled, s + j);
    max = hn::Max(max, scaled);
  }
  for (; j + kFloatLanes <= limit; j += kFloatLanes) {
    const FloatVec scaled = hn::Mul(load(s + j), by);
    store(scaled, s + j);
    max = hn::Max(max, scaled);
  }
  if (j < limit) {
    const auto valid = hn::FirstN(d, static_cast<size_t>(limit - j));
    const FloatVec scaled = hn::IfThenElse(valid, hn::Mul(load(s + j), by), lowest);
    store(scaled, s + j);
    max = hn::Max(max, scaled);
  }
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

/// Dot products [begin, limit) of a row to capped scores, and some around them.
HWY_INLINE void cap_scores(float* s, int64_t begin, int64_t limit, const ScoreRule& rule) {
  const FloatVec inner = hn::Set(FloatTag(), rule.inner), cap = hn::Set(FloatTag(), rule.softcap);
  for (int64_t j = block_start(begin, kFloatLanes); j < limit; j += kFloatLanes) {
    store(hn::Mul(elementary::tanh<SimdOps>(hn::Mul(load(s + j), inner)), cap), s + j);
  }
}

/// Dot products [begin, limit) of a row, and some around them, to scores; run[j] is key j's bias.
HWY_INLINE void add_biases(float* s, int64_t begin, int64_t limit, float scale, const float* run) {
  const FloatVec by = hn::Set(FloatTag(), scale);
  for (int64_t j = block_start(begin, kFloatLanes); j < limit; j += kFloatLanes)
    store(hn::Add(hn::Mul(load(s + j), by), load(run + j)), s + j);
}

/// tree_sum16 without a trip through memory. (A template so that only the branch of this
/// instruction set is compiled.)
template <class V>
HWY_INLINE float quick_tree_sum16(const V& v) {
  const hn::FixedTag<float, 8> d8;
  const hn::FixedTag<float, 4> d4;
  const auto fold8 = [&] HWY_ATTR {
    if constexpr (sizeof(v.part) == sizeof(v.part[0])) {
      return hn::Add(hn::LowerHalf(d8, v.part[0]), hn::UpperHalf(d8, v.part[0]));
    } else {
      return hn::Add(v.part[0], v.part[1]);
    }
  };
  const auto sum8 = fold8();
  const auto sum4 = hn::Add(hn::LowerHalf(d4, sum8), hn::UpperHalf(d4, sum8));
  const auto sum2 = hn::Add(sum4, hn::Shuffle1032(sum4));
  return hn::GetLane(hn::Add(sum2, hn::Shuffle2301(sum2)));
}

/// s_j = exp(s_j - max) of what scale_and_mask wrote; returns the 16-lane sum.
HWY_INLINE float exponentials(float* s, int64_t begin, int64_t limit, float max) {
  const FloatVec shift = hn::Set(FloatTag(), max);
  Vec16 sum = set16(0.0f);
  for (int64_t j = block_start(begin, 16); j < limit; j += 16) {
    for (int part = 0; part < kParts; ++part) {
      const int64_t at = j + part * kFloatLanes;
      if (at >= limit) break;
      const FloatVec p = elementary::exp<SimdOps>(hn::Sub(load(s + at), shift));
      store(p, s + at);
      sum.part[part] = hn::Add(sum.part[part], p);
    }
  }
  return quick_tree_sum16(sum);
}

/// New maxima and the factors exp(old - new) for up to 32 rows in vectors. A row that has seen only
/// -inf shifts by 0, so that its probabilities are 0 and not NaN.
HWY_INLINE void rescale(const float* block_max, float* max, float* shift, float* factor) {
  const FloatTag d;
  const FloatVec lowest = hn::Set(d, -INFINITY);
  for (int64_t r = 0; r < 32; r += kFloatLanes) {
    const FloatVec old = load(max + r);
    const FloatVec now = hn::Max(old, load(block_max + r));
    const FloatVec by = hn::IfThenElse(hn::Eq(now, lowest), hn::Zero(d), now);
    store(now, max + r);
    store(by, shift + r);
    store(elementary::exp<SimdOps>(hn::Sub(old, by)), factor + r);
  }
}

/// What attend_chunk needs to know of its rows besides their state.
struct ChunkPlace {
  const int32_t* begin;  // keys [begin, limit) of this block that each row sees; 0, 0: none
  const int32_t* limit;
  Range some;            // keys that some row sees
  bool even;             // all rows see the same ones
  const int64_t* query;  // position of each row in its sequence
  const int64_t* head;
  int64_t first_key;
  float* saved_scores;  // null, or where to keep the scaled scores of row r: at r * saved_row
  int64_t saved_row;
};

/// Keeps scaled scores of a block; -inf where a row sees nothing.
HWY_INLINE void save_scores(const float* scores, int64_t count, const ChunkPlace& place) {
  for (int64_t r = 0; r < count; ++r) {
    const float* from = scores + r * kKeyBlock;
    float* to = place.saved_scores + r * place.saved_row;
    std::fill(to, to + place.begin[r], -INFINITY);
    std::copy(from + place.begin[r], from + place.limit[r], to + place.begin[r]);
    std::fill(to + place.limit[r], to + kKeyBlock, -INFINITY);
  }
}

/// Scores of a chunk's rows from their dot products but for the scale that is returned.
HWY_INLINE float shape_scores(float* scores, int64_t count, const ChunkPlace& place,
                              const ScoreRule& rule) {
  if (rule.softcap == 0 && !rule.bias) return rule.scale;
  HWY_ALIGN float room[kKeyBlock];
  for (int64_t r = 0; r < count; ++r) {
    float* s = scores + r * kKeyBlock;
    if (rule.softcap > 0) {
      cap_scores(s, place.begin[r], place.limit[r], rule);
    } else {
      add_biases(s, place.begin[r], place.limit[r], rule.scale,
                 rule.bias.run(place.head[r], place.first_key - place.query[r], kKeyBlock, room));
    }
  }
  return 1;
}

/// `count` <= kRowChunk rows against one block of keys.
template <class T>
HWY_NOINLINE void attend_chunk(const QueryRows& rows, int64_t count, Right<T> keys_DJ,
                               Right<T> values_JD, const ChunkPlace& place, const ScoreRule& rule,
                               const SequenceDropout& dropout) {
  HWY_ALIGN float scores[kRowChunk * kKeyBlock];
  HWY_ALIGN float block_max[32] = {}, max[32] = {}, shift[32], factor[32];
  const int64_t first = block_start(place.some.begin, kFloatLanes);
  const int64_t columns = round_up(place.some.end, kFloatLanes) - first;
  product(Left{rows.q, rows.width, 1}, Right<T>{keys_DJ.data + first, keys_DJ.row, keys_DJ.ahead},
          Result{scores + first, kKeyBlock}, count, columns, Chains::of_length(rows.head_size));
  const float scale = shape_scores(scores, count, place, rule);
  for (int64_t r = 0; r < count; ++r) {
    max[r] = rows.max[r];
    block_max[r] = scale_and_mask(scores + r * kKeyBlock, place.begin[r], place.limit[r], scale);
  }
  if (place.saved_scores != nullptr) save_scores(scores, count, place);
  rescale(block_max, max, shift, factor);
  for (int64_t r = 0; r < count; ++r) {
    const float sum =
        exponentials(scores + r * kKeyBlock, place.begin[r], place.limit[r], shift[r]);
    rows.norm[r] = rows.norm[r] * factor[r] + sum;
    rows.max[r] = max[r];
  }
  if (dropout.on) {
    HWY_ALIGN float keep[kKeyBlock];
    for (int64_t r = 0; r < count; ++r) {
      dropout_factors(dropout, place.head[r], place.query[r], place.first_key, keep);
      float* p = scores + r * kKeyBlock;
      for (int64_t j = block_start(place.begin[r], kFloatLanes); j < place.limit[r];
           j += kFloatLanes) {
        store(hn::Mul(load(p + j), load(keep + j)), p + j);
      }
    }
  }
  const bool even = place.even && place.some.begin == 0;
  product(Left{scores, kKeyBlock, 1}, values_JD, Result{rows.sum, rows.width, Start::carry, factor},
          count, rows.width,
          even ? Chains::of_length(place.some.end) : Chains{place.begin, place.limit});
}

/// Where an item's rows are: head after head, `num_queries` rows each.
struct RowsPlace {
  int64_t num_heads;
  int64_t num_queries;
  int64_t first_head;
  int64_t first_query;  // position in the sequence of each head's first row
  Sight sight;
};

/// All of an item's rows against the block of `num_keys` keys at first_key. Rows that see none of
/// them are left as they are. `scores` (or null) keeps scaled scores, a row `scores_row` long.
template <class T>
HWY_INLINE void attend_block(const QueryRows& rows, const RowsPlace& place, int64_t first_key,
                             int64_t num_keys, Right<T> keys_DJ, Right<T> values_JD,
                             const ScoreRule& rule, const SequenceDropout& dropout, float* scores,
                             int64_t scores_row) {
  const int64_t num_rows = place.num_heads * place.num_queries;
  const int64_t last_query = place.first_query + place.num_queries;
  const bool all =
      place.sight.all_see_all({place.first_query, last_query}, {first_key, first_key + num_keys});
  int64_t next_query = place.first_query, next_head = place.first_head;
  for (int64_t r = 0; r < num_rows; r += kRowChunk) {
    const int64_t count = std::min(kRowChunk, num_rows - r);
    int32_t begin[kRowChunk], limit[kRowChunk];
    int64_t query[kRowChunk], head[kRowChunk];
    Range some{all ? 0 : kKeyBlock, all ? num_keys : 0};
    bool even = true;
    for (int64_t i = 0; i < count; ++i) {
      query[i] = next_query++;
      head[i] = next_head;
      if (next_query == last_query) {
        next_query = place.first_query;
        ++next_head;
      }
      begin[i] = 0;
      limit[i] = static_cast<int32_t>(num_keys);
      if (all) continue;
      const Range seen = part_of_block(place.sight.keys_of(query[i]), first_key, num_keys);
      begin[i] = static_cast<int32_t>(seen.begin);
      limit[i] = static_cast<int32_t>(seen.end);
      even = even && begin[i] == begin[0] && limit[i] == limit[0];
      if (!seen.empty()) some = {std::min(some.begin, seen.begin), std::max(some.end, seen.end)};
    }
    if (some.empty()) continue;
    const ChunkPlace chunk{
        begin,     limit,
        some,      even,
        query,     head,
        first_key, scores == nullptr ? nullptr : scores + r * scores_row + first_key,
        scores_row};
    attend_chunk(rows.at(r), count, keys_DJ, values_JD, chunk, rule, dropout);
  }
}

/// Before the first block.
HWY_INLINE void start_rows(const QueryRows& rows, int64_t count) {
  std::fill(rows.sum, rows.sum + count * rows.width, 0.0f);
  std::fill(rows.max, rows.max + count, -INFINITY);
  std::fill(rows.norm, rows.norm + count, 0.0f);
}

/// After the last block: row `r` of the state to row `row` of y; returns its log-sum-exp.
HWY_INLINE float finish_row(const QueryRows& rows, int64_t r, const HeadsView& y, int64_t row,
                            int64_t head) {
  const FloatTag d;
  float* sum = rows.sum + r * rows.width;
  const FloatVec norm = hn::Set(d, rows.norm[r]);
  for (int64_t c = 0; c < rows.width; c += kFloatLanes) {
    // + 0 makes a negative zero positive.
    store(hn::Add(hn::Div(load(sum + c), norm), hn::Zero(d)), sum + c);
  }
  unpack_row(sum, y, row, head);
  return rows.max[r] + hn::GetLane(elementary::log<SimdOps>(norm));
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEGA_ATTENTION_ROWS_INL_H_
