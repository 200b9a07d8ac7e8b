#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters and learned vectors that peft made, beside the weights and merged into them, compared with peft.

Read:     random adapters on random models of several families, whose projections are fused here, there or in both: log
          probabilities (of an encoder its masked tokens'); the root mean square error against float64 is at most 1.5 times that
          of peft in float32; without the adapter they are others
Layouts:  the same bits on two tensor ranks and on two stages
Merged:   convert --merge-adapter: every tensor is that of peft's merge_and_unload() in float64 but for one rounding, and the
          folder scores as near as the adapter
Refused:  what an adapter can be and has no code here is an error that names it

    adapters_oracle.py --megalith build/release/megalith
"""
import copy
import json
import math
import pathlib
import subprocess
import tempfile

import peft
import safetensors.torch
import torch
import transformers

from comparison import Checks, model_arguments, run, summary
from decoder_folders import BOUND, VOCABULARY, in_double

SIZES = {"vocab_size": VOCABULARY, "max_position_embeddings": 96}
GROUPED = SIZES | {"hidden_size": 40, "intermediate_size": 52, "num_hidden_layers": 3, "num_attention_heads": 4,
                   "num_key_value_heads": 2}
PLAIN = SIZES | {"hidden_size": 40, "intermediate_size": 52, "num_hidden_layers": 3, "num_attention_heads": 4}
MODELS = {
    "llama": GROUPED,
    "qwen2": GROUPED,
    "phi3": GROUPED | {"pad_token_id": 0},
    "gemma2": GROUPED | {"head_dim": 12},
    "gpt_neox": PLAIN,
    "gpt2": {"vocab_size": VOCABULARY, "n_positions": 96, "n_embd": 40, "n_layer": 3, "n_head": 4},
    "t5": {"vocab_size": VOCABULARY, "d_model": 40, "num_heads": 4, "d_kv": 12, "d_ff": 52, "num_layers": 3, "pad_token_id": 0,
           "eos_token_id": 1, "decoder_start_token_id": 0},
    "bert": PLAIN,
}
# Of the family, in what its adapters differ; those without a rank are of learned vectors (IA3).
ADAPTERS = {
    "llama": {
        "of queries and values": {"target_modules": ["q_proj", "v_proj"], "r": 4, "lora_alpha": 8},
        "of all products": {"target_modules": "all-linear", "r": 5, "lora_alpha": 3},
        "rank-stabilised, by an expression": {"target_modules": r".*layers\.[02]\..*(q|o|up|down)_proj", "r": 6, "lora_alpha": 5,
                                              "use_rslora": True},
        "with ranks and alphas of some": {"target_modules": ["q_proj", "k_proj", "v_proj", "gate_proj", "down_proj"], "r": 4,
                                          "lora_alpha": 8, "rank_pattern": {"q_proj": 7, r"layers\.1\..*down_proj": 2},
                                          "alpha_pattern": {"^model.layers.0.self_attn.v_proj": 3, "gate_proj": 20}},
        "of some layers, but for some modules": {"target_modules": ["q_proj", "o_proj", "up_proj"], "r": 20, "lora_alpha": 16,
                                                 "layers_to_transform": [0, 2], "exclude_modules": r".*2\.self_attn\.o_proj"},
        "vectors": {},
        "vectors, by expressions": {"target_modules": r".*layers\.[02]\..*(q|o|up|down)_proj", "feedforward_modules": r".*\.(o|down)_proj"},
    },
    "qwen2": {"of all products": {"target_modules": "all-linear", "r": 4, "lora_alpha": 8}, "vectors": {},
              "with magnitudes": {"target_modules": ["q_proj", "v_proj", "gate_proj", "down_proj"], "r": 4, "lora_alpha": 8, "use_dora": True}},
    "phi3": {"of fused products": {"target_modules": ["qkv_proj", "gate_up_proj", "o_proj", "down_proj"], "r": 4, "lora_alpha": 8},
             "vectors of fused products": {"target_modules": ["qkv_proj", "gate_up_proj", "o_proj", "down_proj"],
                                           "feedforward_modules": ["o_proj", "down_proj"]}},
    "gemma2": {"of all products": {"target_modules": "all-linear", "r": 4, "lora_alpha": 8}, "vectors": {}},
    "gpt_neox": {"of all products": {"target_modules": ["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"], "r": 4,
                                     "lora_alpha": 8}, "vectors": {}},
    "gpt2": {
        "of the fused product": {"target_modules": ["c_attn"], "r": 4, "lora_alpha": 8, "fan_in_fan_out": True},
        "of all products": {"target_modules": ["c_attn", "c_proj", "c_fc"], "r": 3, "lora_alpha": 8, "fan_in_fan_out": True},
        "with magnitudes": {"target_modules": ["c_attn", "c_proj", "c_fc"], "r": 3, "lora_alpha": 8, "fan_in_fan_out": True, "use_dora": True},
        "vectors": {"fan_in_fan_out": True},
    },
    "t5": {
        "of queries and values": {"target_modules": ["q", "v"], "r": 4, "lora_alpha": 8},
        "of all products": {"target_modules": ["q", "k", "v", "o", "wi", "wo"], "r": 4, "lora_alpha": 8},
        "vectors": {},
    },
    "bert": {"of attention and the inner product": {"target_modules": ["query", "key", "value", "intermediate.dense"], "r": 4,
                                                    "lora_alpha": 8}, "vectors": {}},
}
CLASSES = {"t5": transformers.AutoModelForSeq2SeqLM, "bert": transformers.AutoModelForMaskedLM}
MASK = 3
RENAMED = {"embed_out.weight": "lm_head.weight"}  # what the class calls it since transformers 5
REFUSED = {"bias": {"bias": "lora_only"}, "modules_to_save": {"modules_to_save": ["lm_head"]},
           "init_lora_weights": {"init_lora_weights": "pissa"}, "lora_bias": {"lora_bias": True}}


def class_of(family):
    return CLASSES.get(family, transformers.AutoModelForCausalLM)


def random_model(folder, family):
    torch.manual_seed(3)
    model = class_of(family).from_config(transformers.AutoConfig.for_model(family, **MODELS[family])).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:
                weight.add_(torch.randn_like(weight) * 0.2)
            elif family == "t5":
                weight.copy_(torch.randn_like(weight) * 0.2)
    model.save_pretrained(folder)


def opened(folder, family):
    return copy.deepcopy(class_of(family).from_pretrained(folder)).eval()


def random_adapter(folder, base, family, settings):
    """Factors of which neither is zero, as the second is at the start; vectors around one."""
    torch.manual_seed(5)
    model = peft.get_peft_model(opened(base, family), (peft.LoraConfig if "r" in settings else peft.IA3Config)(**settings))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_" in name or "ia3_" in name:
                weight.copy_(torch.randn_like(weight) * 0.2 + (1 if "ia3_" in name else 0))
    model.save_pretrained(folder)


def adapted(base, adapter, family):
    return peft.PeftModel.from_pretrained(opened(base, family), adapter).eval()


def random_lines(family):
    generator = torch.Generator().manual_seed(1)
    lengths = [2, 9, 24, 40] if family == "bert" else [2, 17, 64, 64, 64, 90]

    def ids(n):
        return torch.randint(4, VOCABULARY, (n,), generator=generator).tolist()

    return [{"ids": ids(n)} | ({"target_ids": ids(n)} if family == "t5" else {}) for n in lengths]


def logprobs_of(model, family, lines):
    rows = []
    for line in lines:
        ids = torch.tensor([line["ids"]])
        with torch.no_grad():
            if family == "t5":
                ids, logits = torch.tensor([line["target_ids"]]), model(input_ids=ids, labels=torch.tensor([line["target_ids"]])).logits
            elif family == "bert":
                n = ids.shape[1]
                masked = ids.repeat(n, 1)
                masked[range(n), range(n)] = MASK
                logits = model(input_ids=masked).logits[range(n), range(n)][None]
            else:
                logits, ids = model(input_ids=ids).logits[:, :-1], ids[:, 1:]
        rows.append(torch.log_softmax(logits[0], -1).gather(1, ids[0][:, None])[:, 0].double())
    return torch.cat(rows)


def scored(program, checkpoint, family, file, *options):
    masked = ["--masked", "--mask-id", MASK] if family == "bert" else []
    answers = run(program, "evaluate", "score", "--checkpoint", checkpoint, "--input", file, "--threads", 1, *masked, *options)
    return torch.tensor([value for answer in answers for value in answer["logprobs"]], dtype=torch.float64)


def compare_merged(checks, name, program, family, base, adapter, merged, true, narrow, file):
    answer = run(program, "convert", "--from", base, "--to", merged, "--merge-adapter", adapter)[0]
    double = adapted(base, adapter, family).double().merge_and_unload().state_dict()
    ours = safetensors.torch.load_file(merged / "model.safetensors")
    worst = ""
    for key, tensor in ours.items():
        expected = double[RENAMED.get(key, key)]
        # One rounding of the factor with its scale and one of the sum.
        bound = 2 ** -23 * expected.abs() + 2 ** -22
        if not bool(((tensor.double() - expected).abs() <= bound).all()):
            worst = f"{key} differs by {float((tensor.double() - expected).abs().max()):.1e}"
    checks.expect(f"{name}: merged tensors", not worst, worst or f"{len(ours)}")
    found = scored(program, merged, family, file)
    error = math.sqrt(float(((found - true) ** 2).mean()))
    checks.expect(f"{name}: merged, log probabilities", error <= BOUND * narrow, f"rms {error:.2e}, peft in float32 {narrow:.2e}; "
                  f"the program's own check says {answer['merge_difference']:.1e}")


def compare_adapter(checks, name, program, family, base, settings, folder):
    folder.mkdir()
    adapter, file = folder / "adapter", folder / "lines.jsonl"
    try:
        random_adapter(adapter, base, family, settings)
        lines = random_lines(family)
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        model = adapted(base, adapter, family)
        double = adapted(base, adapter, family).double()
        with in_double(double):
            true = logprobs_of(double, family, lines)
        found, first = scored(program, base, family, file, "--adapter", adapter), logprobs_of(model, family, lines)
        error, narrow = (math.sqrt(float(((x - true) ** 2).mean())) for x in (found, first))
        moved = math.sqrt(float(((scored(program, base, family, file) - true) ** 2).mean()))
        checks.expect(f"{name}: {len(true)} log probabilities", error <= BOUND * narrow and moved > 1000 * error,
                      f"rms {error:.2e}, peft in float32 {narrow:.2e}, ratio {error / narrow:.2f}; without the adapter {moved:.1e}")
        for layout in ("parallel.tensor=2", "parallel.pipeline=2"):
            again = scored(program, base, family, file, "--adapter", adapter, "--ranks", 2, "--set", layout)
            checks.expect(f"{name}: the same bits with {layout}", torch.equal(again, found))
        compare_merged(checks, name, program, family, base, adapter, folder / "merged", true, narrow, file)
        return error, narrow
    except SystemExit as refusal:  # of the program, with its message
        checks.expect(name, False, str(refusal))
        return None


def compare_refusals(checks, program, base, folder):
    for key, settings in REFUSED.items():
        adapter = folder / key
        random_adapter(adapter, base, "llama", {"target_modules": ["q_proj"], "r": 2, "lora_alpha": 2} | settings)
        named = subprocess.run([program, "evaluate", "score", "--checkpoint", base, "--adapter", adapter, "--input", folder / "ids.jsonl"],
                               capture_output=True, text=True, check=False)
        checks.expect(f"{key} is refused by name", named.returncode == 2 and key in named.stderr,
                      named.stderr.strip()[-200:])


def main():
    args = model_arguments(__doc__)
    checks, errors = Checks(), {}
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        for family, adapters in ADAPTERS.items():
            base = root / family
            random_model(base, family)
            for number, (name, settings) in enumerate(adapters.items()):
                pair = compare_adapter(checks, f"{family}, {name}", args.megalith, family, base, settings, root / f"{family}-{number}")
                if pair:
                    errors.setdefault(family, []).append(pair)
        refused = root / "refused"
        refused.mkdir()
        (refused / "ids.jsonl").write_text('{"ids": [1, 2]}\n')
        compare_refusals(checks, args.megalith, root / "llama", refused)
    for family, pairs in errors.items():
        print(summary(family, pairs))
    return checks.exit_code()


if __name__ == "__main__":
    raise SystemExit(main())
