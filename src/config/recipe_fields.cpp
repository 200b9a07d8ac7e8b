// SPDX-License-Identifier: Apache-2.0
// Every recipe key, once. The meaning is one sentence for the documentation page; a paper stands in
// brackets.
#include "config/recipe.h"

namespace megalith::config {

using settings::above;
using settings::between;
using settings::Constraint;
using settings::from_below;
using settings::InFingerprint;
namespace {

constexpr auto kNoResult = InFingerprint::no;
constexpr Constraint kCount = between(0, 9e15);  // exact in a double
constexpr Constraint kPositiveCount = between(1, 9e15);
constexpr Constraint kGivenOrNot = between(-1, 9e15);

}  // namespace

void RunSection::visit(FieldVisitor& v) {
  v.field("out", out, "the run folder", kNoResult);
  v.field("seed", seed, "of all random numbers", kCount);
  v.field("name", name, "a name for reports", kNoResult);
  v.field("threads", threads, "threads of this process; 0: all cores it may use", between(0, 4096),
          kNoResult);
}

void Corpus::visit(FieldVisitor& v) {
  v.field("path", path, "prefix of the .bin and .idx files");
  v.field("weight", weight, "share of the samples, relative to the other corpora; null: by size",
          Constraint{.low = 0, .high = 1e12, .low_open = true});
}

void DataSection::visit(FieldVisitor& v) {
  v.list("train", train, "path",
         "corpora to train on: a prefix, a list of prefixes, or a list of "
         "{path, weight}");
  v.list("validation", validation, "path", "corpora for validation, in the same form");
  v.field("tokenizer", tokenizer, "path of a tokenizer; optional when model.vocab is given");
  v.field("validation_fraction", validation_fraction,
          "part of the training documents held out for validation", from_below(0, 1));
  v.field("sequences", sequences,
          "what a sample is filled with: tokens, as they follow one another; documents, whole ones "
          "as far as they fit, each a sequence of its own with positions from 0");
  v.field("document_mask", document_mask, "attention does not cross document ends");
  v.field("reset_positions", reset_positions, "positions start at 0 in each document");
  v.field("end_of_document_loss", end_of_document_loss,
          "false: no loss where the input is the end-of-document token");
}

void MaskingSection::visit(FieldVisitor& v) {
  v.field("rate", rate, "part of a sample's tokens, special ones not counted, that is predicted",
          Constraint{.low = 0, .high = 1, .low_open = true});
  v.field("mask_share", mask_share, "part of these that the mask token hides", between(0, 1));
  v.field("random_share", random_share,
          "part of these that a random token replaces; the others stay as they are", between(0, 1));
  v.field("whole_words", whole_words, "words are predicted whole");
}

void FimSection::visit(FieldVisitor& v) {
  v.field("rate", rate, "probability that a document's text in a sample is rearranged; 0: none is",
          between(0, 1));
  v.field("spm_rate", spm_rate, "of these: that the suffix comes before the prefix", between(0, 1));
  v.field(
      "prefix", prefix,
      "token before the prefix; empty: the tokenizer's, as <fim_prefix>; likewise the other two");
  v.field("middle", middle, "token before the middle");
  v.field("suffix", suffix, "token before the suffix");
}

void SpansSection::visit(FieldVisitor& v) {
  v.field("rate", rate, "part of a sample's tokens that is hidden",
          Constraint{.low = 0, .high = 1, .low_open = true, .high_open = true});
  v.field("mean_length", mean_length, "tokens of a span, on average", between(1, 1000));
  v.field("sentinel", sentinel,
          "the token that stands for a span; {} is its number in the sample, from 0");
  v.field("start", start, "the token that the decoder begins with");
}

void TrainSection::visit_objective(FieldVisitor& v) {
  v.field(
      "objective", objective,
      "what is predicted: causal, the next token; masked, hidden tokens; spans, runs of them, by "
      "a decoder");
  v.field("sentence_pairs", sentence_pairs,
          "asked beside masked of two stretches of text: next, whether the second follows the "
          "first; order, whether they changed places");
  v.section("masking", masking, "The objective masked.");
  v.section("fim", fim, "Fill-in-the-middle of the objective causal (Bavarian et al. 2022).");
  v.section("spans", spans, "The objective spans.");
}
void TrainSection::visit(FieldVisitor& v) {
  visit_objective(v);
  v.field("steps", steps, "optimizer steps; one of steps, tokens, epochs, hours is given",
          kGivenOrNot);
  v.field(
      "tokens", tokens,
      "tokens to train on, of an encoder-decoder those of the encoder, rounded up to whole steps",
      kGivenOrNot);
  v.field("epochs", epochs, "passes over the data", between(-1, 1e9));
  v.field("hours", hours, "time to train for, in hours", between(-1, 1e6));
  v.field(
      "sequence_length", sequence_length,
      "tokens of a training sample, of an encoder-decoder those of the encoder; 0: model.context, "
      "the most",
      between(0, 1 << 28));
  v.field("init", init,
          "weights to begin with, a fresh optimizer beside them: a run, a checkpoint, a Hugging "
          "Face folder or a GGUF file of this model; empty: drawn from the seed");
  v.field("global_batch", global_batch, "sequences per step", between(1, 1 << 30));
  v.field("micro_batch", micro_batch,
          "sequences computed at once (changes memory and speed, not the result); 0: the largest",
          between(0, 1 << 30), kNoResult);
  v.field("ramp_start", ramp_start, "first global batch of a batch ramp-up; 0: no ramp-up",
          between(0, 1 << 30));
  v.field("ramp_increment", ramp_increment, "the ramp-up grows by this many sequences at a time",
          between(0, 1 << 30));
  v.field("ramp_samples", ramp_samples, "samples after which global_batch is reached", kCount);
  v.field("z_loss", z_loss, "weight of log(Z)^2 in the loss (Chowdhery et al. 2022)",
          between(0, 1e6));
  // Validations change nothing but where a run that is impatient ends.
  const InFingerprint decides = early_stopping > 0 ? InFingerprint::yes : kNoResult;
  v.field("validate_every", validate_every, "steps between validations; 0: never", kCount, decides);
  v.field("validate_samples", validate_samples, "samples of a validation", kPositiveCount, decides);
  v.field("early_stopping", early_stopping,
          "validations in a row, none of them the best so far, that end the run; 0: never", kCount);
  v.field("best_by", best_by,
          "what is best of validations: the lowest loss, or the highest of a score that those of a "
          "classifier give (f1 or exact_match of answers)",
          decides);
  v.field("sample_every", sample_every, "steps between text samples; 0: never", kCount, kNoResult);
  v.field("sample_prompts", sample_prompts, "prompts of the text samples", kNoResult);
  v.field("sample_tokens", sample_tokens, "length of a text sample", between(1, 1 << 20),
          kNoResult);
  v.field("log_every", log_every, "steps between lines on the console", kPositiveCount, kNoResult);
  v.field("not_finite", not_finite,
          "a step whose loss or gradient is not finite: stop ends the run (exit 93), skip leaves "
          "the step's samples out");
  v.field("not_finite_limit", not_finite_limit, "steps that may be skipped so; then the run stops",
          kCount);
  v.field("spike", spike,
          "a loss far above the ones before: warn, or rewind to the last regular checkpoint and "
          "leave out the samples since (Chowdhery et al. 2022)");
  v.field("spike_factor", spike_factor,
          "how far above their median, in their median absolute deviations", between(1, 1e6));
  v.field("spike_window", spike_window, "how many losses before", between(8, 100000));
  v.field("spike_skip", spike_skip, "steps whose samples a rewind leaves out beyond the spike",
          between(0, 1 << 30));
  v.field("spike_limit", spike_limit, "rewinds of a run; the next spike stops it (exit 93)",
          kCount);
}

void ParameterGroup::visit(FieldVisitor& v) {
  v.field("match", match, "pattern of parameter names; * stands for any characters");
  v.field("lr_scale", lr_scale, "factor on the learning rate", between(0, 1e6));
  v.field("weight_decay", weight_decay, "weight decay; null: optimizer.weight_decay",
          between(0, 1e6));
}

void OptimizerSection::visit(FieldVisitor& v) {
  v.field("lr", lr, "peak learning rate of AdamW (Loshchilov & Hutter 2019)", between(0, 1e3));
  v.field("min_lr", min_lr, "learning rate at the end of the decay", between(0, 1e3));
  v.field("schedule", schedule,
          "learning rate over time; wsd: warm-up, stable, decay (Hu et al. 2024); hours: by the "
          "clock");
  v.field("warmup_steps", warmup_steps, "steps of linear warm-up", kCount);
  v.field("decay_steps", decay_steps,
          "steps of decay; 0: to the end (wsd: the last tenth of the run)", kCount);
  v.field("beta1", beta1, "decay of the first moment", from_below(0, 1));
  v.field("beta2", beta2, "decay of the second moment", from_below(0, 1));
  v.field("eps", eps, "added to the root of the second moment",
          Constraint{.low = 0, .high = 1, .low_open = true});
  v.field("weight_decay", weight_decay, "decoupled decay of parameters of rank 2 and more",
          between(0, 1e6));
  v.field("clip", clip, "largest global norm of the gradient; 0: off (Pascanu et al. 2013)",
          between(0, 1e12));
  v.field("layer_decay", layer_decay,
          "layer-wise decay of learning rates: their factor is layer_decay in the last layer, its "
          "square in the one before and so on, least in the embeddings, and 1 in the head (Clark "
          "et al. 2020, counted as Bao et al. 2021 do); 1: none",
          Constraint{.low = 0, .high = 1, .low_open = true});
  v.list("groups", groups, "match",
         "parameters with their own rate and decay; the first match counts, beside layer_decay");
  v.field("frozen", frozen,
          "patterns of parameter names, as in groups: such parameters stay as they are, without "
          "gradients and optimizer state");
}

void CheckpointSection::visit(FieldVisitor& v) {
  v.field("every", every, "steps between checkpoints; 0: only the last step", kCount, kNoResult);
  v.field("keep", keep, "complete checkpoints that remain", between(1, 1000000), kNoResult);
  v.field("keep_best", keep_best,
          "keep the checkpoint of the best validation (train.best_by) beside them; each better one "
          "is saved",
          kNoResult);
  v.field("async", async, "write while training goes on", kNoResult);
}

void MemorySection::visit(FieldVisitor& v) {
  v.field("recompute", recompute,
          "activations computed again in backward (Korthikanti et al. 2022)", kNoResult);
  v.field("recompute_layers", recompute_layers,
          "first layers of each pipeline stage that are computed again in full; the others as "
          "recompute says",
          kCount, kNoResult);
  v.field("offload", offload, "activations kept in another memory; not built: none", kNoResult);
}

void ParallelSection::visit(FieldVisitor& v) {
  v.field("tensor", tensor, "ranks that share each layer (Shoeybi et al. 2019)",
          between(1, 1 << 20), kNoResult);
  v.field("pipeline", pipeline, "ranks that share the stack of layers", between(1, 100000),
          kNoResult);
  v.field("data", data, "ranks that share the batch", between(1, 1 << 20), kNoResult);
  v.field("sequence", sequence,
          "split the sequence outside of tensor-parallel layers (Korthikanti et al. 2022)",
          kNoResult);
  v.field("chunks", chunks, "pipeline chunks per rank (Narayanan et al. 2021)", between(1, 100000),
          kNoResult);
  v.field("zero", zero,
          "state sharded over data ranks: 1 moments and masters; not built: 2 gradients, 3 weights "
          "(Rajbhandari et al. 2020)",
          between(0, 3), kNoResult);
  v.field("schedule", schedule, "order of the pipeline's passes", kNoResult);
  v.field("tensor_shards", tensor_shards,
          "canonical split of each layer, part of the result; 0: gcd(8, heads, kv_heads)",
          between(0, 1024));
  v.field("data_shards", data_shards, "canonical split of each batch, part of the result",
          between(1, 1 << 20));
  v.field("context", context, "ranks that share each sequence in attention; not built: 1",
          between(1, 1 << 20), kNoResult);
  v.field("expert", expert, "ranks that share the experts of a layer; not built: 1",
          between(1, 1 << 20), kNoResult);
  v.field("deadline_seconds", deadline_seconds,
          "a rank that waits longer for another, without a heartbeat of any, ends the run; 0: 600, "
          "or ten times the slowest step so far",
          between(0, 1e6), kNoResult);
}

void Recipe::visit(FieldVisitor& v) {
  v.section("run", run, "Name, place and randomness of the run.");
  v.section("model", model, "The network.");
  v.section("data", data, "What it learns from.");
  v.section("train", train, "Length, batches and what happens on the way.");
  v.section("optimizer", optimizer, "AdamW and its learning rate.");
  v.section("precision", precision, "Number formats of storage.");
  v.field("numerics", numerics,
          "exact: the same bits whatever layout, threads and CPU; fast: on a CPU with AMX, a "
          "library's products of bf16");
  v.section("checkpoint", checkpoint, "Saving.");
  v.section("memory", memory, "Trading time for memory.");
  v.section("parallel", parallel,
            "Layout over ranks, and the canonical split that fixes the bits.");
  v.section("tune", tune, "Tuning a model that is there, by megalith tune.");
}

}  // namespace megalith::config
