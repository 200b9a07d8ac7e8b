// SPDX-License-Identifier: Apache-2.0
// The specification of the four steps of the loss: plain loops in double over any dtype.
#include <cmath>
#include <limits>

#include "kernels/cross_entropy/cross_entropy_lists.h"
#include "kernels/elementary/reference_access.h"

namespace megalith::kernels {

void row_max_reference(Exec&, const RowMax& a) {
  const int64_t valid = valid_columns(a.vocab, a.logits_RV.size(1));
  for (int64_t r = 0; r < a.logits_RV.size(0); ++r) {
    double max = -std::numeric_limits<double>::infinity();
    for (int64_t v = 0; v < valid; ++v) {
      const double x = read_double(a.logits_RV, r, v);
      if (std::isnan(x) || x > max) max = x;
      if (std::isnan(x)) break;
    }
    write_double(a.max_R, 0, r, max);
  }
}

void exp_sums_reference(Exec&, const ExpSums& a) {
  const int64_t columns = a.logits_RV.size(1), width = columns / a.vocab.shards;
  const int64_t valid = valid_columns(a.vocab, columns);
  for (int64_t r = 0; r < a.logits_RV.size(0); ++r) {
    const double max = read_double(a.max_R, 0, r);
    const int64_t target = local_target(a.vocab, columns, a.targets_R.as<int32_t>()[r]);
    write_double(a.target_R, 0, r, target < 0 ? 0.0 : read_double(a.logits_RV, r, target));
    for (int64_t shard = 0; shard < a.vocab.shards; ++shard) {
      double sum = 0;
      for (int64_t v = shard * width; v < (shard + 1) * width; ++v) {
        const double e = v < valid ? std::exp(read_double(a.logits_RV, r, v) - max) : 0.0;
        sum += e;
        if (!a.exps_RV.absent()) write_double(a.exps_RV, r, v, e);
      }
      write_double(a.sums_PR, shard, r, sum);
    }
  }
}

void row_loss_reference(Exec&, const RowLoss& a) {
  for (int64_t r = 0; r < a.max_R.num_elements(); ++r) {
    const double lse = read_double(a.max_R, 0, r) + std::log(read_double(a.sum_R, 0, r));
    write_double(a.loss_R, 0, r, lse - read_double(a.target_R, 0, r));
    if (!a.lse_R.absent()) write_double(a.lse_R, 0, r, lse);
  }
}

void loss_gradient_reference(Exec&, const LossGradient& a) {
  const int64_t columns = a.exps_RV.size(1), valid = valid_columns(a.vocab, columns);
  for (int64_t r = 0; r < a.exps_RV.size(0); ++r) {
    const double weight = read_double(a.weight_R, 0, r) * static_cast<double>(a.scale);
    const double sum = read_double(a.sum_R, 0, r);
    const double lse = read_double(a.max_R, 0, r) + std::log(sum);
    const double factor = weight / sum * (1 + 2 * static_cast<double>(a.z_loss) * lse);
    const int64_t target = local_target(a.vocab, columns, a.targets_R.as<int32_t>()[r]);
    for (int64_t v = 0; v < columns; ++v) {
      double gradient = 0;
      if (v < valid && weight != 0) {
        gradient = read_double(a.exps_RV, r, v) * factor - (v == target ? weight : 0.0);
        gradient *= static_cast<double>(a.logits_scale);
        if (a.softcap != 0) {
          const double t = read_double(a.logits_RV, r, v) / static_cast<double>(a.softcap);
          gradient *= 1 - t * t;
        }
      }
      write_double(a.dlogits_RV, r, v, gradient);
    }
  }
}

}  // namespace megalith::kernels
