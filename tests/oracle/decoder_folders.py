# SPDX-License-Identifier: Apache-2.0
"""Folders of decoders that transformers made, in and out of the program: for any family."""
import contextlib
import copy
import json
import math

import safetensors.torch
import torch
import transformers

from comparison import run

BOUND = 1.5
VOCABULARY = 131
LENGTHS = [1, 2, 17] + [64] * 8


def random_model(folder, config, dtype=torch.float32, **saving):
    """Weights so large that positions and every part matter to the logits."""
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:  # biases and norms too, which start at 0 and 1
                weight.add_(torch.randn_like(weight) * 0.2)
    model.to(dtype).save_pretrained(folder, **saving)


def norm_in_double(self, x):
    """Gemma's weights stand beside 1. T5's norms are of this kind, whatever they are called."""
    eps = getattr(self, "variance_epsilon", None) or self.eps
    weight = 1 + self.weight if type(self).__name__.startswith("Gemma") else self.weight
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


@contextlib.contextmanager
def in_double(model):
    """transformers computes norms, and the softmax of attention where it has a cap, in float32 whatever the model's
    type; not in a float64 reference."""
    norms = {type(module) for module in model.modules()
             if type(module).__name__.endswith("RMSNorm") or hasattr(module, "variance_epsilon")}
    narrow = {norm: norm.forward for norm in norms}
    softmax = torch.nn.functional.softmax
    for norm in norms:
        norm.forward = norm_in_double
    torch.nn.functional.softmax = lambda x, dim, dtype=None: softmax(x, dim=dim)
    try:
        yield
    finally:
        for norm, forward in narrow.items():
            norm.forward = forward
        torch.nn.functional.softmax = softmax


def opened(folder, dtype="auto"):
    """And what did not fit. Copied: products round as their operands' addresses let them, and those of a
    mapped file are as its header makes them. Opened in its type, as to(bfloat16) and back would round what
    is not a weight too: frequencies, and Gemma's scale of embeddings."""
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    faults = [key for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if loading[key]]
    return copy.deepcopy(model).eval(), faults


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


def logprobs_of(model, lines):
    """log p(ids[i + 1] | ids[..i]) of every line, one after the other, in the type of the model's weights."""
    parts = [torch.log_softmax(logits_of(model, ids)[:-1], -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
             for ids in lines if len(ids) > 1]
    return torch.cat(parts).double()


def scored(program, checkpoint, lines, file, *options):
    file.write_text("".join(json.dumps({"ids": ids}) + "\n" for ids in lines))
    answers = run(program, "evaluate", "score", "--checkpoint", checkpoint, "--input", file, "--threads", 1, *options)
    assert [len(answer["logprobs"]) for answer in answers] == [len(ids) - 1 for ids in lines]
    return torch.tensor([value for answer in answers for value in answer["logprobs"]], dtype=torch.float64)


def random_lines(context, vocabulary=VOCABULARY):
    generator = torch.Generator().manual_seed(1)
    lengths = LENGTHS + ([context] * 4 if context > 64 else [])
    return [torch.randint(vocabulary, (n,), generator=generator).tolist() for n in lengths]


def compare_scores(checks, name, program, checkpoint, model, folder):
    """Of every length up to the context. bf16 weights are read into float32 by both."""
    lines = random_lines(model.config.max_position_embeddings, model.config.vocab_size)
    ours = scored(program, checkpoint, lines, folder / "ids.jsonl")
    theirs = logprobs_of(copy.deepcopy(model).float(), lines)
    double = copy.deepcopy(model).double()
    with in_double(double):
        true = logprobs_of(double, lines)

    def rms(x):
        return math.sqrt(float(((x - true) ** 2).mean()))

    def most(x):
        return float((x - true).abs().max())

    checks.expect(f"{name}: log probabilities", rms(ours) <= BOUND * rms(theirs),
                  f"rms {rms(ours):.2e}, transformers in float32 {rms(theirs):.2e}, ratio {rms(ours) / rms(theirs):.2f}; "
                  f"largest {most(ours):.1e} and {most(theirs):.1e}; {len(true)} of mean {float(true.mean()):.2f}")
    return ours, lines, (rms(ours), rms(theirs))


def tensors_of(folder):
    """Name: (type, shape, bytes) of every tensor in the folder."""
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        for name, tensor in safetensors.torch.load_file(file).items():
            found[name] = (tensor.dtype, tuple(tensor.shape), tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return found


def compare_round_trip(checks, name, program, theirs, model, scores, lines, folder):
    """To a megalith folder and back: the same tensors, to the bit, and a configuration that means the same."""
    middle, back = folder / "middle", folder / "back"
    run(program, "convert", "--from", theirs, "--to", middle, "--format", "megalith")
    run(program, "convert", "--from", middle, "--to", back, "--format", "hf")
    before, after = tensors_of(theirs), tensors_of(back)
    differ = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    checks.expect(f"{name}: there and back, to the bit", not differ, f"{len(after)} tensors{' but ' if differ else ''}"
                  + ", ".join(differ))
    again = scored(program, middle, lines, folder / "ids.jsonl")
    checks.expect(f"{name}: the megalith folder scores the same bits", torch.equal(again, scores))
    model_again, faults = opened(back)
    checks.expect(f"{name}, there and back: its class takes every tensor", not faults, ", ".join(faults))
    first = [logits_of(model, ids) for ids in lines]
    second = [logits_of(model_again, ids) for ids in lines]
    worst = max(float((a.float() - b.float()).abs().max()) for a, b in zip(first, second))
    checks.expect(f"{name}, there and back: logits of transformers, to the bit",
                  model.dtype == model_again.dtype and all(torch.equal(a, b) for a, b in zip(first, second)),
                  f"largest difference {worst:.1e}")


def compare_model(checks, name, program, config, folder, dtype=torch.float32, edit=None, **saving):
    folder.mkdir()
    try:
        random_model(folder / "theirs", config, dtype, **saving)
        if edit is not None:
            config = json.loads((folder / "theirs/config.json").read_text())
            edit(config)
            (folder / "theirs/config.json").write_text(json.dumps(config))
        model, _ = opened(folder / "theirs")
        wide, _ = opened(folder / "theirs", torch.float32)
        scores, lines, errors = compare_scores(checks, name, program, folder / "theirs", wide, folder)
        compare_round_trip(checks, name, program, folder / "theirs", model, scores, lines, folder)
        return errors
    except SystemExit as refusal:  # of the program, with its message
        checks.expect(name, False, str(refusal))
        return None
