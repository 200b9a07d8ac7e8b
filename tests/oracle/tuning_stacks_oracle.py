#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tuning of encoder-decoders and of classifiers compared with peft and transformers, as tuning_oracle.py does of decoders.

T5, mT5:   all weights, LoRA, IA3, and virtual tokens before what the encoder reads, themselves or behind an encoder of their own: what the encoder reads and the decoder learns is what the tokenizers library says; losses of
           every step, and what trained after the last: the distance from float64 is at most 1.5 times that of peft (of all
           weights transformers) in float32, in the geometric mean over models of several seeds
BERT:      LoRA and IA3 beside a classifier whose head trains too
Results:   the adapter's folder opens in peft and says there what it says here; without targets IA3 takes what peft takes

    tuning_stacks_oracle.py --megalith build/release/megalith --text FILE
"""
import json
import pathlib
import tempfile

import peft
import safetensors.torch
import tokenizers
import torch
import transformers

from comparison import TEXT, Checks, model_arguments, run
from tuning_oracle import BETA1, EXAMPLES, RATES, SEEDS, STEPS, VOCABULARY, Distances, Tuning, distance, parameters_of, rows_of, write_examples

T5_SIZES = {"vocab_size": VOCABULARY, "d_model": 48, "d_kv": 12, "d_ff": 64, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4, "dropout_rate": 0,
            "pad_token_id": 0, "eos_token_id": VOCABULARY - 1, "decoder_start_token_id": 0}
# Where an input of a ReLU comes nearer to 0 than this in float64, float32 may find it on the other side: the gradients of that token part
# for good, by chance on either side. Such a run says nothing of rounding. T5's MLPs are small, so that few runs have one.
KINK = 5e-7
STACKS = {
    "t5": (T5_SIZES | {"d_ff": 4}, [("full", {}), ("lora", {"targets": ["q", "v"], "rank": 4}), ("lora", {"targets": ["q", "k", "v", "o", "wi", "wo"], "rank": 5}), ("ia3", {}),
                      ("ia3", {"targets": ["q", "o", "wi"]}), ("prompt", {"virtual_tokens": 6}),
                      ("p_tuning", {"virtual_tokens": 6, "encoder": "mlp", "encoder_hidden": 24})]),
    "mt5": (T5_SIZES, [("full", {}), ("lora", {"targets": ["EncDecAttention.k", "SelfAttention.v", "wi_0", "wi_1", "wo"], "rank": 4}), ("ia3", {})]),
    "bert": ({"vocab_size": VOCABULARY, "max_position_embeddings": 96, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
              "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0},
             [("lora", {"targets": ["query", "value"], "rank": 4}), ("lora", {"targets": ["query", "key", "value", "output.dense", "intermediate.dense"], "rank": 5}),
              ("ia3", {})]),
}


def padded(rows, filler):
    made = torch.full((len(rows), max(map(len, rows))), filler)
    for to, row in zip(made, rows):
        to[:len(row)] = torch.tensor(row)
    return made


def mask_of(rows):
    return padded([[1] * len(row) for row in rows], 0)


def trained_of(model):
    """Of what trains, as the file calls it."""
    return {name.replace("modules_to_save.default.", "").replace(".default", ""): p.detach().double() for name, p in model.named_parameters() if p.requires_grad}


class Stacks(Tuning):
    """A model, and what is tuned of it: every example a sample of its own, and all of them in a step."""

    def __init__(self, program, folder, family, text, seed):
        self.program, self.folder, self.seed, self.family = program, folder, seed, family
        self.base, self.data, self.recipe = folder / "base", folder / "examples.jsonl", folder / "recipe.yaml"
        torch.manual_seed(seed)
        self.make_base(transformers.AutoConfig.for_model(family, **STACKS[family][0]))
        run(program, "tokenizer", "train", "--input", text, "--vocab-size", VOCABULARY, "--output", self.base / "tokenizer.json")
        self.write_data(text)
        self.tokenizer = tokenizers.Tokenizer.from_file(str(self.base / "tokenizer.json"))
        self.read_data()
        self.recipe.write_text(f"""
tune: {{model: {self.base}, data: {self.data}, {self.of_tune()}}}
train: {{steps: {STEPS}, sequence_length: {max(map(len, self.rows))}, global_batch: {EXAMPLES}, micro_batch: 4}}
optimizer: {{schedule: constant, beta2: 0.999, weight_decay: 0, clip: 0}}
run: {{threads: 1, seed: {seed}}}
""")
        assert 2 * min(map(len, self.rows)) > max(map(len, self.rows)), "examples of unlike lengths are packed"

    def case(self, method, case, distances):
        out = "-".join([method, *case.get("targets", [])])
        settings = {"tune__targets": f"[{', '.join(case['targets'])}]"} if "targets" in case else {}
        if "rank" in case:
            settings |= {"tune__rank": case["rank"], "tune__alpha": 2 * case["rank"]}
        if "virtual_tokens" in case:
            settings |= {f"tune__{key}": value for key, value in case.items()} | {"train__sequence_length": max(map(len, self.rows)) + case["virtual_tokens"]}
        rates = RATES[method], BETA1
        if method == "full":
            losses = self.tune(out, method, **settings)
            run(self.program, "convert", "--from", self.folder / out, "--to", self.folder / f"{out}-hf", "--format", "hf")
            self.compare_loss(self.loss_of, rates, losses, parameters_of(self.opened(self.folder / f"{out}-hf")), lambda: self.opened(self.base).train(), parameters_of,
                              distances)
            return
        self.tune(out + "-start", method, **settings, train__steps=0)
        losses = self.tune(out, method, **settings)
        result = {key: value.double() for key, value in safetensors.torch.load_file(self.folder / out / "adapter/adapter_model.safetensors").items()}
        has_rows = "virtual_tokens" in case
        self.compare_loss(self.loss_of, rates, losses, result, lambda: (self.behind if has_rows else self.beside_of)(self.folder / f"{out}-start", case),
                          rows_of if has_rows else trained_of, distances)
        # It is read whole, nothing is left to chance, and it says there what it says here.
        model = self.with_adapter(self.folder / out / "adapter", is_trainable=not has_rows)
        distances.defaults.append(distance((rows_of if has_rows else trained_of)(model), result) == 0)
        distances.read.append(self.difference(model.eval(), out, method, settings))
        if method == "ia3" and "targets" not in case:
            taken = peft.get_peft_model(self.opened(self.base), peft.IA3Config(task_type=self.TASK))
            distances.defaults.append({name for name in trained_of(taken) if name.endswith("ia3_l")} == {name for name in result if name.endswith("ia3_l")})

    def compare_loss(self, loss_of, rates, ours, our_weights, make, get, distances):
        nearest = []

        def watched():
            model = make()
            for module in model.modules():
                if isinstance(module, torch.nn.ReLU):
                    module.register_forward_pre_hook(lambda _, inputs: nearest.append(inputs[0].detach().abs().min().item()))
            return model

        of_run = Distances()
        super().compare_loss(loss_of, rates, ours, our_weights, watched, get, of_run)
        if min(nearest, default=1) > KINK:
            distances.take(of_run)

    def beside_of(self, start, _):
        return self.with_adapter(start / "adapter", is_trainable=True)

    def behind(self, start, case):
        """peft does not go on with rows that it reads; an encoder's are in the checkpoint, under its names."""
        tensors = {}
        for file in (start / "checkpoints/step-00000000").glob("*.safetensors"):
            tensors |= safetensors.torch.load_file(file)
        common = {"task_type": self.TASK, "num_virtual_tokens": case["virtual_tokens"], "num_transformer_submodules": 1}
        if "encoder" not in case:
            model = peft.get_peft_model(self.opened(self.base), peft.PromptTuningConfig(**common))
            with torch.no_grad():
                model.prompt_encoder["default"].embedding.weight.copy_(tensors["prompt.weight"])
            return model
        model = peft.get_peft_model(self.opened(self.base), peft.PromptEncoderConfig(**common, encoder_reparameterization_type=case["encoder"].upper(),
                                                                                     encoder_hidden_size=case["encoder_hidden"]))
        model.prompt_encoder["default"].load_state_dict({name.removeprefix("prompt."): tensor for name, tensor in tensors.items()
                                                         if name.startswith("prompt.") and name != "prompt.weight"})
        return model


class EncoderDecoder(Stacks):
    TASK = "SEQ_2_SEQ_LM"

    def make_base(self, config):
        transformers.AutoModelForSeq2SeqLM.from_config(config).save_pretrained(self.base)

    def write_data(self, text):
        write_examples(self.data, text)

    def read_data(self):
        lines = [json.loads(line) for line in self.data.read_text().splitlines()]
        self.rows = [self.tokenizer.encode(line["prompt"]).ids for line in lines]
        self.labels = [self.tokenizer.encode(line["completion"].lstrip(" ")).ids + [VOCABULARY - 1] for line in lines]

    def of_tune(self):
        return f"answer_length: {max(map(len, self.labels))}"

    def opened(self, folder):
        return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32)

    def with_adapter(self, adapter, **settings):
        return peft.PeftModel.from_pretrained(self.opened(self.base), adapter, **settings)

    def loss_of(self, model):
        labels = padded(self.labels, -100)
        return lambda: torch.nn.functional.cross_entropy(
            model(input_ids=padded(self.rows, 0), attention_mask=mask_of(self.rows), labels=labels).logits.flatten(0, 1), labels.flatten())

    def difference(self, model, out, method, settings):
        """Of the probabilities of an answer's tokens."""
        line = self.folder / "line.jsonl"
        line.write_text(json.dumps({"ids": self.rows[0], "target_ids": self.labels[0]}) + "\n")
        ours, = run(self.program, "evaluate", "score", "--checkpoint", self.base, "--adapter", self.folder / out / "adapter", "--input", line)
        target = torch.tensor([self.labels[0]])
        with torch.no_grad():
            theirs = torch.log_softmax(model(input_ids=torch.tensor([self.rows[0]]), labels=target).logits[0], -1).gather(1, target[0][:, None])[:, 0]
        return (torch.tensor(ours["logprobs"]) - theirs).abs().max().item()


class Classifier(Stacks):
    TASK, LABELS = "SEQ_CLS", ["one", "two", "three"]

    def make_base(self, config):
        transformers.AutoModelForMaskedLM.from_config(config).save_pretrained(self.base)

    def write_data(self, text):
        write_examples(self.data, text)
        lines = [json.loads(line) for line in self.data.read_text().splitlines()]
        self.data.write_text("".join(json.dumps({"text": line["prompt"], "label": self.LABELS[i % 3]}) + "\n" for i, line in enumerate(lines)))

    def read_data(self):
        lines = [json.loads(line) for line in self.data.read_text().splitlines()]
        self.rows = [self.tokenizer.encode(line["text"]).ids for line in lines]
        self.labels = torch.tensor([self.LABELS.index(line["label"]) for line in lines])

    def of_tune(self):
        return f"objective: classify, labels: [{', '.join(self.LABELS)}]"

    def opened(self, folder, labels=None):
        config = transformers.AutoConfig.from_pretrained(labels or folder)
        return transformers.AutoModelForSequenceClassification.from_pretrained(folder, config=config, dtype=torch.float32)

    def with_adapter(self, adapter, **settings):
        model = self.opened(self.base, adapter)
        assert list(model.config.id2label.values()) == self.LABELS, model.config.id2label
        return peft.PeftModel.from_pretrained(model, adapter, **settings)

    def loss_of(self, model):
        return lambda: torch.nn.functional.cross_entropy(model(input_ids=padded(self.rows, 0), attention_mask=mask_of(self.rows)).logits, self.labels)

    def difference(self, model, out, method, settings):
        """Of the loss of one more step."""
        with torch.no_grad():
            theirs = self.loss_of(model)().item()
        return abs(self.tune(out, method, **settings, train__steps=STEPS + 1)[-1] - theirs)


def name_of(method, case):
    if "virtual_tokens" in case:
        return f"{method} of {case['virtual_tokens']}"
    return " ".join([method, ",".join(case.get("targets", ["by default"] if method == "ia3" else ["all"]))])


def main():
    arguments = model_arguments(__doc__, TEXT, ("family", {"nargs": "*", "help": "default: all"}))
    checks = Checks()
    for family in arguments.family or STACKS:
        cases = STACKS[family][1]
        of_case = [Distances() for _ in cases]
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                tuning = (Classifier if family == "bert" else EncoderDecoder)(arguments.megalith, pathlib.Path(folder), family, arguments.text, seed)
                for (method, case), distances in zip(cases, of_case):
                    tuning.case(method, case, distances)
        for (method, case), distances in zip(cases, of_case):
            name, compared = f"{family}, {name_of(method, case)}", len(distances.fallen)
            checks.expect(f"{name}: runs without a kink", compared >= len(SEEDS) / 3, f"{compared} of {len(SEEDS)}")
            if compared:
                distances.judge(checks, name)
    raise SystemExit(checks.exit_code())


if __name__ == "__main__":
    main()
