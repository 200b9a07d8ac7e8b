// SPDX-License-Identifier: Apache-2.0
#include "generate/beam_search.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "math/elementary_double.h"

namespace megalith::generate {

BeamSearch::BeamSearch(const GenerateOptions& options, int64_t most)
    : options_(options), most_(most), beams_(1) {
  if (most_ <= 0) {
    has_ended_ = true;
    ended_.emplace_back();
  }
}

int64_t BeamSearch::candidates() const {
  const int64_t ends = options_.ignore_eos ? 0 : std::ssize(options_.end_ids);
  return std::max<int64_t>(2, 1 + ends) * options_.beams;
}

bool BeamSearch::is_end(int32_t id) const {
  return id < 0 || (!options_.ignore_eos &&
                    std::ranges::find(options_.end_ids, id) != options_.end_ids.end());
}

double BeamSearch::score_of(double sum, int64_t tokens) const {
  const double penalty = options_.length_penalty;
  const auto length = static_cast<double>(tokens);
  return sum / (penalty == 1 ? length : elementary::exp(penalty * elementary::log(length)));
}

/// Keeps the best, as many as there are beams.
void BeamSearch::add_ended(Beam beam, int64_t tokens) {
  beam.score = score_of(beam.sum, tokens);
  const auto worst = std::ranges::min_element(ended_, {}, &Beam::score);
  if (std::ssize(ended_) == options_.beams) {
    if (beam.score <= worst->score) return;
    ended_.erase(worst);
  }
  ended_.push_back(std::move(beam));
}

/// Whether no text on its way is taken to become better than those that have ended. `best_sum`: of
/// the best on its way.
bool BeamSearch::is_done(double best_sum, int64_t tokens) const {
  if (std::ssize(ended_) < options_.beams) return false;
  if (options_.early_stopping == EarlyStopping::at_once) return true;
  const bool to_the_end =
      options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0;
  const double worst = std::ranges::min_element(ended_, {}, &Beam::score)->score;
  return worst >= score_of(best_sum, to_the_end ? most_ : tokens);
}

std::vector<size_t> BeamSearch::advance(std::vector<Candidate> all) {
  MEGA_CHECK(!has_ended_);
  // The best first; of equals the one of the earlier beam, then of the lower id.
  const auto key = [&](const Candidate& c) {
    return std::tuple(-(beams_[c.beam].sum + c.score), c.beam, c.choice.id);
  };
  std::ranges::sort(all, {}, key);
  all.resize(std::min(all.size(), static_cast<size_t>(candidates())));
  const int64_t tokens = std::ssize(beams_.front().tokens) + 1;
  const bool is_last = tokens == most_;
  std::vector<size_t> parents;
  std::vector<Beam> next;
  for (size_t rank = 0; rank < all.size() && std::ssize(next) < options_.beams; ++rank) {
    Candidate& candidate = all[rank];
    const bool ends = is_last || is_end(candidate.choice.id);
    if (ends && std::cmp_greater_equal(rank, options_.beams)) continue;
    Beam beam = beams_[candidate.beam];
    beam.sum += candidate.score;
    if (candidate.choice.id >= 0) {
      beam.tokens.push_back(candidate.choice);
      beam.alternatives.push_back(std::move(candidate.alternatives));
    }
    if (ends) {
      add_ended(std::move(beam), tokens);
    } else {
      next.push_back(std::move(beam));
      parents.push_back(candidate.beam);
    }
  }
  beams_ = std::move(next);
  has_ended_ = beams_.empty() || is_done(beams_.front().sum, tokens);
  return has_ended_ ? std::vector<size_t>() : parents;
}

std::vector<BeamSearch::Beam> BeamSearch::best() const {
  MEGA_CHECK(has_ended_);
  std::vector<Beam> best = ended_;
  std::ranges::stable_sort(best, std::ranges::greater{}, &Beam::score);
  best.resize(std::min(best.size(), static_cast<size_t>(options_.best)));
  return best;
}

}  // namespace megalith::generate
