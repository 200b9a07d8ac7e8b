// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run: where it goes on from, what it saves and when that is on disk. All
// calls are collective over the world unless said otherwise.
#pragma once

#include <filesystem>
#include <optional>

#include "checkpoint/saver.h"
#include "checkpoint/state_registry.h"
#include "config/recipe.h"
#include "guards/best_validation.h"
#include "text/tokenizer.h"
#include "train/deferred_work.h"

namespace megalith::train {

class RunCheckpoints {
 public:
  /// Takes memory for snapshots of `state_bytes`. All must outlive it; `tokenizer` may be null.
  /// `texts` are saved too.
  RunCheckpoints(const config::Recipe& recipe, const text::Tokenizer* tokenizer,
                 const std::map<std::string, std::string>& texts,
                 const checkpoint::StateRegistry& state, int64_t state_bytes,
                 comm::Communicator& world, device::Device& device);
  RunCheckpoints(const RunCheckpoints&) = delete;
  RunCheckpoints& operator=(const RunCheckpoints&) = delete;

  /// The newest whole checkpoint, the same on all ranks; none in a new run. On rank 0 `judge` sees
  /// it first and may refuse it.
  std::optional<checkpoint::Reader> newest(
      FunctionRef<void(const checkpoint::Reader& reader)> judge);
  /// The last one before step `step` that the recipe's rhythm made; none when there is none. Those
  /// of later steps are gone on return.
  std::optional<checkpoint::Reader> go_back_before(int64_t step);
  /// The state is that of this checkpoint from here on.
  void restore(const checkpoint::Reader& reader);

  /// Is there room for a save of these tensors? See checkpoint::Saver.
  void require_room(std::span<const int64_t> tensor_bytes);
  /// Saves the registered state as step `step`, in the background if the recipe says so. `owed`:
  /// what the step has not done.
  void save(int64_t step, std::optional<DeferredWork::What> owed);
  /// Returns when no save is under way: what run.json records of the last one, or null. Local.
  nlohmann::ordered_json wait();
  /// Removes what is too much beside the checkpoint of `step`.
  void tidy(int64_t step) { saver_.tidy(step); }
  /// Whether the newest save, or what the run went on from, is of this step as it stands. Local.
  bool has(int64_t step, std::optional<DeferredWork::What> owed) const {
    return step_ == step && owed_ == owed;
  }

 private:
  std::map<std::string, std::string> texts() const;
  checkpoint::AtWork at_work() const;
  std::filesystem::path folder_;
  const config::Recipe& recipe_;
  const text::Tokenizer* tokenizer_;
  const std::map<std::string, std::string>& more_texts_;
  const checkpoint::StateRegistry& state_;
  comm::Communicator& world_;
  device::Device& device_;
  checkpoint::Saver saver_;
  int64_t step_ = -1;
  std::optional<DeferredWork::What> owed_;
  double stall_seconds_ = 0;  // training stood still for the last save
};

/// The newest whole checkpoint before step `before` that the recipe's rhythm made (a multiple of
/// `every`; one made by a signal would make the way back depend on it). Nothing if there is none.
/// Damaged ones and those of a newer format are passed over with a warning.
std::optional<std::filesystem::path> regular_checkpoint_before(
    const std::filesystem::path& checkpoints, int64_t before, int64_t every,
    const checkpoint::AtWork& at_work = {});

/// Removes checkpoints of steps above `step`: after a rewind they are of a past that did not
/// happen. Those of a newer format stay: no run of this program wrote them.
void remove_checkpoints_after(const std::filesystem::path& checkpoints, int64_t step);

/// Which checkpoints of the run stay.
checkpoint::KeptCheckpoints kept_by(const config::CheckpointSection& recipe);
/// Of a run's checkpoint: as it was saved; nothing before the first validation.
guards::BestValidation best_of(const checkpoint::Reader& reader);
/// The checkpoint of the best validation by that number that `newest` knows of, beside it in its
/// folder; nothing when the best was chosen by another number, or when its checkpoint is not there
/// or damaged, which is said.
std::optional<checkpoint::Reader> best_kept(const checkpoint::Reader& newest, config::BestBy by);

}  // namespace megalith::train
