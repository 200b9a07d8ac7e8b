#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tuning compared with peft and transformers: the same model, start, examples and AdamW, 50 steps in float32.

Tokens:    what is read of the examples and learned of them is what the tokenizers library and a template say
LoRA:      losses of every step, and the factors after the last, with DoRA the magnitudes too, of several families and targets, whose modules are one product of
           ours or several: the distance from peft in float64 is at most 1.5 times that of peft in float32, in the geometric mean
           over models of several seeds. AdamW makes whole steps of gradients that are next to nothing (those of a key's bias, to
           which softmax is blind), so that one run's distance says which way a rounding fell: ratios of 0.04 and 7 are common
IA3:       the same of learned vectors; without targets they are those that peft takes for the family
Prompt:    the same of virtual tokens; they begin as the rows that peft takes of a text's tokens
P-tuning:  the same of rows that an encoder makes, an MLP and an LSTM, begun from the same encoder
Full:      the same of all weights, against transformers
DPO:       the same of the published loss (Rafailov et al. 2023, equation 7), with all weights and with factors; and its margins
Results:   the adapter's folder opens in peft, whose logits are those of the trained module

    tuning_oracle.py --megalith build/release/megalith
"""
import copy
import json
import math
import pathlib
import statistics
import tempfile

import peft
import safetensors.torch
import tokenizers
import torch
import transformers

from comparison import TEXT, Checks, model_arguments, run
from decoder_folders import BOUND, in_double

VOCABULARY, STEPS, EXAMPLES, SEEDS = 300, 50, 12, range(3, 12)
RATES = {"full": 3e-4, "lora": 3e-3, "ia3": 1e-2, "prompt": 3e-2, "p_tuning": 3e-3}
# Of preferences; (beta, label smoothing).
PREFERENCE_RATES = {"full": 1e-4, "lora": 2e-3}
PREFERENCES = [(0.1, 0), (0.3, 0.1)]
BETA1 = 0.9
SIZES = {"vocab_size": VOCABULARY, "max_position_embeddings": 96, "eos_token_id": VOCABULARY - 1}
GROUPED = SIZES | {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
MODELS = {
    "llama": GROUPED,
    "qwen2": GROUPED,
    "gemma2": GROUPED | {"head_dim": 16},
    "gpt2": SIZES | {"n_positions": 96, "n_embd": 48, "n_layer": 3, "n_head": 4, "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0},
}
CASES = {
    "llama": [{"targets": ["q_proj", "v_proj"], "rank": 4, "alpha": 8},
              {"targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"], "rank": 5, "alpha": 15},
              {"targets": ["up_proj", "down_proj"], "rank": 4, "alpha": 8, "rslora": True},
              {"targets": ["q_proj", "v_proj", "up_proj", "down_proj"], "rank": 4, "alpha": 8, "dora": True}],
    "qwen2": [{"targets": ["q_proj", "k_proj", "v_proj", "gate_proj"], "rank": 4, "alpha": 8},
              {"targets": ["q_proj", "v_proj", "down_proj"], "rank": 4, "alpha": 8, "dora": True}],
    "gemma2": [{"targets": ["q_proj", "v_proj", "up_proj"], "rank": 4, "alpha": 8}],
    "gpt2": [{"targets": ["c_attn", "c_proj", "c_fc"], "rank": 4, "alpha": 8}, {"targets": ["c_attn", "c_proj", "c_fc"], "rank": 4, "alpha": 8, "dora": True}],
}
IA3_CASES = {
    "llama": [{}, {"targets": ["q_proj", "o_proj", "up_proj"]}],
    "qwen2": [{}],
    "gemma2": [{}],
    "gpt2": [{}, {"targets": ["c_proj", "c_fc"]}],
}
PROMPT_CASES = {family: [{"virtual_tokens": 6}] for family in MODELS}
PROMPT_TEXT = "the words of a text"
ENCODER_CASES = {family: [{"encoder": "mlp", "hidden": 24, "layers": 2, "virtual_tokens": 6}, {"encoder": "lstm", "hidden": 16, "layers": 2, "virtual_tokens": 6}]
                 for family in MODELS}


KINDS = {"rank": "lora", "encoder": "p_tuning", "virtual_tokens": "prompt"}


def write_examples(path, text):
    lines = [line.strip() for line in pathlib.Path(text).read_text(errors="ignore").splitlines() if len(line.split()) >= 8]
    with open(path, "w") as file:
        for line in lines[100:100 + EXAMPLES]:
            words = line.split()[:14]
            cut = len(words) // 2
            file.write(json.dumps({"prompt": " ".join(words[:cut]), "completion": " " + " ".join(words[cut:])}) + "\n")


def write_pairs(path, text):
    """Four words of a line: how it goes on was chosen, how another does rejected."""
    lines = [line.split() for line in pathlib.Path(text).read_text(errors="ignore").splitlines() if len(line.split()) >= 8]
    with open(path, "w") as file:
        for own, other in zip(lines[200:200 + EXAMPLES], lines[300:]):
            file.write(json.dumps({"prompt": " ".join(own[:4]), "chosen": " " + " ".join(own[4:8]), "rejected": " " + " ".join(other[4:8])}) + "\n")


def encoded(tokenizer, prompt, answer):
    """(ids, first learned). The token that ends a text stands behind it unless it ends with that one anyway."""
    whole, before = tokenizer.encode(prompt + answer).ids, tokenizer.encode(prompt).ids
    same = next((i for i, (a, b) in enumerate(zip(before, whole)) if a != b), len(before))
    return whole + [VOCABULARY - 1] * (whole[-1] != VOCABULARY - 1), same


def read_examples(path, tokenizer_file):
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
    for line in map(json.loads, path.read_text().splitlines()):
        yield encoded(tokenizer, line["prompt"], line["completion"])


def read_pairs(path, tokenizer_file):
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
    for line in map(json.loads, path.read_text().splitlines()):
        yield encoded(tokenizer, line["prompt"], line["chosen"]), encoded(tokenizer, line["prompt"], line["rejected"])


def batch_of(examples):
    """Ids, and of each what follows it where that is learned: rows filled at their ends, which causal attention does not see."""
    length = max(len(ids) for ids, _ in examples) - 1
    rows = torch.zeros(len(examples), length, dtype=torch.long)
    targets = torch.full((len(examples), length), -100)
    for row, target, (ids, first) in zip(rows, targets, examples):
        begin = max(first, 1) - 1
        row[:len(ids) - 1] = torch.tensor(ids[:-1])
        target[begin:len(ids) - 1] = torch.tensor(ids[begin + 1:])
    return rows, targets


def text_logits(model, ids):
    """Of the text's tokens, not of virtual ones before them."""
    return model(input_ids=ids).logits[:, -ids.shape[1]:]


def answers_loss(model, examples):
    """All examples in every step: the mean over what is learned."""
    rows, targets = batch_of(examples)
    return lambda: torch.nn.functional.cross_entropy(text_logits(model, rows).flatten(0, 1), targets.flatten())


class PreferenceLoss:
    """All pairs in every step; the reference is the model as it is now, without an adapter that has changed nothing yet."""

    def __init__(self, model, pairs, beta, smoothing):
        self.model, self.beta, self.smoothing, self.margins = model, beta, smoothing, []
        self.rows, self.targets = batch_of([answer for pair in pairs for answer in pair])
        with torch.no_grad():
            self.reference = self.log_probabilities()

    def log_probabilities(self):
        """Of every answer: chosen, rejected, chosen, ..."""
        all_of = torch.log_softmax(text_logits(self.model, self.rows), -1)
        learned = self.targets >= 0
        return (all_of.gather(-1, self.targets.clamp(min=0).unsqueeze(-1)).squeeze(-1) * learned).sum(-1)

    def __call__(self):
        rewards = self.beta * (self.log_probabilities() - self.reference)
        margin = rewards[0::2] - rewards[1::2]
        self.margins.append(margin.mean().item())
        log_sigmoid = torch.nn.functional.logsigmoid
        return -((1 - self.smoothing) * log_sigmoid(margin) + self.smoothing * log_sigmoid(-margin)).mean()


def trained(model, loss_of, rate, beta1, dtype):
    """Losses of the steps; the model is changed. And what makes them: loss_of(model)."""
    model = model.to(dtype)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=rate, betas=(beta1, 0.999), eps=1e-8, weight_decay=0)
    step_loss = loss_of(model)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = step_loss()
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    return losses, step_loss


def opened(folder):
    return copy.deepcopy(transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)).eval()


def factors_of(model):
    """Of what trains, as the file calls it."""
    return {name.replace("magnitude_vector.default.weight", "magnitude_vector").replace(".default", "")
            .replace("prompt_encoder.embedding.weight", "prompt_embeddings"): p.detach().double()
            for name, p in model.named_parameters() if p.requires_grad}


def parameters_of(model):
    return {name: p.detach().double() for name, p in model.named_parameters()}


def distance(a, exact):
    """Root of the sum of squares over all tensors, relative to their size."""
    return math.sqrt(sum(((a[name] - exact[name]) ** 2).sum().item() for name in exact) /
                     sum((exact[name] ** 2).sum().item() for name in exact))


def apart(a, exact):
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, exact)) / len(exact))


def rows_of(model):
    if model.peft_config["default"].inference_mode:  # read from a folder: the rows alone, without what made them
        return {"prompt_embeddings": model.prompt_encoder["default"].embedding.weight.detach().double()}
    return {"prompt_embeddings": model.get_prompt_embedding_to_save("default").double()}


class Distances:
    """From float64, by what is compared; of one seed each."""

    def __init__(self):
        self.ours, self.theirs, self.fallen, self.read, self.defaults = {}, {}, [], [], []

    def add(self, what, ours, theirs):
        self.ours.setdefault(what, []).append(ours)
        self.theirs.setdefault(what, []).append(theirs)

    def take(self, other):
        for what, ours in other.ours.items():
            self.ours.setdefault(what, []).extend(ours)
            self.theirs.setdefault(what, []).extend(other.theirs[what])
        self.fallen += other.fallen

    def judge(self, checks, name):
        for what, ours in self.ours.items():
            ratios = [a / b for a, b in zip(ours, self.theirs[what])]
            mean = statistics.geometric_mean(ratios)
            checks.expect(f"{name}: {what}", mean <= BOUND, f"ratio {mean:.2f} ({' '.join(f'{ratio:.2f}' for ratio in ratios)}); "
                          f"in float32 there {statistics.median(self.theirs[what]):.2e}")
        # What is compared is far more than what it is compared to.
        least, most = min(self.fallen), BOUND * statistics.median(self.theirs["losses"])
        checks.expect(f"{name}: it learned", least > 1000 * most, f"losses fall by {least:.3f} at least, {least / most:.0f} times what they may differ by")
        if self.read:
            checks.expect(f"{name}: read by peft", max(self.read) < 1e-4, f"{max(self.read):.1e}")
        if self.defaults:
            checks.expect(f"{name}: what peft takes", all(self.defaults))


class Tuning:
    """One model, and what is tuned of it."""

    def __init__(self, program, folder, family, text, seed):
        self.program, self.folder, self.seed = program, folder, seed
        self.base = folder / "base"
        torch.manual_seed(seed)
        config = transformers.AutoConfig.for_model(family, **MODELS[family])
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(self.base)
        run(program, "tokenizer", "train", "--input", text, "--vocab-size", VOCABULARY, "--output", self.base / "tokenizer.json")
        self.data, self.preferences = folder / "examples.jsonl", folder / "pairs.jsonl"
        write_examples(self.data, text)
        write_pairs(self.preferences, text)
        self.examples = list(read_examples(self.data, self.base / "tokenizer.json"))
        self.pairs = list(read_pairs(self.preferences, self.base / "tokenizer.json"))
        self.recipe = folder / "recipe.yaml"
        # Every example is a sample of its own, and a step has them all.
        self.length = length = max(len(ids) for ids, _ in self.examples) - 1
        half = min(len(ids) for ids, _ in self.examples) - 1
        assert 2 * half > length, "examples of unlike lengths are packed"
        self.recipe.write_text(f"""
tune: {{model: {self.base}, data: {self.data}}}
train: {{steps: {STEPS}, sequence_length: {length}, global_batch: {EXAMPLES}, micro_batch: 4}}
optimizer: {{schedule: constant, beta2: 0.999, weight_decay: 0, clip: 0}}
run: {{threads: 1, seed: {seed}}}
""")

    def tune(self, out, method, **settings):
        settings = {"tune__method": method, "optimizer__lr": RATES[method], "optimizer__beta1": BETA1} | settings
        words = [word for key, value in settings.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
        last, = run(self.program, "tune", self.recipe, "--set", f"run.out={self.folder / out}", *words)
        return [float.fromhex(json.loads(line)["loss_hex"]) for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()]

    def compare(self, method, ours, our_weights, make, get, distances):
        self.compare_loss(lambda model: answers_loss(model, self.examples), (RATES[method], BETA1), ours, our_weights, make, get, distances)

    def compare_loss(self, loss_of, rates, ours, our_weights, make, get, distances):
        """What made the losses there, in float64 and in float32."""
        exact, plain = make(), make()
        with in_double(exact.double()):
            exact_losses, exact_loss = trained(exact, loss_of, *rates, torch.float64)
        plain_losses, plain_loss = trained(plain, loss_of, *rates, torch.float32)
        distances.add("losses", apart(ours, exact_losses), apart(plain_losses, exact_losses))
        distances.add("weights", distance(our_weights, get(exact)), distance(get(plain), get(exact)))
        distances.fallen.append(exact_losses[0] - exact_losses[-1])
        return exact_loss, plain_loss

    def prefer(self, method, case, distances):
        """Pairs of answers, each a sample of its own."""
        beta, smoothing = case
        lengths = [len(chosen[0]) + len(rejected[0]) - 2 for chosen, rejected in self.pairs]
        assert 2 * min(lengths) > max(lengths), "pairs of unlike lengths are packed"
        out = f"dpo-{method}-{beta}"
        settings = {"tune__objective": "dpo", "tune__data": self.preferences, "tune__beta": beta, "tune__label_smoothing": smoothing,
                    "train__sequence_length": max(lengths), "optimizer__lr": PREFERENCE_RATES[method]}
        loss_of = lambda model: PreferenceLoss(model, self.pairs, beta, smoothing)  # noqa: E731
        rates = PREFERENCE_RATES[method], BETA1
        if method == "lora":
            self.tune(out + "-start", method, **settings, train__steps=0)
            losses = self.tune(out, method, **settings)
            weights = safetensors.torch.load_file(self.folder / out / "adapter/adapter_model.safetensors")
            exact, plain = self.compare_loss(
                loss_of, rates, losses, {key: value.double() for key, value in weights.items()},
                lambda: peft.PeftModel.from_pretrained(opened(self.base), self.folder / f"{out}-start/adapter", is_trainable=True), factors_of, distances)
        else:
            losses = self.tune(out, method, **settings)
            run(self.program, "convert", "--from", self.folder / out, "--to", self.folder / f"{out}-hf", "--format", "hf")
            exact, plain = self.compare_loss(loss_of, rates, losses, parameters_of(opened(self.folder / f"{out}-hf")),
                                             lambda: opened(self.base).train(), parameters_of, distances)
        ours = [json.loads(line)["rewards/margins"] for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()]
        distances.add("margins", apart(ours, exact.margins), apart(plain.margins, exact.margins))

    def lora(self, case, distances):
        self.beside("lora", case["targets"], distances, tune__rank=case["rank"], tune__alpha=case["alpha"], tune__rslora=str(case.get("rslora", False)).lower(),
                    tune__dora=str(case.get("dora", False)).lower())

    def ia3(self, case, distances):
        names = self.beside("ia3", case.get("targets", []), distances)
        if "targets" not in case:
            taken = peft.get_peft_model(opened(self.base), peft.IA3Config(task_type="CAUSAL_LM"))
            distances.defaults.append(set(factors_of(taken)) == names)

    def prompt(self, case, distances):
        count = case["virtual_tokens"]

        def make(start):
            # peft does not go on with rows that it reads.
            rows = safetensors.torch.load_file(start / "adapter/adapter_model.safetensors")["prompt_embeddings"]
            model = peft.get_peft_model(opened(self.base), peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=len(rows)))
            with torch.no_grad():
                model.prompt_encoder["default"].embedding.weight.copy_(rows)
            return model

        self.beside("prompt", [], distances, make, tune__virtual_tokens=count, tune__prompt_init="text", tune__prompt_text=PROMPT_TEXT,
                    train__sequence_length=self.length + count)
        # They begin as peft's do.
        ids = tokenizers.Tokenizer.from_file(str(self.base / "tokenizer.json")).encode(PROMPT_TEXT).ids
        start = safetensors.torch.load_file(self.folder / "prompt-start/adapter/adapter_model.safetensors")["prompt_embeddings"]
        with torch.no_grad():
            rows = opened(self.base).get_input_embeddings()(torch.tensor((ids * count)[:count]))
        distances.defaults.append(torch.equal(start, rows))

    def p_tuning(self, case, distances):
        count = case["virtual_tokens"]
        config = peft.PromptEncoderConfig(task_type="CAUSAL_LM", num_virtual_tokens=count, encoder_reparameterization_type=case["encoder"].upper(),
                                          encoder_hidden_size=case["hidden"], encoder_num_layers=case["layers"])

        def make(start):
            # The checkpoint has the encoder, under the names of peft's.
            tensors = {}
            for file in (start / "checkpoints/step-00000000").glob("*.safetensors"):
                tensors |= safetensors.torch.load_file(file)
            model = peft.get_peft_model(opened(self.base), config)
            model.prompt_encoder["default"].load_state_dict({name.removeprefix("prompt."): tensor for name, tensor in tensors.items()
                                                             if name.startswith("prompt.") and name != "prompt.weight"})
            # What it makes of them is what is served.
            rows = safetensors.torch.load_file(start / "adapter/adapter_model.safetensors")["prompt_embeddings"]
            distances.defaults.append(torch.allclose(rows_of(model)["prompt_embeddings"].float(), rows, rtol=1e-5, atol=1e-6))
            return model

        layers = {"tune__encoder_layers": case["layers"]} if case["encoder"] == "lstm" else {}
        self.beside("p_tuning", [case["encoder"]], distances, make, rows_of, tune__virtual_tokens=count, tune__encoder=case["encoder"],
                    tune__encoder_hidden=case["hidden"], train__sequence_length=self.length + count, **layers)

    def beside(self, method, targets, distances, make=None, get=factors_of, **settings):
        """What trains beside the weights; names of its tensors. `make`: from the folder of a run that has not begun."""
        out = "-".join([method, *targets, *(["dora"] if settings.get("tune__dora") == "true" else [])])
        if targets and make is None:
            settings["tune__targets"] = f"[{', '.join(targets)}]"
        self.tune(out + "-start", method, **settings, train__steps=0)
        losses = self.tune(out, method, **settings)

        def begun():
            start = self.folder / f"{out}-start"
            return make(start) if make else peft.PeftModel.from_pretrained(opened(self.base), start / "adapter", is_trainable=True)

        result = safetensors.torch.load_file(self.folder / out / "adapter/adapter_model.safetensors")
        self.compare(method, losses, {key: value.double() for key, value in result.items()}, begun, get, distances)
        # What is written opens in peft, and says there what it says here.
        model = peft.PeftModel.from_pretrained(opened(self.base), self.folder / out / "adapter").eval()
        ids = self.examples[0][0]
        with torch.no_grad():
            theirs = torch.log_softmax(text_logits(model, torch.tensor([ids]))[0].double(), -1)
        line = self.folder / "line.jsonl"
        line.write_text(json.dumps({"ids": ids}) + "\n")
        ours, = run(self.program, "evaluate", "score", "--checkpoint", self.base, "--adapter", self.folder / out / "adapter", "--input", line)
        distances.read.append(max(abs(a - theirs[i, ids[i + 1]].item()) for i, a in enumerate(ours["logprobs"])))
        return set(result)

    def full(self, distances):
        losses = self.tune("full", "full")
        hf = self.folder / "full-hf"
        run(self.program, "convert", "--from", self.folder / "full", "--to", hf, "--format", "hf")
        self.compare("full", losses, parameters_of(opened(hf)), lambda: opened(self.base).train(), parameters_of, distances)


def name_of(case):
    if "encoder" in case:
        return f"p-tuning by an {case['encoder']} of {case['hidden']}"
    if "virtual_tokens" in case:
        return f"prompt of {case['virtual_tokens']}"
    if "rank" not in case:
        return f"ia3 {','.join(case.get('targets', ['by default']))}"
    return f"{'dora' if case.get('dora') else 'lora'} {','.join(case['targets'])} rank {case['rank']}{' rslora' if case.get('rslora') else ''}"


def main():
    arguments = model_arguments(__doc__, TEXT, ("family", {"nargs": "*", "help": "default: all"}))
    checks = Checks()
    for family in arguments.family or MODELS:
        cases = CASES[family] + IA3_CASES[family] + PROMPT_CASES[family] + ENCODER_CASES[family]
        of_case, of_full = [Distances() for _ in cases], Distances()
        preferred = {(method, case): Distances() for method in PREFERENCE_RATES for case in PREFERENCES}
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                tuning = Tuning(arguments.megalith, pathlib.Path(folder), family, arguments.text, seed)
                for case, distances in zip(cases, of_case):
                    kind = next((kind for key, kind in KINDS.items() if key in case), "ia3")
                    getattr(tuning, kind)(case, distances)
                tuning.full(of_full)
                for (method, case), distances in preferred.items():
                    tuning.prefer(method, case, distances)
        for case, distances in zip(cases, of_case):
            distances.judge(checks, f"{family}, {name_of(case)}")
        of_full.judge(checks, f"{family}, full")
        for (method, (beta, smoothing)), distances in preferred.items():
            distances.judge(checks, f"{family}, dpo {method}, beta {beta}, smoothing {smoothing}")
    raise SystemExit(checks.exit_code())


if __name__ == "__main__":
    main()
