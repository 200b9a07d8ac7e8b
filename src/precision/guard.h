// SPDX-License-Identifier: Apache-2.0
// The watch over products in 8 bits. Every so many steps the same samples are computed with them
// and in 16 bits, from the same weights; what is found is judged here. Products that fall back run
// in 16 bits until a quiet time is over, and begin anew then. A verdict is a function of numbers
// that all ranks have, so all come to the same.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace megalith::precision {

struct GuardOptions {
  int64_t every = 0;        // steps; 0: no checks
  double warn = 0.0025;     // |loss - wide loss| / |wide loss|
  double trip = 0.005;      // the same: beyond it a check counts
  double cosine = 0.9;      // of the two gradients: below it a check counts
  double saturated = 0.01;  // share of an operand's elements: above it a check counts
  double flushed = 0.3;     // likewise
  int64_t patience = 3;     // checks in a row that count until products fall back
  int64_t quiet = 1000;     // steps until they return
  bool all = false;         // all of them fall back; else the layer that is worst off
};

/// Of the elements of a product's operands in a check, the largest share of the three: beyond the
/// largest code, and not 0 with a code of 0.
struct OperandShares {
  double saturated = 0;
  double flushed = 0;
};

struct GuardCheck {
  double loss = 0;                         // in 8 bits
  double wide_loss = 0;                    // in 16
  double cosine = 1;                       // of the gradients
  std::vector<OperandShares> shares = {};  // by product; empty where scales are of blocks
  /// |loss - wide_loss| / |wide_loss|; infinite where a number is not finite.
  double difference() const;
};

class Guard {
 public:
  /// `layer_of`: by product.
  Guard(const GuardOptions& options, std::vector<int64_t> layer_of);

  bool is_due(int64_t step) const { return options_.every > 0 && step % options_.every == 0; }

  enum class Verdict : uint8_t { good, warn, counts, falls_back };
  /// `step` is about to be taken. Where products fall back, is_wide() has them from here on.
  Verdict judge(int64_t step, const GuardCheck& check);
  /// Products whose quiet time is over at this step: they are in 8 bits again.
  std::vector<size_t> returning(int64_t step);

  bool is_wide(size_t product) const { return wide_until_[product] > 0; }
  int64_t num_wide() const;
  /// How far an operand's shares are: 1 is the limit of the one that is nearer to its own.
  double part_of_limits(const OperandShares& share) const;
  /// Checks in a row that counted.
  int64_t beyond() const { return beyond_; }

  nlohmann::json to_json() const;
  /// IntegrityError when it is not what to_json gives for as many products.
  void restore(const nlohmann::json& json);

 private:
  bool counts(const GuardCheck& check) const;
  int64_t worst_layer(const GuardCheck& check) const;
  GuardOptions options_;
  std::vector<int64_t> layer_of_;
  std::vector<int64_t> wide_until_;  // the step at which it returns; 0: it is in 8 bits
  int64_t beyond_ = 0;
};

}  // namespace megalith::precision
