// SPDX-License-Identifier: Apache-2.0
// Two answers for each pair and an addition for each token: plain loops on one thread are as fast
// as it takes beside the logits of the same tokens.
#include "kernels/cross_entropy/preference_loss.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "math/elementary_double.h"

namespace megalith::kernels {
namespace {

/// The polynomials, whose bits no C library changes.
struct OwnFunctions {
  static double exp(double x) { return elementary::exp(x); }
  static double log(double x) { return elementary::log(x); }
};
struct LibraryFunctions {
  static double exp(double x) { return std::exp(x); }
  static double log(double x) { return std::log(x); }
};

/// log(1 + x) for x in [0, 1]: what 1 + x loses of x is made up for (Goldberg 1991, theorem 4).
template <typename Functions>
double log_of_one_more(double x) {
  const double sum = 1 + x;
  return sum == 1 ? x : Functions::log(sum) * (x / (sum - 1));
}

/// -log sigmoid(h), and sigmoid(-h), of any h without overflow.
struct Decision {
  double loss, doubt;
};
template <typename Functions>
Decision decision(double h) {
  const double power = Functions::exp(-std::abs(h));
  const double tail = log_of_one_more<Functions>(power), small = power / (1 + power);
  return {h < 0 ? tail - h : tail, h < 0 ? 1 - small : small};
}

struct Answer {
  int64_t begin, end;
};

/// Rounded as it is told.
double log_probability(const PreferenceLoss& a, const Answer& answer) {
  const int32_t* const targets = a.targets_T.as<int32_t>();
  double sum = 0;
  for (int64_t t = answer.begin; t < answer.end; ++t)
    if (targets[t] >= 0) sum += read_double(a.nll_T, 0, t);
  return a.nll_T.dtype() == DType::f32 ? static_cast<double>(static_cast<float>(0 - sum)) : 0 - sum;
}

void set_weights(const PreferenceLoss& a, const Answer& answer, double weight) {
  const int32_t* const targets = a.targets_T.as<int32_t>();
  for (int64_t t = answer.begin; t < answer.end; ++t)
    if (targets[t] >= 0) write_double(a.weight_T, 0, t, weight);
}

template <typename Functions>
void all_pairs(Exec&, const PreferenceLoss& a) {
  const bool weighs = !a.weight_T.absent();
  for (int64_t t = 0; weighs && t < a.weight_T.num_elements(); ++t)
    write_double(a.weight_T, 0, t, 0);
  for (int64_t p = 0; p < a.rows_P3.size(0); ++p) {
    const int32_t* const row = a.rows_P3.row<int32_t>(p);
    const Answer chosen{row[0], row[1]}, rejected{row[1], row[2]};
    const double pi_chosen = log_probability(a, chosen), pi_rejected = log_probability(a, rejected);
    const double chosen_reward = a.beta * (pi_chosen - read_double(a.reference_P2, p, 0));
    const double rejected_reward = a.beta * (pi_rejected - read_double(a.reference_P2, p, 1));
    const double h = chosen_reward - rejected_reward, e = a.label_smoothing;
    const Decision made = decision<Functions>(h);
    const auto tell = [&](PreferenceValue which, double value) {
      write_double(a.values_VP, static_cast<int64_t>(which), p, value);
    };
    // -log sigmoid(-h) = -log sigmoid(h) + h
    tell(PreferenceValue::loss, made.loss + e * h);
    tell(PreferenceValue::chosen_reward, chosen_reward);
    tell(PreferenceValue::rejected_reward, rejected_reward);
    tell(PreferenceValue::margin, h);
    tell(PreferenceValue::accuracy, h > 0 ? 1 : 0);
    tell(PreferenceValue::chosen_log_probability, pi_chosen);
    tell(PreferenceValue::rejected_log_probability, pi_rejected);
    const double weight = read_double(a.weight_P, 0, p);
    if (!weighs || weight == 0) continue;
    const double each = weight * a.beta * (made.doubt - e);
    set_weights(a, chosen, each);
    set_weights(a, rejected, -each);
  }
}

std::string_view takes_f32(const Exec&, const PreferenceLoss& a) {
  return a.nll_T.dtype() == DType::f32 ? "" : "takes f32 only";
}
std::string_view takes_all(const Exec&, const PreferenceLoss&) { return {}; }

constexpr Implementation<PreferenceLoss> kPairs[] = {
    {"pairs", takes_f32, all_pairs<OwnFunctions>},
    {"reference", takes_all, all_pairs<LibraryFunctions>}};

}  // namespace

void preference_loss(Exec& exec, const PreferenceLoss& a) {
  const DType dtype = a.nll_T.dtype();
  const int64_t tokens = a.nll_T.num_elements(), pairs = a.weight_P.num_elements();
  MEGA_CHECK(dtype == DType::f32 || dtype == DType::f64, "{}", dtype);
  check_vector(a.nll_T, dtype, tokens);
  check_vector(a.targets_T, DType::i32, tokens);
  check_vector(a.weight_P, DType::f32, pairs);
  check_vector(a.rows_P3, DType::i32, 3 * pairs);
  check_vector(a.reference_P2, DType::f32, 2 * pairs);
  check_vector(a.values_VP, dtype, kPreferenceValues * pairs);
  if (!a.weight_T.absent()) check_vector(a.weight_T, dtype, tokens);
  MEGA_CHECK(a.beta > 0 && a.label_smoothing >= 0 && a.label_smoothing < 0.5, "{} and {}", a.beta,
             a.label_smoothing);
  const int64_t written = a.values_VP.bytes() + (a.weight_T.absent() ? 0 : a.weight_T.bytes());
  const device::Work work{
      static_cast<double>(tokens),
      a.nll_T.bytes() + a.targets_T.bytes() + a.rows_P3.bytes() + a.reference_P2.bytes(), written};
  run_chosen<PreferenceLoss>(exec, "preference_loss", work, kPairs, a);
}

}  // namespace megalith::kernels
