// SPDX-License-Identifier: Apache-2.0
#include "layers/qk_norms.h"

namespace megalith::layers {

QkNorms::QkNorms(parameters::ParameterSet& set, const std::string& name, const AttentionSpec& spec,
                 const NormSpec& norm, const Partition& partition)
    : spec_(spec) {
  if (spec.qk_norm == QkNorm::head) {
    q_head_.emplace(set, name + ".q_norm", spec.head_dim, norm, partition);
    k_head_.emplace(set, name + ".k_norm", spec.head_dim, norm, partition);
  } else if (spec.qk_norm == QkNorm::whole) {
    whole_.emplace(set, name, spec, norm, partition);
  }
}

void QkNorms::forward(Context& context, const ConstQueriesAndKeys& x, const QueriesAndKeys& y,
                      QkNormsSaved* saved) const {
  if (whole_) return whole_->forward(context, x, y, saved != nullptr ? &saved->whole : nullptr);
  if (!x[0].absent()) q_head_->forward(context, x[0], y[0], saved != nullptr ? &saved->q : nullptr);
  if (!x[1].absent()) k_head_->forward(context, x[1], y[1], saved != nullptr ? &saved->k : nullptr);
}

void QkNorms::recompute(Context& context, const ConstQueriesAndKeys& x, const QueriesAndKeys& y,
                        const QkNormsSaved& saved) const {
  if (whole_) return whole_->recompute(context, x, y, saved.whole);
  forward(context, x, y, nullptr);
}

void QkNorms::backward(Context& context, const QueriesAndKeys& dy, const ConstQueriesAndKeys& x,
                       const QkNormsSaved& saved) const {
  if (whole_) return whole_->backward(context, dy, x, saved.whole);
  q_head_->backward(context, dy[0], x[0], saved.q);
  const int sharers = local_heads(spec_, context).sharers;
  k_head_->backward(context, dy[1], x[1], saved.k, context.tensor.rank() % sharers == 0);
}

}  // namespace megalith::layers
