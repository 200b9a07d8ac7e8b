// SPDX-License-Identifier: Apache-2.0
// Checks, cost and choice of implementation for attention_forward and attention_backward. The cost
// counts the pairs in sight: forward 2 products (4 D FLOPs per pair and head), backward 5 (10 D).
#include "kernels/attention/attention.h"

#include "kernels/attention/attention_bf16.h"
#include "kernels/attention/attention_work.h"
#include "kernels/elementary/run_chosen.h"

namespace megalith::kernels {

template <>
struct HostLists<AttentionForward> {
  explicit HostLists(AttentionForward& a)
      : lists(a.sequences.cu_seqlens, a.sequences.cu_seqlens_keys) {}
  SequenceLists lists;
};

template <>
struct HostLists<AttentionBackward> {
  explicit HostLists(AttentionBackward& a)
      : lists(a.sequences.cu_seqlens, a.sequences.cu_seqlens_keys) {}
  SequenceLists lists;
};

namespace {

/// In the f32 arithmetic, f16 widened; bf16 has its own.
bool is_f32_chain(DType dtype) { return dtype == DType::f32 || dtype == DType::f16; }

void check_device_copy(const Exec& exec, const ConstView& copy, std::span<const int32_t> host) {
  MEGA_CHECK(!copy.absent() || exec.device.target().kind == device::DeviceKind::cpu,
             "lengths of sequences are needed on the device");
  if (copy.absent()) return;
  MEGA_CHECK(copy.dtype() == DType::i32);
  MEGA_CHECK_EQ(copy.num_elements(), static_cast<int64_t>(host.size()));
}

void check_sequences(const Exec& exec, const AttentionSequences& sequences, int64_t num_rows,
                     int64_t num_keys) {
  check_cu_seqlens(sequences.cu_seqlens, num_rows);
  MEGA_CHECK(sequences.window_left >= -1 && sequences.window_right >= -1 &&
                 (!sequences.causal || sequences.window_right <= 0),
             "a window of {} and {} keys{}", sequences.window_left, sequences.window_right,
             sequences.causal ? ", causal" : "");
  check_device_copy(exec, sequences.cu_seqlens_device, sequences.cu_seqlens);
  if (sequences.cu_seqlens_keys.empty()) return;
  MEGA_CHECK(!sequences.causal && !has_window(sequences),
             "keys with sequences of their own are all seen: neither causal nor a window");
  MEGA_CHECK_EQ(sequences.cu_seqlens_keys.size(), sequences.cu_seqlens.size());
  check_cu_seqlens(sequences.cu_seqlens_keys, num_keys);
  check_device_copy(exec, sequences.cu_seqlens_keys_device, sequences.cu_seqlens_keys);
}

void check_dropout(const AttentionDropout& dropout, const AttentionSequences& sequences,
                   int64_t num_heads) {
  MEGA_CHECK(dropout.p >= 0 && dropout.p < 1, "dropout of {}", dropout.p);
  if (dropout.p == 0) return;
  MEGA_CHECK(dropout.head_begin >= 0 && dropout.head_begin + num_heads <= 1 << 16);
  const auto count = static_cast<int64_t>(sequences.cu_seqlens.size()) - 1;
  for (const ConstView& view : {dropout.sample_S, dropout.position_S}) {
    MEGA_CHECK(!view.absent() && view.dtype() == DType::i64 && view.num_elements() >= count,
               "dropout needs the sample and position of {} sequences as i64", count);
  }
}

/// What both directions have in common.
template <typename Arguments>
void check_inputs(const Exec& exec, const Arguments& a) {
  const ConstHeadsView& q = a.q_TND;
  const ConstHeadsView& k = a.k_TKD;
  const int64_t num_keys = a.sequences.cu_seqlens_keys.empty() ? q.num_rows : k.num_rows;
  check_sequences(exec, a.sequences, q.num_rows, num_keys);
  MEGA_CHECK(is_narrow(q.dtype) || q.dtype == DType::f64, "attention over {}", q.dtype);
  MEGA_CHECK(q.head_size > 0 && k.num_heads > 0 && q.num_heads % k.num_heads == 0,
             "{} query heads over {} key heads", q.num_heads, k.num_heads);
  check_heads(q, q.num_rows, q.num_heads, q.head_size, q.dtype, "q");
  check_heads(k, num_keys, k.num_heads, q.head_size, q.dtype, "k");
  check_heads(a.v_TKD, num_keys, k.num_heads, q.head_size, q.dtype, "v");
  check_heads(a.y_TND, q.num_rows, q.num_heads, q.head_size, q.dtype, "y");
  MEGA_CHECK(a.softcap >= 0, "a softcap of {}", a.softcap);
  check_bias(a.bias, q, a.softcap);
  MEGA_CHECK(a.bias.table_BN.absent() || a.sequences.cu_seqlens_keys.empty(),
             "cross attention with biases by distance");
  check_dropout(a.dropout, a.sequences, q.num_heads);
  if (!a.lse_NT.absent()) {
    MEGA_CHECK(a.lse_NT.dtype() == (q.dtype == DType::f64 ? DType::f64 : DType::f32));
    MEGA_CHECK(a.lse_NT.size(0) == q.num_heads && a.lse_NT.size(1) == q.num_rows, "lse is {}",
               a.lse_NT.shape());
  }
  if (!a.probabilities.absent()) {
    MEGA_CHECK(a.probabilities.dtype() == q.dtype, "probabilities are {} and not {}",
               a.probabilities.dtype(), q.dtype);
    MEGA_CHECK(a.probabilities.is_contiguous());
    MEGA_CHECK_EQ(a.probabilities.num_elements(),
                  attention_probabilities_elements(a.sequences.cu_seqlens, q.num_heads,
                                                   a.sequences.cu_seqlens_keys));
  }
}

int64_t bytes_of_heads(const ConstHeadsView& x) {
  return x.num_rows * x.num_heads * x.head_size * bytes_of(x.dtype);
}
template <typename ByteView>
int64_t bytes_if(const ByteView& view) {
  return view.absent() ? 0 : view.bytes();
}

template <typename Arguments>
double flops_of(const Arguments& a, double per_pair) {
  return per_pair * static_cast<double>(a.q_TND.head_size * a.q_TND.num_heads) *
         static_cast<double>(attention_pairs(a.sequences));
}

template <typename Arguments>
std::string_view refuse_bf16(const Exec&, const Arguments& a) {
  return a.q_TND.dtype == DType::bf16 ? "" : "needs bf16";
}
template <typename Arguments>
std::string_view refuse_streaming(const Exec&, const Arguments& a) {
  if (!is_f32_chain(a.q_TND.dtype)) return "needs f32 or f16";
  return a.probabilities.absent() ? "" : "probabilities are given";
}
template <typename Arguments>
std::string_view refuse_materialised(const Exec&, const Arguments& a) {
  if (!is_f32_chain(a.q_TND.dtype)) return "needs f32 or f16";
  return a.probabilities.absent() ? "no probabilities are given" : "";
}
template <typename Arguments>
std::string_view accept(const Exec&, const Arguments&) {
  return {};
}

constexpr Implementation<AttentionForward> kForward[] = {
    {"bf16", refuse_bf16<AttentionForward>, attention_forward_bf16, attention_forward_bf16_scratch},
    {"streaming", refuse_streaming<AttentionForward>, attention_forward_blocks,
     attention_forward_scratch},
    {"materialised", refuse_materialised<AttentionForward>, attention_forward_blocks,
     attention_forward_scratch},
    {"reference", accept<AttentionForward>, attention_forward_reference},
};
constexpr Implementation<AttentionBackward> kBackward[] = {
    {"bf16", refuse_bf16<AttentionBackward>, attention_backward_bf16,
     attention_backward_bf16_scratch},
    {"streaming", refuse_streaming<AttentionBackward>, attention_backward_blocks,
     attention_backward_scratch},
    {"materialised", refuse_materialised<AttentionBackward>, attention_backward_blocks,
     attention_backward_scratch},
    {"reference", accept<AttentionBackward>, attention_backward_reference},
};

}  // namespace

void attention_forward(Exec& exec, const AttentionForward& a) {
  check_inputs(exec, a);
  const device::Work work{
      .flops = flops_of(a, 4),
      .bytes_read = bytes_of_heads(a.q_TND) + bytes_of_heads(a.k_TKD) + bytes_of_heads(a.v_TKD) +
                    bytes_if(a.bias.table_BN),
      .bytes_written = bytes_of_heads(a.y_TND) + bytes_if(a.lse_NT) + bytes_if(a.probabilities)};
  run_chosen<AttentionForward>(exec, "attention_forward", work, kForward, a);
}

void attention_backward(Exec& exec, const AttentionBackward& a) {
  check_inputs(exec, a);
  const ConstHeadsView& q = a.q_TND;
  const ConstHeadsView& k = a.k_TKD;
  MEGA_CHECK(!a.lse_NT.absent() || q.num_rows == 0, "backward needs lse");
  check_heads(a.dy_TND, q.num_rows, q.num_heads, q.head_size, q.dtype, "dy");
  check_heads(a.dq_TND, q.num_rows, q.num_heads, q.head_size, q.dtype, "dq");
  const DType summed = is_half(q.dtype) && a.dk_TKD.dtype == DType::f32 ? DType::f32 : q.dtype;
  check_heads(a.dk_TKD, k.num_rows, k.num_heads, q.head_size, summed, "dk");
  check_heads(a.dv_TKD, k.num_rows, k.num_heads, q.head_size, summed, "dv");
  MEGA_CHECK(a.kv_partials > 0 && q.num_heads / k.num_heads % a.kv_partials == 0,
             "{} partial sums over {} heads", a.kv_partials, q.num_heads / k.num_heads);
  if (!a.dtable_BN.absent()) {
    MEGA_CHECK(a.dtable_BN.dtype() == (q.dtype == DType::f64 ? DType::f64 : DType::f32),
               "the gradient of biases in {}", a.dtable_BN.dtype());
    check_same_shape(a.dtable_BN, a.bias.table_BN);
  }
  const int64_t probabilities = q.dtype == DType::f16 ? 0 : bytes_if(a.probabilities);
  const device::Work work{.flops = flops_of(a, 10),
                          .bytes_read = 3 * bytes_of_heads(q) + 2 * bytes_of_heads(k) +
                                        bytes_if(a.lse_NT) + probabilities +
                                        bytes_if(a.bias.table_BN) + bytes_if(a.dtable_BN),
                          .bytes_written = bytes_of_heads(a.dq_TND) + bytes_of_heads(a.dk_TKD) +
                                           bytes_of_heads(a.dv_TKD) + bytes_if(a.dtable_BN)};
  run_chosen<AttentionBackward>(exec, "attention_backward", work, kBackward, a);
}

}  // namespace megalith::kernels
