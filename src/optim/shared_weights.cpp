// SPDX-License-Identifier: Apache-2.0
// Backward ends on the last stage first, so the sum begins there: it goes from stage to stage
// towards the first layer, each adding what its layers have, and the result goes back. In pieces,
// so that a stage adds one while the next travels.
#include "optim/shared_weights.h"

#include <algorithm>
#include <utility>

#include "base/integer.h"
#include "kernels/elementwise/pointwise.h"

namespace megalith::optim {
namespace {

using parameters::SharedWeights;

/// A stage's uses [begin, end), by their place in SharedWeights::uses, without others between them:
/// a model chunk's.
struct Run {
  size_t begin = 0;
  size_t end = 0;
};

/// From the last to the first.
std::vector<Run> runs_of(const SharedWeights& shared) {
  std::vector<Run> runs;
  for (size_t use = shared.uses.size(); use-- > 0;) {
    const bool goes_on = !runs.empty() && shared.uses[use] + 1 == shared.uses[use + 1];
    if (!goes_on) runs.push_back({use, use + 1});
    runs.back().begin = use;
  }
  return runs;
}

/// Shared weights number `index` of a set.
class UseSum {
 public:
  UseSum(kernels::Exec& exec, const parallel::Mesh& mesh, const parameters::ParameterSet& set,
         size_t index)
      : exec_(exec),
        pipeline_(mesh.pipeline()),
        shared_(set.shared()[index]),
        piece_(set.storage().bucket_elements) {
    for (size_t use = 0; use < shared_.uses.size(); ++use)
      sums_.push_back(set.use_sums(index, use));
  }

  void sum() {
    if (sums_[0].num_elements() == 0) return;  // frozen
    const std::vector<Run> runs = runs_of(shared_);
    for (const Run& run : runs) add(run);
    settle();
    // Where chunks go round the stages, the sum comes back to the stage that made it.
    const bool has_made_it = shared_.uses[0] == 0;
    if (!has_made_it) take_result();
    if (goes_on_behind(runs.back())) {
      for (int64_t i = 0; i < num_pieces(); ++i) send(next(), piece(0, i));
    }
    settle();
    if (has_made_it && runs.size() > 1) take_result();
  }

 private:
  int next() const { return (pipeline_.rank() + 1) % pipeline_.size(); }
  int previous() const { return (pipeline_.rank() + pipeline_.size() - 1) % pipeline_.size(); }
  /// Whether layers behind the run's, on the next stage, share the weights.
  bool goes_on_behind(const Run& run) const {
    return shared_.uses[run.end - 1] + 1 < shared_.count;
  }

  int64_t num_pieces() const { return ceil_div(sums_[0].size(0), piece_); }
  View piece(size_t use, int64_t i) const {
    return sums_[use].rows(i * piece_, std::min(piece_, sums_[use].size(0) - i * piece_));
  }

  /// A piece on its way from the next stage.
  struct Arriving {
    device::Tensor buffer;
    comm::Ticket ticket;  // last: destroyed before the buffer it guards
  };
  Arriving receive(int64_t i) {
    Arriving arriving;
    arriving.buffer = exec_.workspace.tensor(sums_[0].dtype(), piece(0, i).shape());
    arriving.ticket = pipeline_.start_receive(next(), arriving.buffer, "shared.gradient");
    return arriving;
  }

  /// The run's first sums become those of its layers and of all behind them.
  void add(const Run& run) {
    const bool receives = goes_on_behind(run);
    Arriving following;  // while a piece is added, the one behind it travels
    if (receives) following = receive(0);
    for (int64_t i = 0; i < num_pieces(); ++i) {
      if (receives) {
        Arriving behind = std::move(following);
        if (i + 1 < num_pieces()) following = receive(i + 1);
        pipeline_.wait(std::move(behind.ticket));
        kernels::add(exec_, behind.buffer, piece(run.end - 1, i), piece(run.end - 1, i));
      }
      for (size_t use = run.end - 1; use-- > run.begin;)
        kernels::add(exec_, piece(use + 1, i), piece(use, i), piece(use, i));
      if (shared_.uses[run.begin] > 0) send(previous(), piece(run.begin, i));
    }
  }

  void send(int peer, View part) {
    sent_.push_back(pipeline_.start_send(peer, part, "shared.gradient"));
  }
  void take_result() {
    std::vector<comm::Ticket> received;
    for (int64_t i = 0; i < num_pieces(); ++i)
      received.push_back(pipeline_.start_receive(previous(), piece(0, i), "shared.gradient"));
    for (comm::Ticket& ticket : received) pipeline_.wait(std::move(ticket));
  }
  void settle() {
    for (comm::Ticket& ticket : sent_) pipeline_.wait(std::move(ticket));
    sent_.clear();
  }

  kernels::Exec& exec_;
  comm::Communicator& pipeline_;
  const SharedWeights& shared_;
  int64_t piece_;
  std::vector<View> sums_;  // by use on this rank
  std::vector<comm::Ticket> sent_;
};

}  // namespace

void sum_uses(kernels::Exec& exec, const parallel::Mesh& mesh, parameters::ParameterSet& set) {
  const device::NameScope scope(exec.device, "gradients");
  for (size_t index = set.shared().size(); index-- > 0;) UseSum(exec, mesh, set, index).sum();
}

}  // namespace megalith::optim
