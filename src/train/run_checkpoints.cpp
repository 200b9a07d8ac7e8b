// SPDX-License-Identifier: Apache-2.0
#include "train/run_checkpoints.h"

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/kept_checkpoints.h"
#include "checkpoint/manifest.h"
#include "checkpoint/staged_folder.h"
#include "checkpoint/step_folders.h"
#include "comm/operation.h"

namespace megalith::train {

namespace fs = std::filesystem;

RunCheckpoints::RunCheckpoints(const config::Recipe& recipe, const text::Tokenizer* tokenizer,
                               const std::map<std::string, std::string>& texts,
                               const checkpoint::StateRegistry& state, int64_t state_bytes,
                               comm::Communicator& world, device::Device& device)
    : folder_(fs::path(recipe.run.out) / "checkpoints"),
      recipe_(recipe),
      tokenizer_(tokenizer),
      more_texts_(texts),
      state_(state),
      world_(world),
      device_(device),
      saver_(folder_, {kept_by(recipe.checkpoint), recipe.checkpoint.async}, &world) {
  saver_.reserve(device, state_bytes);
}

/// Other ranks wait while this one reads and checks files.
checkpoint::AtWork RunCheckpoints::at_work() const {
  return [this] { world_.heartbeat(); };
}

std::optional<checkpoint::Reader> RunCheckpoints::newest(
    FunctionRef<void(const checkpoint::Reader& reader)> judge) {
  std::optional<checkpoint::Reader> reader;
  if (world_.rank() == 0) {
    reader = checkpoint::find_newest(folder_, true, at_work());
    if (reader) judge(*reader);
  }
  const fs::path found =
      world_.exchange(reader ? reader->folder().string() : "", "newest checkpoint")[0];
  if (found.empty()) return std::nullopt;
  if (!reader) reader.emplace(found, at_work());
  comm::require_same(world_, "the newest checkpoint", reader->state_sha256());
  return reader;
}

std::optional<checkpoint::Reader> RunCheckpoints::go_back_before(int64_t step) {
  std::string found;
  if (world_.rank() == 0) {
    const auto target =
        regular_checkpoint_before(folder_, step, recipe_.checkpoint.every, at_work());
    if (target) {
      found = target->string();
      remove_checkpoints_after(folder_, checkpoint::step_of_folder(target->filename().string()));
    } else {
      log::warning("there is no checkpoint to go back to; going on");
    }
  }
  found = world_.exchange(found, "checkpoint to go back to")[0];
  if (found.empty()) return std::nullopt;
  return checkpoint::Reader(found, at_work());
}

void RunCheckpoints::restore(const checkpoint::Reader& reader) {
  state_.restore(reader);
  step_ = reader.step();
  owed_ = what_of(deferred_from(reader.state(), step_));
}

std::map<std::string, std::string> RunCheckpoints::texts() const {
  std::map<std::string, std::string> texts;
  if (world_.rank() != 0) return texts;
  texts = more_texts_;
  texts["recipe.yaml"] = config::to_yaml(recipe_);
  if (tokenizer_ != nullptr) texts["tokenizer.json"] = tokenizer_->to_json();
  return texts;
}

void RunCheckpoints::require_room(std::span<const int64_t> tensor_bytes) {
  int64_t bytes = 0;
  for (const auto& [name, text] : texts()) bytes += std::ssize(text);
  saver_.require_room(tensor_bytes, bytes);
}

void RunCheckpoints::save(int64_t step, std::optional<DeferredWork::What> owed) {
  const double begin = monotonic_seconds();
  nlohmann::json values = state_.values();
  world_.heartbeat();
  saver_.save(device_, step, state_.tensors(), std::move(values), texts());
  stall_seconds_ = monotonic_seconds() - begin;
  step_ = step;
  owed_ = owed;
}

nlohmann::ordered_json RunCheckpoints::wait() {
  const double begin = monotonic_seconds();
  const checkpoint::Saved* const saved = saver_.wait();
  if (saved == nullptr) return nullptr;
  stall_seconds_ += monotonic_seconds() - begin;
  return {{"state_sha256", saved->state_sha256},
          {"checkpoint",
           {{"step", saved->step},
            {"bytes", saved->bytes},
            {"stall_seconds", stall_seconds_},
            {"write_seconds", saved->write_seconds}}}};
}

std::optional<fs::path> regular_checkpoint_before(const fs::path& checkpoints, int64_t before,
                                                  int64_t every,
                                                  const checkpoint::AtWork& at_work) {
  for (const auto& [step, folder] : checkpoint::step_folders(checkpoints)) {
    if (step >= before || step % every != 0) continue;
    try {
      checkpoint::open_own_step(folder, at_work).verify_all();
      return folder;
    } catch (const checkpoint::NewerFormatError& error) {
      log::warning("passing over a checkpoint: {}", error.what());
    } catch (const IntegrityError& error) {
      log::warning("passing over the damaged checkpoint {}: {}", folder.string(), error.what());
    }
  }
  return std::nullopt;
}

void remove_checkpoints_after(const fs::path& checkpoints, int64_t step) {
  for (const auto& [later, folder] : checkpoint::step_folders(checkpoints)) {
    if (later > step && checkpoint::condition_of(folder) != checkpoint::Condition::newer)
      checkpoint::remove_folder(folder);
  }
}

checkpoint::KeptCheckpoints kept_by(const config::CheckpointSection& recipe) {
  checkpoint::KeptCheckpoints kept{recipe.keep, recipe.every};
  if (recipe.keep_best)
    kept.best = [](const checkpoint::Reader& reader) { return best_of(reader).step(); };
  return kept;
}

guards::BestValidation best_of(const checkpoint::Reader& reader) {
  const auto state = reader.state().find("best");
  return state == reader.state().end() ? guards::BestValidation()
                                       : guards::BestValidation::from_json(*state);
}

std::optional<checkpoint::Reader> best_kept(const checkpoint::Reader& newest, config::BestBy by) {
  const guards::BestValidation best = best_of(newest);
  if (!best.step()) return std::nullopt;
  if (best.by() != name_of(by)) {
    log::warning(
        "{}: step {} was the best by {}, and train.best_by is {}: the result is that of the newest "
        "step",
        newest.folder().string(), *best.step(), best.by(), name_of(by));
    return std::nullopt;
  }
  const auto folder = newest.folder().parent_path() / checkpoint::step_folder_name(*best.step());
  try {
    checkpoint::Reader reader = checkpoint::open_own_step(folder);
    reader.verify_all();
    return reader;
  } catch (const IntegrityError& damage) {
    log::warning("the checkpoint of the best validation, of step {}, cannot be used: {}",
                 *best.step(), damage.what());
    return std::nullopt;
  }
}

}  // namespace megalith::train
