// SPDX-License-Identifier: Apache-2.0
#include "config/tune_section.h"

namespace megalith::config {

using settings::above;
using settings::between;
using settings::from_below;
using settings::InFingerprint;

void TuneTask::visit(FieldVisitor& v) {
  v.field(
      "name", name,
      "of the task: what lines of common files have as taskname, and its folder in RUN/adapter");
  v.field("data", data,
          "its files, as tune.data; none: those of tune.data, whose lines name tasks");
  v.field("validation", validation, "the same for validation");
  v.field("template", template_text, "as tune.template, of its lines");
  v.field("prompt_text", prompt_text, "as tune.prompt_text, of its virtual tokens");
}

void TuneSection::visit_virtual_tokens(FieldVisitor& v) {
  v.field(
      "virtual_tokens", virtual_tokens,
      "how many virtual tokens every text has (prompt, p_tuning); with tune.tasks, the number for "
      "each task",
      between(1, 1 << 16));
  v.field(
      "virtual_token_splits", splits,
      "how many of them stand in place of each mark <|VIRTUAL_PROMPT_0|>, <|VIRTUAL_PROMPT_1|>, "
      "... of the templates, in order; empty: all stand before the text",
      between(1, 1 << 16));
  v.list("tasks", tasks, "name",
         "several tasks in one run, each with virtual tokens of its own, made by one encoder if "
         "there is one (prompt, p_tuning): names, or a list of {name, data, validation, template, "
         "prompt_text}");
  v.field(
      "prompt_init", prompt_init,
      "their rows begin as those of tokens, drawn from the first 5,000 of the vocabulary or of a "
      "text, or are drawn themselves (prompt)");
  v.field("prompt_text", prompt_text, "the text of prompt_init: text, again and again");
  v.field(
      "encoder", encoder,
      "what makes their rows (p_tuning): mlp: three products; lstm: a bidirectional LSTM and two "
      "products; embedding: nothing, they are a table");
  v.field("encoder_hidden", encoder_hidden,
          "width inside of the encoder, of an LSTM in one direction (p_tuning); 0: half of that of "
          "the model's rows",
          between(0, 1 << 16));
  v.field("encoder_layers", encoder_layers, "layers of the LSTM (p_tuning)", between(1, 1 << 10));
}

void TuneSection::visit(FieldVisitor& v) {
  v.field(
      "method", method,
      "full: all weights train; lora: low-rank factors (Hu et al. 2022); ia3: learned vectors (Liu "
      "et al. 2022); adapter: bottleneck adapters behind attention and MLP (Houlsby et al. 2019); "
      "prompt: virtual tokens before or inside texts (Lester et al. 2021); p_tuning: the same, "
      "made "
      "by an encoder (Liu et al. 2021); classify and dpo: full with that objective");
  v.field(
      "objective", objective,
      "sft: the answers of lines; dpo: which of two answers is preferred (Rafailov et al. 2023); "
      "classify: a classifier for tune.task, whose head trains too (full, lora, ia3)");
  v.field("model", model,
          "the model to tune: a run, a checkpoint, a Hugging Face folder or a GGUF file; of the "
          "section model only dropout counts then, and corpora are not read");
  v.field("data", data,
          "files of JSON lines: chats, prompt and completion, or the fields of a template; prompt, "
          "chosen and rejected (dpo); texts with labels (classify), or GLUE's tables (.tsv); words "
          "with tags, or CoNLL's columns (task: token_classification); SQuAD's JSON (task: "
          "question_answering)");
  v.field("validation", validation, "the same for validation");
  v.field("template", template_text,
          "a text with {field} of the lines, the last one the answer; or of chats a file "
          "NAME.jinja; empty: {input} {output}, and the model's own chat template");
  v.field("overlong", overlong, "examples longer than a sample; refuse: the file is no good");
  v.field("answer_length", answer_length,
          "of an encoder-decoder: tokens of a sample that its decoder reads; 0: as many as its "
          "encoder reads, train.sequence_length",
          between(0, 1 << 28));
  v.field(
      "quantize", quantize,
      "how frozen weights are held (lora, ia3, adapter, prompt, p_tuning); stored: as in the "
      "model's files, blocks of q8_0, q4_0 and q4_1 as blocks; else quantized to blocks of 8 or "
      "4 bits (QLoRA, Dettmers et al. 2023), tables of tokens and of logits to q8_0");
  visit_beside(v);
  visit_classes(v);
  visit_virtual_tokens(v);
  v.field("beta", beta,
          "the larger, the nearer probabilities stay to those of the starting weights (dpo)",
          above(0));
  v.field("label_smoothing", label_smoothing,
          "share of pairs that are taken to be the wrong way round (dpo, Mitchell 2023)",
          from_below(0, 0.5));
  v.field(
      "seeds", seeds,
      "how many runs, one after another, of the seeds run.seed, run.seed + 1 and so on, each in "
      "a folder of its own below run.out; their validations are then compared",
      between(1, 1000), InFingerprint::no);
}

void TuneSection::visit_beside(FieldVisitor& v) {
  v.field("rank", rank, "of the factors (lora)", between(1, 1 << 16));
  v.field("alpha", alpha, "scale of the factors' product: alpha / rank (lora)", between(0, 1e6));
  v.field("dropout", dropout, "of what the factors read (lora)", from_below(0, 1));
  v.field("rslora", rank_stabilised, "alpha / sqrt(rank) (lora, Kalajdzievski 2023)");
  v.field("dora", magnitudes,
          "DoRA: trained magnitudes beside the factors (lora, Liu et al. 2024)");
  v.field("targets", targets,
          "modules, whole or from a point on; empty: all (lora), PEFT's of the family (ia3)");
  v.field("adapter_dim", adapter_dim, "size of the bottlenecks (adapter)", between(1, 1 << 16));
}

void TuneSection::visit_classes(FieldVisitor& v) {
  v.field(
      "task", task,
      "what is predicted (classify): a class of each text or pair; a class of each word; or the "
      "span of a text that answers a question");
  v.field("labels", labels,
          "names of the classes in order (classify); a single name: regression on whole texts");
  v.field("stride", stride,
          "tokens that neighbouring windows of a text share, where it is too long for a sample "
          "(task: question_answering)",
          between(0, 1 << 20));
}

}  // namespace megalith::config
