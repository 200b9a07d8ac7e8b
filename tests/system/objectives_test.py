#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training objectives through the program: python3 objectives_test.py PROGRAM [--long]

An encoder learns hidden words of a text that is packed between special tokens, and a decoder to fill gaps: the same bits
under every layout and across a stop, planned bytes as measured, and what does not fit together refused in one line.

Who has the bits of one rank after twenty steps, under how many layouts (losses, norms of gradients, the state):

| objective               | here                   | here with --long                | room engine, FamilyLayout.EveryLayout |
|-------------------------|------------------------|---------------------------------|---------------------------------------|
| causal                  |                        | every decoder: 11               | every decoder: 9                      |
| fill in the middle      | llama: 11              |                                 |                                       |
| masked, samples         | bert, albert: 11       | roberta, modernbert, crammed: 11 | every encoder, all tokens weigh: 9   |
| masked, whole documents | bert: 11               |                                 |                                       |
| sentence order          | bert: 11               |                                 |                                       |
| next sentence           | albert: 11             |                                 |                                       |
| spans                   | t5: 12                 | mt5: 11                         | t5, mt5: 9                            |
"""
import json
import math
import re
import sys
import unittest

LONG = "--long" in sys.argv
if LONG:
    sys.argv.remove("--long")

from program import RoadTest, run, run_json, text  # noqa: E402

MASKED = """
model: {family: bert, layers: 4, hidden: 32, heads: 4, context: 16, dropout: 0.1}
data: {train: DIR/words, tokenizer: DIR/words.json, validation_fraction: 0.1, document_mask: true, reset_positions: true}
train: {objective: masked, steps: 20, global_batch: 8, micro_batch: 4, validate_every: 5, masking: {whole_words: true}}
optimizer: {lr: 1e-2, schedule: constant}
checkpoint: {every: 10}
parallel: {data_shards: 2}
run: {threads: 1}
"""
MIDDLE = """
model: {family: llama, layers: 4, hidden: 32, heads: 4, context: 16, dropout: 0.1}
data: {train: DIR/corpus, tokenizer: DIR/middle.json, validation_fraction: 0.1, document_mask: true}
train: {fim: {rate: 0.7}, steps: 20, global_batch: 8, micro_batch: 4, validate_every: 5}
optimizer: {lr: 1e-2, schedule: constant}
checkpoint: {every: 10}
parallel: {data_shards: 2}
run: {threads: 1}
"""
DOCUMENTS = """
model: {family: bert, layers: 4, hidden: 32, heads: 4, context: 16, dropout: 0.1}
data: {train: DIR/words, tokenizer: DIR/words.json, validation_fraction: 0.1, sequences: documents}
train: {objective: masked, steps: 20, global_batch: 8, micro_batch: 4, validate_every: 5}
optimizer: {lr: 1e-2, schedule: constant}
checkpoint: {every: 10}
parallel: {data_shards: 2}
run: {threads: 1}
"""
PAIRS = """
model: {family: bert, layers: 4, hidden: 32, heads: 4, context: 32, dropout: 0.1}
data: {train: DIR/sentences, tokenizer: DIR/words.json, validation_fraction: 0.1}
train: {objective: masked, sentence_pairs: order, steps: 20, global_batch: 8, micro_batch: 4, validate_every: 5}
optimizer: {lr: 1e-2, schedule: constant}
checkpoint: {every: 10}
parallel: {data_shards: 2}
run: {threads: 1}
"""
SPANS = """
model: {family: t5, layers: 2, hidden: 32, heads: 4, context: 32, dropout: 0.1, decoder_start: 285}
data: {train: DIR/corpus, tokenizer: DIR/spans.json, validation_fraction: 0.1}
train: {objective: spans, steps: 20, global_batch: 8, micro_batch: 4, validate_every: 5}
optimizer: {lr: 1e-2, schedule: constant}
checkpoint: {every: 10}
parallel: {data_shards: 2}
run: {threads: 1}
"""
LAYOUTS = [
    ["train.micro_batch=1"], ["memory.recompute=selective"], ["memory.recompute=full"], ["parallel.tensor=2"], ["parallel.tensor=4"],
    ["parallel.tensor=2", "parallel.sequence=true"], ["parallel.pipeline=2"],
    ["parallel.pipeline=2", "parallel.chunks=2", "parallel.schedule=interleaved"], ["parallel.data=2"],
    ["parallel.data=2", "parallel.zero=1"],
    ["parallel.tensor=2", "parallel.pipeline=2", "parallel.data=2", "parallel.sequence=true", "parallel.zero=1",
     "memory.recompute=full"]]
DECODERS = ("gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "olmo2", "starcoder2")


def added(number, content):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True}


def wordpiece(source):
    """A tokenizer of BERT's kind: whole words of the text, but those of four letters and more in two pieces."""
    words = sorted(set(re.findall(r"\w+|[^\w\s]", source)))
    pieces = [p for word in words for p in ([word] if len(word) < 4 else [word[:2], "##" + word[2:]])]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    names = special + list(dict.fromkeys(pieces))
    frame = {name: {"id": name, "ids": [names.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    token, part = (lambda name: {"SpecialToken": {"id": name, "type_id": 0}}), (lambda name: {"Sequence": {"id": name, "type_id": 0}})
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [added(i, s) for i, s in enumerate(special)],
            "normalizer": None, "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": [token("[CLS]"), part("A"), token("[SEP]")],
                               "pair": [token("[CLS]"), part("A"), token("[SEP]"), part("B"), token("[SEP]")],
                               "special_tokens": frame},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": {name: i for i, name in enumerate(names)}}}


class Objective(RoadTest):
    RUNS = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "words.json").write_text(json.dumps(wordpiece(text(600))))
        run("pack", "--tokenizer", cls.folder / "words.json", "--input", cls.folder / "text.txt", "--document", "line",
            "--special-tokens", "--output", cls.folder / "words")
        lines = [line for line in text(600).splitlines() if line]
        documents = "\n\n".join("\n".join(lines[i:i + 5]) for i in range(0, len(lines), 5))
        (cls.folder / "documents.txt").write_text(documents)
        run("pack", "--tokenizer", cls.folder / "words.json", "--input", cls.folder / "documents.txt", "--document", "paragraph",
            "--sentences", "--output", cls.folder / "sentences")
        tokenizer = json.loads((cls.folder / "tokenizer.json").read_text())
        for i, name in enumerate(("<fim_prefix>", "<fim_middle>", "<fim_suffix>")):
            tokenizer["added_tokens"].append(added(285 + i, name))
        (cls.folder / "middle.json").write_text(json.dumps(tokenizer))
        tokenizer["added_tokens"][-3:] = [added(285, "<pad>")] + [added(286 + i, f"<extra_id_{i}>") for i in range(9)]
        (cls.folder / "spans.json").write_text(json.dumps(tokenizer))
        cls.recipe.write_text(cls.RUNS.replace("DIR", str(cls.folder)))
        cls.train("base")

    def validation(self, out):
        return [m["validation_loss"] for m in self.metrics(out) if "validation_loss" in m]

    def one_result_under_every_layout(self, base="base", *changes):
        for overrides in LAYOUTS:
            with self.subTest(base=base, overrides=overrides):
                out = "-".join((base, *overrides))
                self.train(out, *changes, *overrides)
                self.same(out, base)
                self.assertEqual(self.validation(out), self.validation(base))
                memory = json.loads((self.folder / out / "run.json").read_text())["memory"]
                memory["measured"].pop("outside")
                self.assertEqual(memory["planned"], memory["measured"])

    def families(self, *families, changes=()):
        """Each as the one of RUNS."""
        for family in families:
            changed = (f"model.family={family}", *changes)
            self.train(family, *changed)
            self.one_result_under_every_layout(family, *changed)

    def a_run_in_two_parts(self):
        self.train("parts", "train.steps=6")
        self.train("parts", "parallel.data=2")
        self.same("parts", "base")

    def storage(self):
        bf16 = ["precision.parameters=bf16", "precision.compute=bf16"]
        self.train("bf16", *bf16)
        self.train("bf16-t2p2", *bf16, "parallel.tensor=2", "parallel.pipeline=2")
        self.same("bf16-t2p2", "bf16")

    def refused(self, word, *overrides):
        said = self.train("refused", *overrides, code=2)
        self.assertIn(word, said)
        self.assertEqual(said.count("\n"), 1, said)


class Masked(Objective):
    RUNS = MASKED

    def test_one_result_and_planned_bytes_under_every_layout(self):
        self.one_result_under_every_layout()

    def test_a_run_in_two_parts_is_one_run(self):
        self.a_run_in_two_parts()

    def test_bf16(self):
        self.storage()

    def test_it_learns(self):
        self.train("long", "train.steps=200", "model.dropout=0", "optimizer.lr=3e-3")
        losses = self.validation("long")
        self.assertLess(losses[-1], 0.7 * losses[0])

    @unittest.skipUnless(LONG, "of the tier long")
    def test_every_family(self):
        self.families("roberta", "modernbert", "crammed")

    def test_what_does_not_fit_is_refused(self):
        self.refused("train.objective causal asks for the next token", "train.objective=causal", "train.masking=")
        self.refused("none behind them are seen by layers of model.family gpt2", "model.family=gpt2")
        self.refused("[MASK] or <mask>", f"data.tokenizer={self.folder / 'tokenizer.json'}", f"data.train={self.folder / 'corpus'}")
        self.refused("continues no text", "train.sample_every=1", "train.sample_prompts=[the]")
        self.refused("more than 1 together", "train.masking.random_share=0.3")
        self.refused("the nearest known key is train.masking.rate", "train.masking.rat=0.1")
        self.refused("needs a model with an encoder and a decoder", "train.objective=spans", "train.masking=", "data.document_mask=false",
                     "data.reset_positions=false")
        self.refused("has no effect with train.objective: causal", "train.objective=causal", "model.family=gpt2")

    def test_probabilities_of_a_hidden_token_add_up_to_one(self):
        vocabulary = len(json.loads((self.folder / "words.json").read_text())["model"]["vocab"])
        lines = self.folder / "every.jsonl"
        lines.write_text("".join(json.dumps({"ids": [token, 7, 6]}) + "\n" for token in range(vocabulary)))
        said = run("evaluate", "score", "--masked", "--checkpoint", self.folder / "base", "--input", lines, "--json")
        self.assertAlmostEqual(sum(math.exp(json.loads(line)["logprobs"][0]) for line in said.splitlines()), 1, 5)

    def test_a_resume_may_not_ask_otherwise(self):
        self.train("other", "train.steps=4")
        said = self.train("other", "train.masking.rate=0.3", code=2)
        self.assertIn("train.masking.rate was 0.15", said)


class SharedLayers(Objective):
    """One layer's weights for all four."""
    RUNS = MASKED.replace("bert", "albert")

    def test_one_result_and_planned_bytes_under_every_layout(self):
        self.one_result_under_every_layout()

    def test_a_run_in_two_parts_is_one_run(self):
        self.a_run_in_two_parts()

    def test_stages_that_have_nothing_of_their_own_to_save(self):
        self.train("stages", "train.steps=6", "parallel.pipeline=4")
        self.train("stages", "parallel.pipeline=3")
        self.same("stages", "base")


class Spans(Objective):
    """An encoder and a decoder of two layers each."""
    RUNS = SPANS

    def test_one_result_and_planned_bytes_under_every_layout(self):
        self.one_result_under_every_layout()
        self.train("stages", "parallel.pipeline=4")
        self.same("stages", "base")

    def test_a_run_in_two_parts_is_one_run(self):
        self.a_run_in_two_parts()

    def test_bf16(self):
        self.storage()

    @unittest.skipUnless(LONG, "of the tier long")
    def test_every_family(self):
        self.families("mt5")

    def test_it_learns_scores_and_writes(self):
        self.train("long", "train.steps=200", "model.dropout=0", "optimizer.lr=3e-3")
        losses = self.validation("long")
        self.assertLess(losses[-1], 0.7 * losses[0])
        lines = self.folder / "lines.jsonl"
        lines.write_text('{"text": "the <extra_id_0>", "target": "<extra_id_0> word"}\n{"ids": [5, 6], "target_ids": []}\n')
        scored = [json.loads(line) for line in run("evaluate", "score", "--checkpoint", self.folder / "long", "--input", lines,
                                                   "--json").splitlines()]
        self.assertEqual([len(line["ids"]) for line in scored], [len(line["logprobs"]) for line in scored])
        self.assertEqual((scored[1]["logprobs"], scored[1]["nll"]), ([], 0))
        self.assertGreater(scored[0]["nll"], 0)
        run("convert", "--from", self.folder / "long", "--to", self.folder / "hf", "--format", "hf")
        again = run("evaluate", "score", "--checkpoint", self.folder / "hf", "--input", lines, "--json")
        self.assertEqual([json.loads(line) for line in again.splitlines()], scored)
        written = [run_json("generate", "--checkpoint", self.folder / "long", "--prompt", "the <extra_id_0>", "--max-new-tokens", 8,
                            "--temperature", 0, *layout)["ids"]
                   for layout in ([], ["--ranks", 2, "--set", "parallel.pipeline=2"], ["--ranks", 2, "--set", "parallel.tensor=2"])]
        self.assertTrue(written[0])
        self.assertEqual(written, [written[0]] * 3)

    def test_what_does_not_fit_is_refused(self):
        self.refused("is of models with one stack of layers", "train.objective=causal", "train.spans=")
        self.refused("set it to 285", "model.decoder_start=0")
        self.refused("has one stack of layers", "model.family=llama", "model.decoder_layers=2", "train.objective=causal", "train.spans=")
        self.refused("more than model.context", "train.spans.rate=0.6", "train.spans.mean_length=1.5", "train.sequence_length=32")


class Middle(Objective):
    RUNS = MIDDLE

    def test_one_result_and_planned_bytes_under_every_layout(self):
        self.one_result_under_every_layout()

    def test_a_run_in_two_parts_is_one_run(self):
        self.a_run_in_two_parts()

    def test_bf16(self):
        self.storage()

    @unittest.skipUnless(LONG, "of the tier long")
    def test_every_family(self):
        self.families(*DECODERS, changes=["train.fim="])

    def test_no_rate_is_causal_to_the_bit(self):
        self.train("none", "train.fim=")
        self.train("zero", "train.fim.rate=0", f"data.tokenizer={self.folder / 'middle.json'}")
        self.same("none", "zero")
        self.assertNotEqual(self.losses("none"), self.losses("base"))

    def test_what_does_not_fit_is_refused(self):
        self.refused("tokens for prefix, middle and suffix", f"data.tokenizer={self.folder / 'tokenizer.json'}", "model.vocab=288")
        self.refused("has no token \"<m>\"", "train.fim.prefix=<fim_prefix>", "train.fim.middle=<m>", "train.fim.suffix=<fim_suffix>")
        self.refused("or none", "train.fim.prefix=<fim_prefix>")
        self.refused("of train.objective: causal, not masked", "train.objective=masked")


class Documents(Objective):
    RUNS = DOCUMENTS

    def test_one_result_and_planned_bytes_under_every_layout(self):
        self.one_result_under_every_layout()

    def test_a_run_in_two_parts_is_one_run(self):
        self.a_run_in_two_parts()

    def test_a_decoder(self):
        causal = ["model.family=llama", "train.objective=causal"]
        self.train("causal", *causal)
        self.train("causal-d2t2", *causal, "parallel.data=2", "parallel.tensor=2", "parallel.sequence=true", "train.micro_batch=1")
        self.same("causal-d2t2", "causal")

    def test_what_does_not_fit_is_refused(self):
        self.refused("attention stays within each anyway", "data.document_mask=true")
        self.refused("samples cannot be rearranged", "train.fim.rate=0.5", "train.objective=causal", "model.family=llama")

    def test_a_resume_may_not_ask_otherwise(self):
        self.train("other", "train.steps=4")
        said = self.train("other", "data.sequences=tokens", code=2)
        self.assertIn("data.sequences was documents", said)


class Pairs(Objective):
    RUNS = PAIRS

    def test_one_result_and_planned_bytes_under_every_layout(self):
        self.one_result_under_every_layout()

    def test_a_run_in_two_parts_is_one_run(self):
        self.a_run_in_two_parts()

    def test_bf16(self):
        self.storage()

    def test_the_next_sentence_with_shared_layers(self):
        self.families("albert", changes=["train.sentence_pairs=next"])
        run("convert", "--from", self.folder / "albert", "--to", self.folder / "albert-hf", "--format", "hf")
        config = json.loads((self.folder / "albert-hf" / "config.json").read_text())
        self.assertEqual(config["architectures"], ["AlbertForPreTraining"])

    def test_both_losses_are_said(self):
        for line in self.metrics("base"):
            self.assertGreater(line["loss"], line["pair_loss"])
            self.assertEqual("validation_pair_loss" in line, "validation_loss" in line)

    def test_a_model_goes_out_and_comes_back(self):
        self.train("next", "train.sentence_pairs=next")
        folder = self.folder / "pretraining"
        run("convert", "--from", self.folder / "next", "--to", folder, "--format", "hf")
        self.assertEqual(json.loads((folder / "config.json").read_text())["architectures"], ["BertForPreTraining"])
        (self.folder / "lines.jsonl").write_text('{"text": "the dog sees the bird."}\n{"text": "the cat eats"}\n')
        scores = [run("evaluate", "score", "--masked", "--checkpoint", which, "--input", self.folder / "lines.jsonl", "--json")
                  for which in (folder, self.folder / "next")]
        self.assertEqual(*scores)
        self.train("again", "train.sentence_pairs=next", f"train.init={folder}", "train.steps=1")

    def test_what_does_not_fit_is_refused(self):
        self.refused("are of train.objective: masked", "train.objective=causal", "model.family=llama")
        self.refused("needs a model of two token types", "model.family=roberta")
        self.refused("a sample of a sentence pair has its own sequences", "data.document_mask=true")
        self.refused("pack --sentences", f"data.train={self.folder / 'words'}")

    def test_a_resume_may_not_ask_otherwise(self):
        self.train("other", "train.steps=4")
        said = self.train("other", "train.sentence_pairs=none", code=2)
        self.assertIn("train.sentence_pairs", said)


del Objective, RoadTest  # they have no tests of their own

if __name__ == "__main__":
    unittest.main()
