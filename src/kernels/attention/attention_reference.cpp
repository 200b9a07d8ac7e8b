// SPDX-License-Identifier: Apache-2.0
// The specification of attention: plain loops in double over any dtype. Probabilities of one query
// at a time; backward recomputes them from lse (or takes the given ones, but of f16).
#include <cmath>
#include <limits>

#include "kernels/attention/attention_work.h"
#include "kernels/elementary/reference_access.h"
#include "kernels/elementwise/dropout.h"
#include "math/random.h"

namespace megalith::kernels {
namespace {

/// One head of `count` rows as doubles [count, D].
using Matrix = std::vector<double>;
Matrix read_head(const ConstHeadsView& x, int64_t row, int64_t count, int64_t head) {
  Matrix values;
  values.reserve(static_cast<size_t>(count * x.head_size));
  for (int64_t t = row; t < row + count; ++t) {
    const ConstView elements(x.at(t, head), x.dtype, Shape{1, x.head_size});
    for (int64_t d = 0; d < x.head_size; ++d) values.push_back(read_double(elements, 0, d));
  }
  return values;
}
void write_head(const HeadsView& x, int64_t row, int64_t head, const Matrix& values) {
  const int64_t count = static_cast<int64_t>(values.size()) / x.head_size;
  for (int64_t t = 0; t < count; ++t) {
    const View elements(x.at(row + t, head), x.dtype, Shape{1, x.head_size});
    for (int64_t d = 0; d < x.head_size; ++d) {
      write_double(elements, 0, d, values[static_cast<size_t>(t * x.head_size + d)]);
    }
  }
}
/// Row i of a times row j of b.
double dot(const Matrix& a, int64_t i, const Matrix& b, int64_t j, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d) {
    sum += a[static_cast<size_t>(i * size + d)] * b[static_cast<size_t>(j * size + d)];
  }
  return sum;
}
/// Row i of a += factor * row j of b.
void add_row(Matrix& a, int64_t i, double factor, const Matrix& b, int64_t j, int64_t size) {
  for (int64_t d = 0; d < size; ++d) {
    a[static_cast<size_t>(i * size + d)] += factor * b[static_cast<size_t>(j * size + d)];
  }
}

/// One sequence's rows and where its probabilities start.
struct Place : SequenceRows {
  int64_t sequence;
  int64_t probabilities;

  /// Of query i and key j.
  int64_t probability(int64_t head, int64_t i, int64_t j) const {
    return probabilities + (head * sight.queries + i) * sight.keys + j;
  }
};

template <typename Visit>
void for_sequences(const AttentionSequences& sequences, int64_t num_heads, Visit visit) {
  for (int64_t s = 0; s < num_sequences(sequences); ++s) {
    visit(Place{rows_of(sequences, s), s, probabilities_offset(sequences, s, num_heads)});
  }
}

/// A score and its slope in the dot product.
struct Score {
  double value, slope;
};
Score score_of(double product, double scale, double softcap) {
  if (softcap == 0) return {product * scale, scale};
  const double t = std::tanh(product * scale / softcap);
  return {softcap * t, scale * (1 - t * t)};
}

/// 0 or 1 / (1 - p) for query i and key j of the sequence.
double dropout_factor(const AttentionSequences& sequences, const AttentionDropout& dropout,
                      int64_t sequence, int64_t head, int64_t i, int64_t j) {
  if (dropout.p == 0) return 1;
  const auto sample = static_cast<uint64_t>(dropout.sample_S.as<int64_t>()[sequence]);
  const auto position = static_cast<uint64_t>(dropout.position_S.as<int64_t>()[sequence]);
  const uint64_t query = position + static_cast<uint64_t>(i);
  const bool own_keys = !sequences.cu_seqlens_keys.empty();
  const uint64_t key = (own_keys ? 0 : position) + static_cast<uint64_t>(j);
  const PhiloxBlock words = philox(dropout.key, query << 32 | key / 4,
                                   sample << 16 | static_cast<uint64_t>(dropout.head_begin + head));
  const bool kept = words[key % 4] >= dropout_threshold(dropout.p);
  return kept ? static_cast<double>(dropout_scale(dropout.p)) : 0.0;
}

void forward_head(const AttentionForward& a, const Place& place, int64_t head) {
  const int64_t kv_head = head / (a.q_TND.num_heads / a.k_TKD.num_heads);
  const int64_t size = a.q_TND.head_size;
  const int64_t queries = place.sight.queries, keys = place.sight.keys;
  const Matrix q = read_head(a.q_TND, place.query_row, queries, head);
  const Matrix k = read_head(a.k_TKD, place.key_row, keys, kv_head);
  const Matrix v = read_head(a.v_TKD, place.key_row, keys, kv_head);
  Matrix y(q.size());
  for (int64_t i = 0; i < queries; ++i) {
    const Range seen = place.sight.keys_of(i);
    std::vector<double> p(static_cast<size_t>(keys));
    double max = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = seen.begin; j < seen.end; ++j) {
      p[static_cast<size_t>(j)] =
          score_of(dot(q, i, k, j, size), double{a.scale}, double{a.softcap}).value +
          bias_of(a.bias, head, j - i);
      max = std::max(max, p[static_cast<size_t>(j)]);
    }
    for (int64_t j = seen.begin; j < seen.end; ++j) {
      sum += p[static_cast<size_t>(j)] = std::exp(p[static_cast<size_t>(j)] - max);
    }
    for (int64_t j = seen.begin; j < seen.end; ++j) {
      p[static_cast<size_t>(j)] /= sum;
      const double factor = dropout_factor(a.sequences, a.dropout, place.sequence, head, i, j);
      add_row(y, i, p[static_cast<size_t>(j)] * factor, v, j, size);
    }
    if (!a.lse_NT.absent()) write_double(a.lse_NT, head, place.query_row + i, max + std::log(sum));
    for (int64_t j = 0; j < keys && !a.probabilities.absent(); ++j) {
      write_double(a.probabilities, 0, place.probability(head, i, j), p[static_cast<size_t>(j)]);
    }
  }
  write_head(a.y_TND, place.query_row, head, y);
}

/// Adds one query head's part to dk and dv of its key/value head, and to its column of the biases'
/// table; writes its dq.
void backward_head(const AttentionBackward& a, const Place& place, int64_t head, Matrix& dk,
                   Matrix& dv, Matrix& dtable) {
  const int64_t kv_head = head / (a.q_TND.num_heads / a.k_TKD.num_heads);
  const int64_t size = a.q_TND.head_size;
  const int64_t queries = place.sight.queries, keys = place.sight.keys;
  const Matrix q = read_head(a.q_TND, place.query_row, queries, head);
  const Matrix k = read_head(a.k_TKD, place.key_row, keys, kv_head);
  const Matrix v = read_head(a.v_TKD, place.key_row, keys, kv_head);
  const Matrix y = read_head(a.y_TND, place.query_row, queries, head);
  const Matrix dy = read_head(a.dy_TND, place.query_row, queries, head);
  const bool recomputed = a.probabilities.absent() || a.q_TND.dtype == DType::f16;
  Matrix dq(q.size());
  for (int64_t i = 0; i < queries; ++i) {
    const double delta = dot(dy, i, y, i, size);
    const double lse = read_double(a.lse_NT, head, place.query_row + i);
    const Range seen = place.sight.keys_of(i);
    for (int64_t j = seen.begin; j < seen.end; ++j) {
      Score score = score_of(dot(q, i, k, j, size), double{a.scale}, double{a.softcap});
      score.value += bias_of(a.bias, head, j - i);
      const double p = recomputed ? std::exp(score.value - lse)
                                  : read_double(a.probabilities, 0, place.probability(head, i, j));
      const double factor = dropout_factor(a.sequences, a.dropout, place.sequence, head, i, j);
      const double unscaled = p * (dot(dy, i, v, j, size) * factor - delta);
      const double ds = unscaled * score.slope;
      if (!dtable.empty()) {
        const int64_t bucket = a.bias.buckets.of(j - i);
        dtable[static_cast<size_t>(bucket * a.q_TND.num_heads + head)] += unscaled;
      }
      add_row(dv, j, p * factor, dy, i, size);
      add_row(dk, j, ds, q, i, size);
      add_row(dq, i, ds, k, j, size);
    }
  }
  write_head(a.dq_TND, place.query_row, head, dq);
}

}  // namespace

void attention_forward_reference(Exec&, const AttentionForward& a) {
  for_sequences(a.sequences, a.q_TND.num_heads, [&](const Place& place) {
    for (int64_t head = 0; head < a.q_TND.num_heads; ++head) forward_head(a, place, head);
  });
}

void attention_backward_reference(Exec&, const AttentionBackward& a) {
  const int64_t q_per_kv = a.q_TND.num_heads / a.k_TKD.num_heads;
  Matrix dtable;
  if (!a.dtable_BN.absent()) dtable.resize(static_cast<size_t>(a.dtable_BN.num_elements()));
  for_sequences(a.sequences, a.q_TND.num_heads, [&](const Place& place) {
    for (int64_t kv_head = 0; kv_head < a.k_TKD.num_heads; ++kv_head) {
      Matrix dk(static_cast<size_t>(place.sight.keys * a.q_TND.head_size)), dv(dk.size());
      for (int64_t h = 0; h < q_per_kv; ++h) {
        backward_head(a, place, kv_head * q_per_kv + h, dk, dv, dtable);
      }
      write_head(a.dk_TKD, place.key_row, kv_head, dk);
      write_head(a.dv_TKD, place.key_row, kv_head, dv);
    }
  });
  for (int64_t i = 0; i < static_cast<int64_t>(dtable.size()); ++i) {
    const int64_t bucket = i / a.q_TND.num_heads, head = i % a.q_TND.num_heads;
    write_double(a.dtable_BN, bucket, head,
                 read_double(a.dtable_BN, bucket, head) + dtable[static_cast<size_t>(i)]);
  }
}

}  // namespace megalith::kernels
