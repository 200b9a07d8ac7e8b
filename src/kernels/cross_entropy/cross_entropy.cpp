// SPDX-License-Identifier: Apache-2.0
// Checks, cost and choice of implementation for the four steps of the loss. The cost is memory
// traffic; a polynomial exp counts as one operation.
#include "kernels/cross_entropy/cross_entropy.h"

#include "kernels/cross_entropy/cross_entropy_lists.h"
#include "kernels/elementary/run_chosen.h"

namespace megalith::kernels {
namespace {

void check_matrix(const ConstView& x_RV, const VocabRange& vocab, DType dtype) {
  MEGA_CHECK(x_RV.shape().num_dims() == 2 && (dtype == DType::f32 || dtype == DType::f64), "{} {}",
             x_RV.dtype(), x_RV.shape());
  MEGA_CHECK(
      vocab.begin >= 0 && vocab.valid > 0 && vocab.shards >= 1 && x_RV.size(1) % vocab.shards == 0,
      "{} columns from {} of {} in {} shards", x_RV.size(1), vocab.begin, vocab.valid,
      vocab.shards);
}

template <typename Arguments>
std::string_view accept(const Exec&, const Arguments&) {
  return {};
}
template <typename Arguments>
std::string_view refuse_f64(const Exec&, const Arguments& a) {
  return a.max_R.dtype() == DType::f64 ? "takes f32, bf16 and f16 only" : "";
}

constexpr Implementation<RowMax> kRowMax[] = {{"vector", refuse_f64<RowMax>, row_max_vector},
                                              {"reference", accept<RowMax>, row_max_reference}};
constexpr Implementation<ExpSums> kExpSums[] = {{"vector", refuse_f64<ExpSums>, exp_sums_vector},
                                                {"reference", accept<ExpSums>, exp_sums_reference}};
constexpr Implementation<RowLoss> kRowLoss[] = {{"vector", refuse_f64<RowLoss>, row_loss_vector},
                                                {"reference", accept<RowLoss>, row_loss_reference}};
constexpr Implementation<LossGradient> kGradient[] = {
    {"vector", refuse_f64<LossGradient>, loss_gradient_vector},
    {"reference", accept<LossGradient>, loss_gradient_reference}};

double elements(const ConstView& x) { return static_cast<double>(x.num_elements()); }

}  // namespace

void cross_entropy_row_max(Exec& exec, const RowMax& a) {
  check_matrix(a.logits_RV, a.vocab, a.logits_RV.dtype());
  check_vector(a.max_R, a.logits_RV.dtype(), a.logits_RV.size(0));
  run_chosen<RowMax>(exec, "cross_entropy_row_max",
                     {.flops = elements(a.logits_RV),
                      .bytes_read = a.logits_RV.bytes(),
                      .bytes_written = a.max_R.bytes()},
                     kRowMax, a);
}

void cross_entropy_exp_sums(Exec& exec, const ExpSums& a) {
  const DType dtype = a.logits_RV.dtype();
  const int64_t num_rows = a.logits_RV.size(0);
  check_matrix(a.logits_RV, a.vocab, dtype);
  check_vector(a.max_R, dtype, num_rows);
  check_vector(a.targets_R, DType::i32, num_rows);
  check_vector(a.target_R, dtype, num_rows);
  MEGA_CHECK(a.sums_PR.dtype() == dtype && a.sums_PR.shape() == Shape({a.vocab.shards, num_rows}),
             "sums are {} {}", a.sums_PR.dtype(), a.sums_PR.shape());
  if (!a.exps_RV.absent()) {
    check_same_shape(a.exps_RV, a.logits_RV);
    MEGA_CHECK_EQ(a.exps_RV.dtype(), dtype);
  }
  run_chosen<ExpSums>(exec, "cross_entropy_exp_sums",
                      {.flops = 3 * elements(a.logits_RV),
                       .bytes_read = a.logits_RV.bytes() + a.max_R.bytes() + a.targets_R.bytes(),
                       .bytes_written = (a.exps_RV.absent() ? 0 : a.exps_RV.bytes()) +
                                        a.sums_PR.bytes() + a.target_R.bytes()},
                      kExpSums, a);
}

void cross_entropy_row_loss(Exec& exec, const RowLoss& a) {
  const int64_t num_rows = a.max_R.num_elements();
  for (const ConstView& x : {a.sum_R, a.target_R, ConstView(a.loss_R)}) {
    check_vector(x, a.max_R.dtype(), num_rows);
  }
  check_vector(a.max_R, a.max_R.dtype(), num_rows);
  if (!a.lse_R.absent()) check_vector(a.lse_R, a.max_R.dtype(), num_rows);
  run_chosen<RowLoss>(exec, "cross_entropy_row_loss",
                      {.flops = 3 * static_cast<double>(num_rows),
                       .bytes_read = 3 * a.max_R.bytes(),
                       .bytes_written = (a.lse_R.absent() ? 1 : 2) * a.loss_R.bytes()},
                      kRowLoss, a);
}

void cross_entropy_gradient(Exec& exec, const LossGradient& a) {
  const DType dtype = a.exps_RV.dtype();
  const int64_t num_rows = a.exps_RV.size(0);
  check_matrix(a.exps_RV, a.vocab, dtype);
  check_vector(a.max_R, dtype, num_rows);
  check_vector(a.sum_R, dtype, num_rows);
  check_vector(a.targets_R, DType::i32, num_rows);
  check_vector(a.weight_R, a.weight_R.dtype() == DType::f32 ? DType::f32 : dtype, num_rows);
  check_same_shape(a.dlogits_RV, a.exps_RV);
  MEGA_CHECK(
      a.dlogits_RV.dtype() == dtype || (dtype == DType::f32 && is_half(a.dlogits_RV.dtype())),
      "dlogits are {}", a.dlogits_RV.dtype());
  MEGA_CHECK(a.logits_RV.absent() == (a.softcap == 0), "a softcap of {}", a.softcap);
  if (a.softcap != 0) {
    check_same_shape(a.logits_RV, a.exps_RV);
    MEGA_CHECK(a.logits_RV.dtype() == dtype && a.logits_RV.data() != a.exps_RV.data(),
               "capped logits are {}", a.logits_RV.dtype());
  }
  const int64_t matrices = a.softcap != 0 ? 2 : 1;
  run_chosen<LossGradient>(exec, "cross_entropy_gradient",
                           {.flops = static_cast<double>(matrices) * elements(a.exps_RV),
                            .bytes_read = matrices * a.exps_RV.bytes() + 4 * a.max_R.bytes(),
                            .bytes_written = a.dlogits_RV.bytes()},
                           kGradient, a);
}

}  // namespace megalith::kernels
