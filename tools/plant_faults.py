#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the tests: plants one fault at a time in a copy of the sources, builds the test that is meant for
it and sees that it turns red.

    tools/plant_faults.py [--folder build/faults] [--jobs N] [--check-table] [--ladder] [name ...]

A test is a GoogleTest filter, or a script of tests/system with what it shall run ("weather_test.py
Disks.test_full_disk"), which gets the files that the targets build as its first arguments. The copy lies in FOLDER and is brought up to date first, so a second call builds little. Before
any fault is planted all tests named in the table must be green. `--check-table` only sees that every
fault still fits the sources. Ends with "N passed, N failed"; exit status 1 if a fault went unnoticed.

The faults of the ladder (LADDER; `--ladder`: these alone) run every level of src/train/ladder_test.cpp,
L0 to L5, and must turn red exactly the levels that stand beside them. The lowest of them is the fault's
own, where its cause lies. Above it a level may be red only because it runs the same code on more: what
spoils a primitive or the weights of the start (L0, L1) spoils steps, what spoils a step (L2) spoils runs
(L3). L4 and L5 do not train: they are red for faults of their own, or of a primitive that they use.
"""
import argparse
import filecmp
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPIED = ["CMakeLists.txt", "CMakePresets.json", "cmake", "src", "apps", "tests"]
SCRIPTS = pathlib.Path("tests/system")


class Fault(NamedTuple):
    name: str
    file: str
    old: str      # occurs exactly once; spaces and line breaks do not count
    new: str
    program: str  # build targets, the program first
    test: str     # GoogleTest filter or script: every test that it selects must fail

    def targets(self):
        return self.program.split()

    def is_script(self):
        return self.test.split()[0].endswith(".py")


class LadderFault(NamedTuple):
    name: str
    file: str
    old: str      # as above
    new: str
    red: str      # exactly these levels


# The tests that are a level: programs with GoogleTest filters.
LEVELS = {
    "L0": {"kernels_test": "*", "comm_test": "*", "parallel_test": "*"},
    "L1": {"train_test": "Ladder/L1*"},
    "L2": {"train_test": "Ladder/L2*"},
    "L3": {"train_test": "Ladder/L3*:EngineLayout.*:*EngineGolden.*:DataRoad.*"},
    "L4": {"train_test": "Ladder/L4*", "checkpoint_test": "RankPartsTest.*"},
    "L5": {"generate_test": "*CachedDecoding*"},
}

LADDER = [
    LadderFault("a tree of shards that is a chain", "src/parallel/tree.cpp",
                "const int mid = lo + (hi - lo + 1) / 2;", "const int mid = hi - 1;", "L0 L2 L3"),
    LadderFault("a rank's own part counted twice", "src/parallel/canonical.cpp",
                "pending.scatter = start_tree_reduce_scatter(exec, comm, pending.x, own_rows(comm, pending.x), "
                "Store::overwrite, label);",
                "pending.scatter = start_tree_reduce_scatter(exec, comm, pending.x, own_rows(comm, pending.x), "
                "Store::accumulate, label);", "L0 L2 L3"),
    LadderFault("token parts put together in the wrong order", "src/parallel/row_parts.cpp",
                "exec.device.copy(rows_of_rank(pending.whole, samples, elements, rank),",
                "exec.device.copy(rows_of_rank(pending.whole, samples, elements, comm.size() - 1 - rank),", "L0 L2 L3"),
    LadderFault("one micro-batch too many in flight", "src/parallel/schedule.cpp",
                "if (chunks == 1) return std::min(all, behind);", "if (chunks == 1) return std::min(all, behind + 1);", "L0"),
    LadderFault("dropout that does not know the position", "src/kernels/elementwise/dropout_cpu.cpp",
                "{dropout.key, static_cast<uint32_t>(dropout.position_T.as<int32_t>()[t]),",
                "{dropout.key, static_cast<uint32_t>(0 * dropout.position_T.as<int32_t>()[t]),", "L0 L3"),
    LadderFault("initial weights drawn anew on each rank", "src/parameters/parameter_set.cpp",
                "const uint64_t key = random_key(seed, d.name);",
                "const uint64_t key = random_key(seed + static_cast<uint64_t>(d.shard.begin), d.name);", "L1 L2 L3"),
    LadderFault("the largest logit of a rank's own words", "src/layers/loss_head.cpp",
                "if (context.tensor.size() > 1) { context.tensor.wait(",
                "if (context.tensor.size() > 64) { context.tensor.wait(", "L2 L3"),
    LadderFault("a sum over a rank's own words", "src/layers/loss_head.cpp",
                "parallel::tree_all_reduce(exec, context.tensor, chunk.sum_R, \"loss.sum\");", "", "L2 L3"),
    LadderFault("a clip factor of a rank's own shards", "src/optim/gradient_norm.cpp",
                "merge(exec, mesh.tensor(), sums);", "", "L2 L3"),
    LadderFault("dropout keyed by the position in a rank's part", "src/train/device_batch.cpp",
                "own_sample_position_.push_back(static_cast<int32_t>(at));",
                "own_sample_position_.push_back(static_cast<int32_t>(at - part.index * each));", "L2 L3"),
    LadderFault("updated weights kept to their owner", "src/train/engine.cpp",
                "if (set_.storage().owners > 1) optim::share_weights(exec_, mesh_.data(), set_);", "", "L2 L3"),
    # At the start every bias is zero.
    LadderFault("a bias added by each tensor rank", "src/layers/linear.cpp",
                ".y_TO = partial, .k_shards = context.local_shards()}); const ConstView bias",
                ".y_TO = partial, .k_shards = context.local_shards(), .bias_O = bias_->compute()}); const ConstView bias",
                "L3"),
    LadderFault("sums of the step before in the next", "src/train/engine.cpp",
                "set_.zero_gradient_sums(device_, level);",
                "if (step == 1 || level == 0) set_.zero_gradient_sums(device_, level);", "L3"),
    LadderFault("a rank's part of the largest batch in every step", "src/train/data_road.cpp",
                "optim::batch_size(ramp, step_begin) / ranks;", "ramp.full / ranks;", "L3"),
    LadderFault("pieces of a tensor loaded in the opposite order", "src/checkpoint/reader.cpp",
                "{piece.dim, piece.begin, piece.count}, wanted, host);",
                "{piece.dim, expected.num_dims() > 0 ? tensor.shape[piece.dim] - piece.begin - piece.count : 0, "
                "piece.count}, wanted, host);", "L4"),
    LadderFault("the first owner's moments loaded by all", "src/train/spread_state.cpp",
                "is_whole ? 0 : parameter(index).owned().begin;",
                "is_whole ? 0 : 0 * parameter(index).owned().begin;", "L4"),
    LadderFault("later chunks of a text read one position too early", "src/generate/inference_model.cpp",
                "const std::vector<int32_t> positions = counting(cache.length(), tokens);",
                "const std::vector<int32_t> positions = counting(std::max<int64_t>(cache.length() - 1, 0), tokens);", "L5"),
]


FAULTS = [
    Fault("skipped bias gradient of a row-parallel product", "src/layers/linear.cpp",
          "{dy, bias_->gradient_sum().reshape(Shape{partials, bias_->local_elements()})",
          "{dy.rows(0, 0), bias_->gradient_sum().reshape(Shape{partials, bias_->local_elements()})",
          "layers_test", "LayerGradients.RowLinear"),
    Fault("skipped bias gradient of a column-parallel product", "src/layers/linear.cpp",
          "{dy_TO, bias_->gradient_sum().reshape(Shape{1, bias_->local_elements()})",
          "{dy_TO.rows(0, 0), bias_->gradient_sum().reshape(Shape{1, bias_->local_elements()})",
          "layers_test", "LayerGradients.ColumnLinear"),
    Fault("bias not added", "src/layers/linear.cpp",
          ".k_shards = context.tensor_shards, .bias_O = bias_->compute()",
          ".k_shards = context.tensor_shards, .bias_O = {}",
          "layers_test", "LayerGradients.RowLinear"),
    Fault("causal mask one key too far", "src/kernels/attention/attention_rows-inl.h",
          "place.causal ? query[i] + 1 - first_key", "place.causal ? query[i] + 2 - first_key",
          "kernels_test", "Attention.WhatIsMaskedIsNeverTouched"),
    Fault("causal mask of bf16 attention one key too far", "src/kernels/attention/bf16_blocks-inl.h",
          "clamp<int64_t>(key - query, 0, 16)", "clamp<int64_t>(key - query - 1, 0, 16)",
          "kernels_test", "Bf16Attention.NothingCrossesSequencesOrComesFromLaterChunks"),
    Fault("bf16 attention forgets its running maximum", "src/kernels/attention/bf16_forward-inl.h",
          "{chunk.sum, kChunk, SumStart::scaled, factor}", "{chunk.sum, kChunk, SumStart::carry, factor}",
          "kernels_test", "Attention/Bf16AttentionCases.MatchesReference/several_key_blocks"),
    Fault("document mask one token late", "src/data/host_batch.cpp",
          "batch.cu_seqlens.push_back(begin + static_cast<int32_t>(i) + 1);",
          "batch.cu_seqlens.push_back(begin + static_cast<int32_t>(std::min(i + 1, length - 1)) + 1);",
          "data_test", "HostBatchTest.DocumentMaskCutsBehindEachEndAndKeepsPositions"),
    Fault("stale first moment", "src/kernels/optimizer/adamw_cpu.cpp",
          "store(state.m, m + i);", "", "kernels_test", "AdamW.EqualsTheReferenceOverFiveSteps"),
    Fault("stale second moment", "src/kernels/optimizer/adamw.cpp",
          "write_double(v, 0, i, second);", "write_double(v, 0, i, read_double(v, 0, i));",
          "optim_test", "AdamW.FiveStepsEqualTheDoubleLoop"),
    Fault("sampler off by one token", "src/data/sampler.cpp",
          "part.tokens.begin + address.index * options_.sequence_length;",
          "part.tokens.begin + 1 + address.index * options_.sequence_length;",
          "data_test", "SamplerTest.WithoutShuffleTheFilesOrderIsKept"),
    Fault("tied gradient counted twice", "src/optim/gradients.cpp",
          "parameter.owned_part(parameter.gradient_sum(0)), parameter.owned_part(parameter.gradient_sum(1)),",
          "parameter.owned_part(parameter.gradient_sum(1)), parameter.owned_part(parameter.gradient_sum(1)),",
          "optim_test", "Gradients.SidesOfATiedTableAndPartialRowsAreAddedOnce"),
    Fault("tied gradient counted twice in the norm of two stages", "src/optim/gradient_norm.cpp",
          "&parameter == tied && !mesh.is_first_stage()", "&parameter == tied && false",
          "train_test", "EngineLayout.TwoPipelineRanks"),
    Fault("loss averaged per micro-batch", "src/train/device_batch.cpp",
          "static_cast<float>(1.0 / global_weight)",
          "static_cast<float>(global_weight / global_weight / host.total_weight)",
          "train_test", "EngineLayout.MicroBatches"),
    Fault("dropout keyed by the place in the micro-batch", "src/train/device_batch.cpp",
          "own_sample_.push_back(host.first_sample + sample);", "own_sample_.push_back(sample);",
          "train_test", "EngineLayout.MicroBatches"),
    Fault("recomputation without dropout", "src/layers/block.cpp",
          "forward(context, batch, x_TH, y, &saved, Recompute::none);",
          "Context without = context; without.dropout = 0; "
          "forward(without, batch, x_TH, y, &saved, Recompute::none);",
          "layers_test", "Recompute.*"),
    Fault("a cut along columns hashed piece by piece", "src/checkpoint/cut_digest.cpp",
          "for (int d = 0; d < dim; ++d) outer_ *= record.shape[d];", "inner *= record.shape[0];",
          "checkpoint_test", "RankPartsTest.AnyNumberOfRanksGivesOneDigest"),
    Fault("two lanes of a rank on one doorbell", "src/comm/threads/thread_communicator.h",
          "return world_.bell(world_rank(rank), lane_);", "return world_.bell(world_rank(rank), 0);",
          "comm_test", "RunRanks.AFailureReachesSecondThreads"),
    Fault("calls between processes not compared", "src/comm/messages/message_pending.cpp",
          "if (theirs == own_) return;", "if (theirs == own_ || peer >= 0) return;",
          "comm_test", "MessageCommunicator.ASendMustMatchItsReceive"),
    Fault("data looked at before the call it belongs to", "src/comm/messages/message_pending.cpp",
          "if (!is_expected(message) || !place_", "if (!place_",
          "comm_test", "MessageCommunicator.DataThatDoesNotFitIsADifferentCall"),
    Fault("signs of life of other ranks not heeded", "src/comm/threads/thread_communicator.cpp",
          "patience.renew(now);", "", "comm_test", "RunRanks.WorkThatGivesSignsOfLifeMayTakeLong"),
    Fault("signs of life of other processes not heeded", "src/comm/messages/message_pending.cpp",
          "if (given != signs) patience.renew(monotonic_seconds());", "", "comm_test", "MessageCommunicator.WorkThatGivesSignsOfLifeMayTakeLong"),
    Fault("a rank's error told without its place", "src/comm/rank_state.cpp",
          "failure.text = told(failure.text);", "", "comm_test", "RunRanks.AThrowEndsTheOthersWithItsCause"),
    Fault("a check of files that gives no sign of life", "src/checkpoint/reader.cpp",
          "if (at_work) at_work();", "", "checkpoint_test", "Checkpoint.says_that_it_is_at_work_while_it_checks_and_reads"),
    Fault("the weight of one data rank taken for that of all", "src/train/data_road.cpp",
          'data_ranks_.wait(data_ranks_.start_all_reduce_sum(view, "step.weight"));', "",
          "train_test", "DataRoad.RanksTogetherReadWhatOneReads"),
    Fault("a deadline that does not grow with the steps", "src/train/deadline.h",
          "slowest_ = std::max(slowest_, seconds);", "", "train_test", "Deadline.FitsTheSlowestStep"),
    Fault("a failure that is not told to other processes", "src/comm/messages/message_world.cpp",
          "if (rank == wire_.rank()) continue; open.push_back(", "if (rank >= 0) continue; open.push_back(",
          "comm_test", "MessageCommunicator.AThrowEndsTheOthersWithItsCause"),
    Fault("a signal that one rank alone hears", "src/train/agreement.cpp",
          "values{static_cast<double>(mine.signal),", "values{world.rank() == 0 ? static_cast<double>(mine.signal) : 0,",
          "train_test", "Agreement.AnyRanksSignalAndTheFirstRanksClock"),
    Fault("what is not finite told to the tensor ranks alone", "src/train/not_finite.cpp",
          'engine.mesh().world().exchange(mine.value_or(""), "step.not_finite")',
          'engine.mesh().tensor().exchange(mine.value_or(""), "step.not_finite")',
          "train_test", "NotFinite.AllRanksNameTheSame"),
    Fault("a save that the plan leaves out", "src/train/traced_step.cpp",
          "if (beside.saves) {", "if (beside.saves && settings.zero == 0) {",
          "train_test", "TracedStep.PlansSpreadStateToTheByte"),
    Fault("memory kept for longer than planned", "src/train/pipeline_stage.cpp",
          "if (piece.stage().has_embedding) slot = {};",
          "if (piece.stage().has_embedding && context_.device().is_trace()) slot = {};",
          "train_test", "TracedStep.PlansToTheByte"),
    Fault("positions of the first sample for all of a rank's tokens", "src/train/device_batch.cpp",
          "static_cast<size_t>(sample * length + at)", "static_cast<size_t>(at)",
          "train_test", "EngineLayout.SequenceParallel"),
    Fault("gradients over tokens not summed over tensor ranks", "src/optim/gradients.cpp",
          "parallel::tree_all_reduce(exec, tensor, flat, \"gradients.tokens\");",
          "parallel::tree_all_reduce(exec, tensor, flat.view.rows(0, 0), \"gradients.tokens\");",
          "train_test", "EngineLayout.SequenceParallel"),
    Fault("the gathered input of the previous product", "src/layers/linear.cpp",
          "weight_gradients(context, dy_TO, gathered); parallel::finish(exec, context.tensor, std::move(sum));",
          "weight_gradients(context, dy_TO.rows(0, x.size(0)), x); "
          "parallel::finish(exec, context.tensor, std::move(sum));",
          "train_test", "EngineLayout.SequenceParallel"),
    Fault("chunks of a stage in the order of the stages", "src/parallel/mesh.h",
          "return chunk * layout.pipeline + stage;", "return stage * layout.chunks + chunk;",
          "train_test", "EngineLayout.Chunks"),
    Fault("a bucket that starts before its first parameter is complete", "src/optim/gradient_buckets.cpp",
          "waiting_.back().begin >= set_.gradient_begin(complete_from_)",
          "waiting_.back().end > set_.gradient_begin(complete_from_)",
          "optim_test", "GradientBuckets.StartAsSoonAsAllTheirElementsAreComplete"),
    Fault("buckets that start one micro-batch early", "src/train/pipeline_stage.cpp",
          "micro_batch + 1 == static_cast<int>(batches_.size())",
          "micro_batch + 2 == static_cast<int>(batches_.size())",
          "train_test", "StepTraffic.GradientsTravelWhileBackwardGoesOn"),
    Fault("buckets that miss the first parameters", "src/optim/gradient_buckets.cpp",
          "end > 0; end -= storage.bucket_elements", "end > storage.bucket_elements; end -= storage.bucket_elements",
          "optim_test", "GradientBuckets.HaveTheBitsOfTheTreeWhateverTheirSize"),
    Fault("the last data shard of a rank not added", "src/optim/gradient_buckets.cpp",
          "kernels::add(exec_, part(into), part(from), part(into));", "static_cast<void>(part(into + 0 * from));",
          "train_test", "EngineLayout.TwoDataRanks"),
    Fault("ranks that write unequal parts planned alike", "src/train/rank_kinds.cpp",
          "return state_bytes(parameters_of(at.pipeline), settings_, at);",
          "return state_bytes(parameters_of(at.pipeline), settings_, {0, at.pipeline, 0});",
          "train_test", "LayoutPlan.MemoryOfEveryRankWithWhatIsBesideTheSteps"),
    Fault("gathered inputs that the plan leaves out", "src/layers/linear.cpp",
          "const device::NameScope again(context.device(), kGatheredAgain);", "",
          "train_test", "PaperTable.WireBytesAreTheFormula"),
    Fault("updated weights not shared", "src/train/engine.cpp",
          "if (set_.storage().owners > 1) optim::share_weights(exec_, mesh_.data(), set_);", "",
          "train_test", "EngineLayout.SpreadOptimizerState"),
    Fault("owners meet inside a partial sum of squares", "src/parameters/ownership.cpp",
          "int64_t step = kernels::kSquaresBlock;", "int64_t step = kernels::kSquaresBlock / 3;",
          "parameters_test", "Ownership.CutsLieBetweenPartialSums"),
    Fault("files renamed before their bytes are durable", "src/base/durable_file.cpp",
          "fill(file); file.sync();", "fill(file);",
          "faults_test", "CrashPrefixes.EveryPowerCutLeavesTheNewestDurableCheckpoint"),
    Fault("a save reported before its name is durable", "src/checkpoint/staged_folder.cpp",
          "try { sync_folder(parent_of(target_)); } catch", "try { } catch",
          "faults_test", "CrashPrefixes.EveryPowerCutLeavesTheNewestDurableCheckpoint"),
    Fault("a failed fsync passed over", "src/base/file.cpp",
          "if (::fsync(fd_) != 0) fail(", "if (::fsync(fd_) != 0 && errno != EIO) fail(",
          "faults_test", "SaveFaults.EveryFsyncFails"),
    Fault("the last part of a file not written", "src/checkpoint/uncached_writer.cpp",
          "flush(); stop_direct(); }", "stop_direct(); }",
          "checkpoint_test", "UncachedWriterTest.every_byte_arrives"),
    Fault("a snapshot without the ends of its tensors", "src/checkpoint/snapshot.cpp",
          "std::memcpy(to + at, from + at, static_cast<size_t>(bytes - at));", "",
          "checkpoint_test", "Snapshot.holds_every_byte_of_the_moment"),
    Fault("hashes of an old checkpoint taken for new ones", "src/checkpoint/reader.cpp",
          "return version == 1 ? HashKind::sha256 : HashKind::xxh3_128;",
          "return version == 0 ? HashKind::sha256 : HashKind::xxh3_128;",
          "checkpoint_test", "Checkpoint.format_version_1_is_read_and_guarded_as_ever"),
    Fault("a checkpoint left that was reported as failed", "src/checkpoint/staged_folder.cpp",
          "rename_error(target_, path_, exchanged ? RENAME_EXCHANGE : 0);", "",
          "faults_test", "SaveFaults.EveryFsyncFails"),
    Fault("an unreadable checkpoint taken for a damaged one", "src/checkpoint/kept_checkpoints.cpp",
          "} catch (const IntegrityError&) { return Condition::damaged;", "} catch (const Error&) { return Condition::damaged;",
          "faults_test", "SaveFaults.AnOldCheckpointThatCannotBeReadOrRemovedStays"),
    Fault("a link followed in a run folder", "src/base/file.cpp",
          "return O_RDWR | O_NOFOLLOW;", "return O_RDWR;",
          "report_test", "AppendFile.ALinkInItsPlaceIsNotFollowed"),
    Fault("nesting without an end", "src/base/json_fault.cpp",
          "if (keys_.size() <= most_levels_) return true;", "if (keys_.size() <= most_levels_ || true) return true;",
          "base_test", "JsonFault.DepthIsCountedExactly"),
    Fault("control characters passed on to the terminal", "src/base/one_line.cpp",
          "length == 0 || is_control(text, at, length)", "length == 0 || (length == 2 && is_control(text, at, length))",
          "base_test", "OneLine.NothingLeavesTheLineOrMovesTheCursor"),
    Fault("a lock that two runs can hold", "src/train/run_lock.cpp",
          "LOCK_EX | LOCK_NB", "LOCK_SH | LOCK_NB",
          "train_test", "RunLockTest.TheSecondIsToldWhoHoldsTheFolder"),
    Fault("a changed learning rate resumed without a word", "src/config/resume.cpp",
          '{"optimizer.lr", needs_allow, kOther}', '{"optimizer.lr", allowed, kOther}',
          "config_test", "Resume.WhatChangesTheResultNeedsTheWordOfAPerson"),
    Fault("a gradient that is not finite applied", "src/train/engine.cpp",
          "std::isfinite(result.loss) && std::isfinite(result.grad_norm)", "std::isfinite(result.loss)",
          "train_test", "NotFinite.InAGradientWithAFiniteLoss"),
    Fault("skipped steps counted by the optimizer", "src/train/engine.cpp",
          "optimizer_->update(exec_, step - skipped, lr, norm.factor)",
          "optimizer_->update(exec_, step - 0 * skipped, lr, norm.factor)",
          "train_test", "NotFinite.ASkippedStepDoesNotCountForTheOptimizer"),
    Fault("losses before a resume forgotten", "src/train/spike_guard.cpp",
          "losses_.push_back(*loss);", "", "train_test", "SpikeGuard.GoesOnFromItsState"),
    Fault("time without a process forgotten", "src/train/accounts.cpp",
          "of(Bucket::idle) += gap - lost;", "", "train_test", "Accounts.StepsDoneAgainAndTimeWithoutAProcessAreNamed"),
    Fault("limits of the groups above overlooked", "src/device/memory_offer.cpp",
          "relative = relative.parent_path();", "return;", "device_test",
          "MemoryOfferTest.Version2CountsGroupsAboveAndCachesAsFree"),
    Fault("a checkpoint that cannot be read now taken for a damaged one", "src/checkpoint/reader.cpp",
          "} catch (const IntegrityError& error) { log::warning(", "} catch (const Error& error) { log::warning(",
          "faults_test", "LoadFaults.ACheckpointThatCannotBeReadNowIsNotTakenForADamagedOne"),
    Fault("the same by a run that goes back", "src/train/run_guard.cpp",
          "} catch (const IntegrityError& error) { log::warning(", "} catch (const Error& error) { log::warning(",
          "faults_test", "LoadFaults.NorByARunThatGoesBack"),
    Fault("a linked folder of checkpoints followed", "src/checkpoint/reader.cpp",
          "if (kind == fs::file_type::symlink) { throw UserError(",
          "if (false) { throw UserError(",
          "checkpoint_test", "SaverTest.a_link_in_place_of_the_folder_is_not_followed"),
    Fault("files that were read lately taken for memory in use", "src/device/memory_offer.cpp",
          '{"inactive_file", "active_file", "slab_reclaimable"}', '{"inactive_file", "slab_reclaimable"}', "device_test",
          "MemoryOfferTest.Version2CountsGroupsAboveAndCachesAsFree"),
    Fault("a lock without a start time believed", "src/train/run_lock.cpp",
          "shared && holder.ticks > 0 &&", "shared &&",
          "train_test", "RunLockTest.WhereMachinesShareAFolderTheFileDecides"),
    Fault("fractions taken for whole numbers", "src/base/json_number.cpp",
          "value.is_number_integer() && value.get<int64_t>() >= 0", "value.is_number() && value.get<int64_t>() >= 0",
          "base_test", "JsonNumber.WhatIsNoneIsRefusedByName"),
    Fault("a second signal taken for a wish", "src/train/stop_request.cpp",
          "std::raise(signal);", "", "train_test", "StopRequest.TheSecondLeavesAtOnce"),
    Fault("what a step owes forgotten when it is of another step", "src/train/owed_step.cpp",
          "if (owed.line.step != step)", "if (false)", "train_test", "OwedStep.WhatIsNoneIsRefused"),
    Fault("choices of products forgotten", "src/train/product_choices.cpp",
          "choices.products |= uint32_t{1} << i;", "", "train_test", "ProductChoices.ComeBackByName"),
    Fault("a file of a checkpoint not compared with its hash", "src/checkpoint/reader.cpp",
          "if (hash_of(hash_kind(manifest.version), open_own(path), file.bytes, at_work) == file.hash) return;", "return;",
          "checkpoint_test", "SaverTest.the_newest_whole_checkpoint_is_found"),
    Fault("a name in a manifest that leads out of its folder", "src/checkpoint/manifest.cpp",
          "if (!is_plain_name(file.name))", "if (false)",
          "checkpoint_test", "Checkpoint.a_manifest_with_a_valid_hash_is_still_not_trusted"),
    Fault("a smaller micro-batch than needed advised", "src/train/memory_fit.cpp",
          "return with_micro_batch(change, *(too_large - 1));", "return with_micro_batch(change, sizes.front());",
          "train_test", "MemoryFit.TheSmallestChangeIsNamed"),
    Fault("a run folder whose entry no fsync reaches", "src/base/folder.cpp",
          "sync_folder(at->parent_path());", "",
          "faults_test", "CrashPrefixes.EveryPowerCutLeavesTheNewestDurableCheckpoint"),
    Fault("folders that others may write into", "src/base/folder.cpp", "::mkdir(at->c_str(), 0755)", "::mkdir(at->c_str(), 0777)",
          "base_test", "FolderTest.MakesWhatIsMissingForItsOwnerAlone"),
    Fault("what a replacement put aside is thrown away", "src/checkpoint/kept_checkpoints.cpp",
          'name.starts_with(".tmp-") && !put_back(entry.path())', 'name.starts_with(".tmp-")',
          "faults_test", "CrashPrefixes.AndWhereNamesCannotBeExchangedTheNextStartFindsIt"),
    Fault("a checkpoint of a newer format taken for damage", "src/checkpoint/kept_checkpoints.cpp",
          "return Condition::newer;", "return Condition::damaged;",
          "checkpoint_test", "SaverTest.a_checkpoint_of_a_newer_format_is_refused_and_stays"),
    Fault("a limit on file sizes not looked at", "src/checkpoint/disk_room.cpp",
          "limit.rlim_cur >= static_cast<uint64_t>(own.largest)", "true",
          "checkpoint_test", "SaverTest.room_is_asked_for_in_bytes_and_files"),
    Fault("a refused direct write not repeated", "src/checkpoint/uncached_writer.cpp",
          "if (n < 0 && errno == EINVAL && direct_) {", "if (false) {",
          "faults_test", "SaveFaults.LargeFilesThatAreWrittenAroundThePageCache"),
    Fault("no limit on a document of unknown size", "src/data/document_chunks.cpp",
          "max_document_bytes.value_or(known ? kMaxFileDocumentBytes : kMaxDocumentBytes)",
          "max_document_bytes.value_or(kMaxFileDocumentBytes)",
          "data_test", "DocumentSize.WhatNobodyKnowsAheadIsSmall"),
    Fault("a log that a resume does not cut back", "src/train/run_log.cpp",
          'folder / "metrics.jsonl", positions ? positions->metrics : 0',
          'folder / "metrics.jsonl", positions ? report::end_of_whole_lines(folder / "metrics.jsonl") : 0',
          "megalith", "kills_test.py 20 Kills.test_one_process"),
    Fault("events that a resume does not cut back", "src/train/run_log.cpp",
          "reopen(folder / positions->events_file, positions->events)",
          "reopen(folder / positions->events_file, report::read_events(folder / positions->events_file).whole_bytes)",
          "megalith", "kills_test.py 20 Kills.test_one_process"),
    Fault("a reader that goes away ends the run", "apps/main.cpp",
          "std::signal(SIGPIPE, SIG_IGN);", "",
          "megalith", "weather_test.py Logs.test_a_reader_that_goes_away"),
    Fault("messages written into the files that took a closed stream's number", "apps/main.cpp",
          "occupy_standard_streams();", "if (argc < 0) occupy_standard_streams();",
          "megalith", "weather_test.py Logs.test_targets_that_are_full_or_closed"),
    Fault("losses remembered without an end", "src/train/spike_guard.cpp",
          "> options_.window) losses_.pop_front();", "> options_.window + 1000000) losses_.pop_front();",
          "train_test", "SpikeGuard.RemembersNoMoreThanAWindow"),
    Fault("memory that grows with the steps", "src/train/run_log.cpp",
          "metrics_.append(m);",
          "static std::vector<std::string> all; all.emplace_back(4096, 'x'); metrics_.append(m);",
          "megalith", "steady_test.py Steady.test_memory_and_descriptors"),
    Fault("a descriptor lost with every file that is replaced", "src/base/durable_file.cpp",
          "file.sync(); file.close();", "file.sync(); new File(std::move(file));",
          "megalith", "steady_test.py Steady.test_memory_and_descriptors"),
    Fault("files of a checkpoint whose lengths nobody looks at", "src/checkpoint/reader.cpp",
          "impl_->manifest.files) impl_->check_size(file);",
          "impl_->manifest.files) if (file.bytes < 0) impl_->check_size(file);",
          "megalith", "damage_test.py Damage.test_flipped_and_cut"),
    Fault("a rewind that is not counted", "src/train/loop.cpp",
          "guard_.rewound(rewinds, spiked.samples + beyond - position_.samples);",
          "static_cast<void>(rewinds);",
          "megalith", "runs_test.py Spikes.test_rewind_leaves_the_samples_out_and_repeats_to_the_bit"),
    Fault("samples of a rewind seen again", "src/train/loop.cpp",
          "position_.samples = spiked.samples + beyond;", "",
          "megalith", "runs_test.py Spikes.test_rewind_leaves_the_samples_out_and_repeats_to_the_bit"),
    Fault("sizes in a manifest multiplied without a look", "src/checkpoint/manifest.cpp",
          "std::nullopt : checked_multiply(*bytes, size);", "std::nullopt : std::optional(*bytes * size);",
          "checkpoint_test", "Checkpoint.sizes_whose_product_overflows_are_refused"),
    Fault("counts of an index believed", "src/data/index_format.cpp",
          "num_sequences > room / 12 || num_indices > (room - 12 * num_sequences) / 8", "num_sequences > room",
          "data_test", "Indexed.OpeningFindsEveryDamageOfHeaderSizesAndEnds"),
    Fault("a planted name opened as a new file", "src/base/file.cpp",
          "return O_WRONLY | O_CREAT | O_EXCL;", "return O_WRONLY | O_CREAT;",
          "base_test", "FileTest.WhatIsNewGoesThroughNoPlantedName"),
    Fault("links of a model folder followed anywhere", "src/checkpoint/safetensors_folder.cpp",
          "require_inside(path, folder_);", "",
          "checkpoint_test", "Shards.names_and_links_may_not_leave_the_folder"),
    Fault("a validation that no signal ends", "src/train/validation.cpp",
          "if (stop()) return std::nullopt;", "if (samples < 0 && stop()) return std::nullopt;",
          "megalith", "weather_test.py Signals.test_during_a_validation"),
    Fault("a closed terminal that ends the run at once", "src/train/stop_request.cpp",
          "kSignals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN", "kSignals[i] == SIGHUP",
          "megalith", "weather_test.py Signals.test_a_terminal_that_closes"),
    Fault("an address-space limit overlooked", "src/device/memory_offer.cpp",
          "::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY", "false",
          "megalith", "weather_test.py Limits.test_an_address_space_limit_is_respected"),
    Fault("a slow save on no account", "src/train/loop.cpp",
          "const InBucket saving(accounts_, Bucket::checkpoint);", "",
          "megalith file_faults clock_jumps", "accounts_test.py Accounts.test_a_slow_save_is_a_save"),
    Fault("a slow load on no account", "src/train/loop.cpp",
          "void TrainingRun::resume_or_begin() { const InBucket loading(accounts_, Bucket::load);", "void TrainingRun::resume_or_begin() {",
          "megalith file_faults clock_jumps", "accounts_test.py Accounts.test_a_slow_load_is_a_load"),
    Fault("a way back on no account", "src/train/loop.cpp",
          "bool TrainingRun::rewind() { const InBucket loading(accounts_, Bucket::load);", "bool TrainingRun::rewind() {",
          "megalith file_faults clock_jumps", "accounts_test.py Accounts.test_a_slow_way_back_is_a_load_and_its_steps_are_lost"),
    Fault("accounts that go by the wall clock", "src/train/accounts.cpp",
          "const double until = began_wall_ + monotonic - began_;", "const double until = wall_seconds() + 0 * monotonic;",
          "megalith file_faults clock_jumps", "accounts_test.py Accounts.test_a_clock_that_jumps_by_a_day_does_no_harm"),
    Fault("text that is no UTF-8 taken", "src/data/document_chunks.cpp",
          "const size_t bad = text::find_invalid_utf8(text);", "const size_t bad = std::string_view::npos;",
          "megalith", "input_test.py Input.test_encodings"),
    Fault("bytes behind the end of a file made up", "src/base/file.cpp",
          "if (n == 0) throw IntegrityError(", "if (n == 0) break; if (n < -1) throw IntegrityError(",
          "megalith", "runs_test.py Corpus.test_one_that_shrinks_under_a_run_is_named_and_nothing_is_lost"),
    Fault("a planted temporary link followed", "src/train/loop.cpp",
          'starts_with(".tmp-")) fs::remove(entry.path());', 'starts_with(".tmp-")) fs::remove(fs::canonical(entry.path()));',
          "megalith", "runs_test.py Leftovers.test_planted_temporary_names_lead_nowhere"),
    Fault("types in an earlier start's record believed", "src/train/run_record.cpp",
          'json_.contains("memory") && !json_["memory"].is_object()', "false",
          "megalith", "input_test.py Input.test_run_folders_at_a_resume"),
    Fault("times in an earlier start's record believed", "src/train/accounts.cpp",
          "if (!(seconds >= 0 && seconds <= kMostSeconds))", "if (seconds != seconds)",
          "train_test", "Accounts.WhatCannotBeReadBeginsAnew"),
    Fault("an activation that nobody looks at", "src/layers/attention.cpp",
          'context.inspect("core", core);', "",
          "train_test", "NotFinite.InAnActivationOfAnyLayer"),
    Fault("a judgement of a changed recipe turned by a slip", "src/config/resume.cpp",
          '{"model.init_std", refused,', '{"model.init_std", needs_allow,',
          "config_test", "Resume.EveryKeyIsJudgedAsWrittenHere"),
    Fault("measured rates believed that no machine has", "src/kernels/matmul/product_rates_json.cpp",
          "if (!(rate >= least && rate <= kMostFlops)) return std::nullopt;", "",
          "kernels_test", "ProductRatesJson.WhatIsNoneIsMeasuredAnew"),
    Fault("relocations done late and left open to writes", "cmake/flags.cmake",
          "-Wl,-z,relro,-z,now)", "-Wl,-z,relro)",
          "megalith", "hardening_test.py Hardening.test_relocations_are_done_at_start_and_then_read_only"),
]


def pattern_of(text):
    """The tokens of `text` with any white space between them."""
    return re.compile(r"\s*".join(re.escape(token) for token in re.findall(r"\w+|[^\w\s]", text)))


def planted(fault, tree):
    """(path, new text of the file). Raises LookupError when the fault does not fit it exactly once."""
    path = tree / fault.file
    text = path.read_text()
    found = pattern_of(fault.old).findall(text)
    if len(found) != 1:
        raise LookupError(f"{fault.name}: its text occurs {len(found)} times in {fault.file}")
    return path, pattern_of(fault.old).sub(lambda _: fault.new, text)


def require_test(fault, tree):
    """A script must be there with the tests named; LookupError otherwise. (Of GoogleTest the run itself says so.)"""
    if not fault.is_script():
        return
    script, *words = fault.test.split()
    text = (tree / SCRIPTS / script).read_text()
    for chosen in [word for word in words if "." in word]:
        class_name, test = chosen.split(".")
        if f"class {class_name}(" not in text or f"def {test}(" not in text:
            raise LookupError(f"{fault.name}: there is no {chosen} in {script}")


def check_table():
    stale = []
    for fault in FAULTS + LADDER:
        try:
            planted(fault, ROOT)
            if isinstance(fault, Fault):
                require_test(fault, ROOT)
        except (LookupError, OSError) as error:
            stale.append(str(error))
    return stale


def bring_up_to_date(tree):
    """Copies what differs, removes what is gone; untouched files keep their times."""
    wanted = set()
    for top in COPIED:
        source = ROOT / top
        for path in ([source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file())):
            relative = path.relative_to(ROOT)
            wanted.add(relative)
            target = tree / relative
            if not target.exists() or not filecmp.cmp(path, target, shallow=False):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
    for top in COPIED:
        for path in [p for p in (tree / top).rglob("*") if p.is_file()]:
            if path.relative_to(tree) not in wanted:
                path.unlink()


# Warnings that a fault may bring are no errors, whatever the flags.
LENIENT = "".join(f'#pragma GCC diagnostic warning "-Wunused-{what}"\n'
                  for what in ("variable", "parameter", "function", "but-set-variable"))


def ended(command, folder):
    """What the command printed until its end. A planted fault may keep it from ending: then until it was made to."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=folder,
                               start_new_session=True)
    try:
        return process.communicate(timeout=600)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


class Workshop:
    """The copy and its build, made as the tests' own is, so that a compiler cache knows most of it."""

    def __init__(self, folder, jobs):
        self.tree, self.build_folder, self.jobs = folder, folder / "build" / "faults", jobs
        self.tree.mkdir(parents=True, exist_ok=True)
        bring_up_to_date(self.tree)
        subprocess.run(["cmake", "--preset", "ci", "-S", self.tree, "-B", self.build_folder], check=True, cwd=self.tree,
                       stdout=subprocess.DEVNULL)
        self.seen = {}  # (digest of a program, filter): whether it was green

    def build(self, targets):
        result = subprocess.run(["ninja", "-C", self.build_folder, f"-j{self.jobs}", *targets],
                                capture_output=True, text=True)
        return result.returncode == 0, result.stdout[-3000:]

    def program(self, target):
        """The program or library that a target builds."""
        names = {target, f"lib{target}.so"}
        return next(p for p in sorted(self.build_folder.rglob("*")) if p.name in names and p.is_file())

    def is_green(self, name, tests):
        """A program that does not change gives what it gave: most faults leave most programs alone."""
        program = self.program(name)
        key = hashlib.sha256(program.read_bytes()).hexdigest(), tests
        if key not in self.seen:
            try:
                result = subprocess.run([program, f"--gtest_filter={tests}"], capture_output=True, text=True, timeout=600,
                                        cwd=self.tree)
                ran = "[ RUN      ]" in result.stdout
                self.seen[key] = result.returncode == 0 and ran
            except subprocess.TimeoutExpired:
                self.seen[key] = False
        return self.seen[key]

    def red_levels(self):
        return [level for level, tests in LEVELS.items() if not all(self.is_green(*test) for test in tests.items())]

    def plant_in_ladder(self, fault):
        """Nothing if exactly its levels turned red, else what is wrong."""
        path, text = planted(fault, self.tree)
        healthy = path.read_text()
        path.write_text(LENIENT + text)
        try:
            built, output = self.build(ladder_programs())
            if not built:
                return f"does not build, so it proves nothing:\n{output}"
            red = " ".join(self.red_levels())
            return "" if red == fault.red else f"red: {red or 'nothing'}"
        finally:
            path.write_text(healthy)

    def run(self, fault):
        """(number of tests that ran, number that failed, what was printed)."""
        files = [self.program(target) for target in fault.targets()]
        if fault.is_script():
            script, *words = fault.test.split()
            output = ended([sys.executable, self.tree / SCRIPTS / script, *files, *words, "-v"], self.tree)
            ran, skipped = re.search(r"^Ran (\d+) test", output, re.M), re.search(r"\bskipped=(\d+)", output)
            ran = (int(ran[1]) if ran else 1) - (int(skipped[1]) if skipped else 0)  # none: it did not come to its end
            return ran, ran - len(re.findall(r"\bok$", output, re.M)), output
        output = ended([files[0], f"--gtest_filter={fault.test}:*/{fault.test}"], self.tree)
        ran = len(re.findall(r"^\[ RUN      \]", output, re.M))
        return ran, ran - len(re.findall(r"^\[       OK \]", output, re.M)), output

    def plant(self, fault):
        """Nothing if the fault was seen, else what is wrong."""
        path, text = planted(fault, self.tree)
        healthy = path.read_text()
        path.write_text(LENIENT + text)
        try:
            built, output = self.build(fault.targets())
            if not built:
                return f"does not build, so it proves nothing:\n{output}"
            ran, failed, output = self.run(fault)
            if ran == 0:
                return f"nothing ran, so it proves nothing:\n{output[-3000:]}"
            return "" if failed == ran else f"{ran - failed} of {ran} tests stayed green"
        finally:
            path.write_text(healthy)


def ladder_programs():
    return sorted({program for tests in LEVELS.values() for program in tests})


def run_single(workshop, chosen):
    """How many faults their tests did not see; None when the tests are red without any."""
    built, output = workshop.build(sorted({target for f in chosen for target in f.targets()}))
    if not built:
        print(f"the healthy sources do not build:\n{output}")
        return None
    for fault in chosen:
        ran, failed, output = workshop.run(fault)
        if ran == 0 or failed:
            print(f"{fault.program} {fault.test}: {failed} of {ran} fail without any fault\n{output[-3000:]}")
            return None
    unseen = 0
    for fault in chosen:
        problem = workshop.plant(fault)
        unseen += bool(problem)
        print(f"{'NOT SEEN' if problem else 'seen    '} {fault.name} ({fault.test}) {problem}", flush=True)
    return unseen


def run_ladder(workshop, chosen):
    """How many faults turned other levels red than theirs; None when one is red without any."""
    built, output = workshop.build(ladder_programs())
    if not built:
        print(f"the healthy sources do not build:\n{output}")
        return None
    if red := workshop.red_levels():
        print(f"red without any fault: {' '.join(red)}")
        return None
    wrong = 0
    for fault in chosen:
        problem = workshop.plant_in_ladder(fault)
        wrong += bool(problem)
        print(f"{'WRONG   ' if problem else 'seen    '} {fault.name} ({fault.red}) {problem}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "faults")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--check-table", action="store_true")
    parser.add_argument("--ladder", action="store_true")
    parser.add_argument("names", nargs="*", help="only faults whose name contains one of these")
    arguments = parser.parse_args()
    stale = check_table()
    if stale or arguments.check_table:
        print("\n".join(stale + [f"{len(FAULTS) + len(LADDER) - len(stale)} passed, {len(stale)} failed"]))
        return 1 if stale else 0

    def chosen(table):
        return [f for f in table if not arguments.names or any(n in f.name for n in arguments.names)]
    workshop = Workshop(arguments.folder.resolve(), arguments.jobs)
    done, unseen = 0, 0
    for table, run in ((FAULTS, run_single), (LADDER, run_ladder)):
        faults = chosen(table)
        if not faults or (arguments.ladder and table is FAULTS):
            continue
        missed = run(workshop, faults)
        if missed is None:
            return 1
        done, unseen = done + len(faults), unseen + missed
    print(f"{done - unseen} passed, {unseen} failed")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
