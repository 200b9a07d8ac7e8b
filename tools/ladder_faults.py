# SPDX-License-Identifier: Apache-2.0
"""The ladder: which tests are a level, and faults with exactly the levels that they turn red. The lowest of them is the fault's own,
where its cause lies. Above it a level may be red only because it runs the same code on more: what spoils a primitive or the
weights of the start (L0, L1) spoils steps, what spoils a step (L2) spoils runs (L3). L4 and L5 do not train: they are red for
faults of their own, or of a primitive that they use."""
from typing import NamedTuple


class LadderFault(NamedTuple):
    name: str
    file: str
    old: str      # as above
    new: str
    red: str      # exactly these levels


# The tests that are a level: programs with GoogleTest filters.
LEVELS = {
    "L0": {"kernels_test": "*", "comm_test": "*", "parallel_test": "*"},
    "L1": {"engine_test": "Ladder/L1*"},
    "L2": {"engine_test": "Ladder/L2*"},
    "L3": {"engine_test": "Ladder/L3*:EngineLayout.*:*GroupedLayout*:*EngineGolden.*", "engine_test": "DataLoader.*"},
    "L4": {"engine_test": "Ladder/L4*", "checkpoint_test": "RankPartsTest.*"},
    "L5": {"inference_test": "*CachedDecoding*"},
}

LADDER = [
    LadderFault("a tree of shards that is a chain", "src/parallel/tree.cpp",
                "const int mid = lo + (hi - lo + 1) / 2;", "const int mid = hi - 1;", "L0 L2 L3"),
    LadderFault("a rank's own part counted twice", "src/parallel/canonical.cpp",
                "pending.scatter = start_tree_reduce_scatter(exec, comm, pending.x, own_rows(comm, pending.x), "
                "Store::overwrite, label);",
                "pending.scatter = start_tree_reduce_scatter(exec, comm, pending.x, own_rows(comm, pending.x), "
                "Store::accumulate, label);", "L0 L2 L3"),
    LadderFault("token parts put together in the wrong order", "src/parallel/sequence_shard.cpp",
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
    LadderFault("the largest logit of a rank's own words", "src/heads/vocabulary_head.cpp",
                "if (context.tensor.size() > 1) { context.tensor.wait(",
                "if (context.tensor.size() > 64) { context.tensor.wait(", "L2 L3"),
    LadderFault("a sum over a rank's own words", "src/heads/vocabulary_head.cpp",
                "parallel::tree_all_reduce(exec, context.tensor, chunk.sum_R, \"loss.sum\");", "", "L2 L3"),
    LadderFault("a clip factor of a rank's own shards", "src/optim/gradient_norm.cpp",
                "merge(exec, mesh.tensor(), sums);", "", "L2 L3"),
    LadderFault("dropout keyed by the position in a rank's part", "src/engine/device_batch.cpp",
                "sample_position.push_back(static_cast<int32_t>(at));",
                "sample_position.push_back(static_cast<int32_t>(at - part.index * each));", "L2 L3"),
    LadderFault("updated weights kept to their owner", "src/engine/engine.cpp",
                "if (parameters().storage().owners > 1) share_weights(result.applied, had_codes);", "", "L2 L3"),
    # At the start every bias is zero.
    LadderFault("a bias added by each tensor rank", "src/layers/linear.cpp",
                ".y_TO = partial, .k_shards = context.local_shards()}, keep); made = {}; const auto finish",
                ".y_TO = partial, .k_shards = context.local_shards(), .bias_O = value_of(bias_)}, keep); made = {}; const auto finish",
                "L3"),
    LadderFault("sums of the step before in the next", "src/engine/engine.cpp",
                "parameters().zero_gradient_sums(device(), level);",
                "if (step == 1 || level == 0) parameters().zero_gradient_sums(device(), level);", "L3"),
    LadderFault("a rank's part of the largest batch in every step", "src/engine/data_loader.cpp",
                "optim::batch_size(ramp, step_begin) / ranks;", "ramp.full / ranks;", "L3"),
    LadderFault("pieces of a tensor loaded in the opposite order", "src/checkpoint/reader.cpp",
                "read_overlap(file, *entry, tensor.shape, held, wanted, host,",
                "read_overlap(file, *entry, tensor.shape, tensor.shape.num_dims() > 0 ? Shard{held.dim, "
                "tensor.shape[held.dim] - held.begin - held.count, held.count, held.second_begin, held.second_count} : held, "
                "wanted, host,", "L4"),
    LadderFault("parts of a shared head sent to the wrong places", "src/parallel/rank_blocks.cpp",
                "[&](int) { return own; }, [&](int j) { return parts_PN.rows(j, 1); });",
                "[&](int) { return own; }, [&](int j) { return parts_PN.rows(size - 1 - j, 1); });", "L0 L2 L3"),
    LadderFault("query heads of a shared head in one chain", "src/layers/local_heads.cpp",
                ".kv_partials = std::max<int64_t>(1, context.local_shards() / kv)", ".kv_partials = 1", "L2 L3"),
    LadderFault("a shared head's norm counted by each rank", "src/layers/qk_norms.cpp",
                "context.tensor.rank() % sharers == 0);", "sharers > 0);", "L2 L3"),
    LadderFault("rows of a shared head in the tensor's order", "src/layers/linear.cpp",
                "by_shard_ = shared.by_shard();", "", "L2 L3"),
    LadderFault("a second range read as the first", "src/checkpoint/reader.cpp",
                "const int64_t from = o * here.extent() + held.local + begin - held.begin;",
                "const int64_t from = o * here.extent() + begin - held.begin;", "L4"),
    LadderFault("the first owner's moments loaded by all", "src/engine/sharded_optimizer_state.cpp",
                "is_whole ? 0 : parameter(index).owned().begin;",
                "is_whole ? 0 : 0 * parameter(index).owned().begin;", "L4"),
    LadderFault("later chunks of a text read one position too early", "src/inference/text_batch.cpp",
                "std::iota(begin, positions.begin() + s.cu_seqlens[i + 1], s.past[i]);",
                "std::iota(begin, positions.begin() + s.cu_seqlens[i + 1], std::max(s.past[i] - 1, 0));", "L5"),
]
