#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files of a run, read by the libraries that define their formats.

safetensors  the Python library opens every file of a checkpoint, finds the tensors that the manifest
             lists, and writes the same tensors to the same bytes
SHA-256      state_sha256, worked out anew from those tensors, is what run.json says
TensorBoard  EventAccumulator finds the values of metrics.jsonl in the event file, each rounded to float32

    files_oracle.py --megalith build/release/megalith --text FILE
"""
import argparse
import hashlib
import json
import pathlib
import sys
import tempfile

import numpy
import safetensors
import safetensors.torch
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from comparison import Checks, make_corpus, train

# Tags are Megatron-LM's, so that its dashboards fit; the values are those of metrics.jsonl.
TAGS = {
    "lm loss": "loss", "learning-rate": "lr", "grad-norm": "grad_norm", "iteration-time": "step_seconds",
    "tokens-per-second": "tokens_per_second", "mfu": "mfu", "consumed-samples": "samples",
    "mem-max-allocated-bytes": "memory_bytes", "lm loss validation": "validation_loss",
}
OUR_TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float64: "f64", torch.int64: "i64"}


def recipe(prefix, tokenizer, out):
    return {
        "run": {"out": str(out), "name": "files"},
        "model": {"layers": 2, "hidden": 32, "heads": 2, "context": 32},
        "data": {"train": str(prefix), "tokenizer": str(tokenizer), "validation_fraction": 0.1},
        "train": {"steps": 6, "global_batch": 4, "micro_batch": 2, "validate_every": 3, "validate_samples": 4},
        "optimizer": {"lr": 1e-3, "schedule": "cosine", "warmup_steps": 2},
        "checkpoint": {"every": 3, "keep": 2},
    }


def tensor_bytes(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def check_checkpoint(checks, folder, state_sha256):
    manifest = json.loads((folder / "manifest.json").read_text())
    tensors, files = {}, sorted(folder.glob("*.safetensors"))
    for path in files:
        loaded = safetensors.torch.load_file(path)
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata()
        same = safetensors.torch.save(loaded, metadata) == path.read_bytes()
        checks.expect(f"safetensors writes {folder.name}/{path.name} to the same bytes", same,
                      f"{len(loaded)} tensors, {path.stat().st_size} bytes")
        tensors |= loaded
    listed = {t["name"]: (t["dtype"], list(t["shape"])) for t in manifest["tensors"]}
    read = {name: (OUR_TYPES[t.dtype], list(t.shape)) for name, t in tensors.items()}
    checks.expect(f"safetensors finds what the manifest of {folder.name} lists", bool(read) and read == listed,
                  f"{len(read)} of {len(listed)} tensors in {len(files)} files")
    digest = hashlib.sha256()
    for name in sorted(tensors, key=str.encode):
        dtype, shape = read[name]
        line = (name, dtype, ",".join(map(str, shape)), hashlib.sha256(tensor_bytes(tensors[name])).hexdigest())
        digest.update(("\t".join(line) + "\n").encode())
    checks.expect(f"state_sha256 of {folder.name} worked out anew",
                  digest.hexdigest() == manifest["state_sha256"] and state_sha256 in (None, digest.hexdigest()),
                  digest.hexdigest()[:16])


def check_events(checks, out, metrics):
    events = EventAccumulator(str(out), size_guidance={"scalars": 0})
    events.Reload()
    for tag, key in TAGS.items():
        expected = [(m["step"], float(numpy.float32(m[key]))) for m in metrics if key in m]
        read = [(e.step, e.value) for e in events.Scalars(tag)] if tag in events.Tags()["scalars"] else []
        checks.expect(f"TensorBoard reads {tag}", bool(read) and read == expected, f"{len(read)} steps")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megalith", required=True, help="the program")
    parser.add_argument("--text", required=True, help="a text file to train on")
    arguments = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix, tokenizer = make_corpus(arguments.megalith, arguments.text, folder, 400)
        for parameters in ("f32", "bf16"):
            out = folder / parameters
            precision = {"precision__parameters": parameters, "precision__compute": parameters, "run__out": out}
            metrics = train(arguments.megalith, folder / "recipe.yaml", recipe(prefix, tokenizer, out), **precision)
            last = json.loads((out / "run.json").read_text())["state_sha256"]
            steps = sorted((out / "checkpoints").glob("step-*"))
            checks.expect(f"{parameters}: checkpoints", len(steps) == 2, ", ".join(s.name for s in steps))
            for step in steps:
                check_checkpoint(checks, step, last if step == steps[-1] else None)
            check_events(checks, out, metrics)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
