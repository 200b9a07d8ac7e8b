# SPDX-License-Identifier: Apache-2.0
"""A training step of a model of torch_models.py in PyTorch at its best: fused AdamW, clipping, f32 or bf16 autocast, eager or
torch.compile. Prints one JSON line per step: {"name", "value", "unit"} in tokens/s.

Same shapes as the recipes. With --lengths sequences are padded to the longest of their batch, rounded up to a multiple of 64 so
that torch.compile sees few shapes; tokens of padding count as none. Of T5 the tokens that the encoder reads count."""
import argparse
import json
import time

import torch

from torch_models import Bert, Gpt2, Llama, T5


def make_model(a):
    heads, head_dim = a.heads, a.head_dim or a.hidden // a.heads
    if a.family == "llama":
        return Llama(a.vocab, a.layers, a.hidden, heads, a.kv_heads or heads, a.ffn, a.context)
    if a.family == "t5":
        return T5(a.vocab, a.layers, a.hidden, heads, head_dim, a.ffn)
    return (Bert if a.family == "bert" else Gpt2)(a.vocab, a.layers, a.hidden, heads, a.context)


def masked_batch(a, lengths):
    """`lengths`: of the sequences; or nothing, all are of the context."""
    longest = -(-max(lengths) // 64) * 64 if lengths else a.context
    ids = torch.randint(a.vocab, (a.micro_batch, longest))
    rows = lengths or [longest] * a.micro_batch
    places = [row * longest + torch.randperm(n)[:max(1, round(a.predicted * n))] for row, n in enumerate(rows)]
    places = torch.cat(places)
    # As many in every batch, so that shapes of torch.compile stay: some are predicted twice.
    if lengths:
        most = a.micro_batch * round(a.predicted * longest)
        places = places[torch.arange(most) % len(places)]
    batch = [ids, places, torch.randint(a.vocab, places.shape)]
    return batch + ([torch.tensor(lengths)] if lengths else [])


def batches(a):
    """[(what the model is called with, tokens that count)] of a step."""
    made = []
    lengths = [min(n, a.context) for n in json.load(open(a.lengths))] if a.lengths else []
    for number in range(a.micro_batches):
        if a.family == "bert":
            own = lengths[number * a.micro_batch:][:a.micro_batch]
            made.append((masked_batch(a, own), sum(own) or a.micro_batch * a.context))
        elif a.family == "t5":
            ids, (decoder_ids, targets) = torch.randint(a.vocab, (a.micro_batch, a.context)), torch.randint(
                a.vocab, (2, a.micro_batch, a.decoder_context))
            made.append(((ids, decoder_ids, targets), ids.numel()))
        else:
            ids, targets = torch.randint(a.vocab, (2, a.micro_batch, a.context))
            made.append(((ids, targets), targets.numel()))
    return made


def main():
    p = argparse.ArgumentParser()
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50304), ("context", 1024),
                          ("micro-batch", 4), ("micro-batches", 1), ("warm-up", 2), ("samples", 5)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--family", choices=("gpt2", "llama", "bert", "t5"), default="gpt2")
    p.add_argument("--kv-heads", type=int, help="llama; as many as heads unless given")
    p.add_argument("--ffn", type=int, help="llama and t5")
    p.add_argument("--head-dim", type=int, help="t5; hidden / heads unless given")
    p.add_argument("--decoder-context", type=int, default=114, help="t5: tokens of a target")
    p.add_argument("--predicted", type=float, default=0.15, help="bert: part of the tokens")
    p.add_argument("--lengths", help="bert: a JSON list of the lengths of sequences")
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    p.add_argument("--compile", action="store_true")
    a = p.parse_args()
    name = f"torch.{a.dtype}.{'compile' if a.compile else 'eager'}"
    torch.manual_seed(1)
    torch.set_num_threads(a.threads)
    model = make_model(a)
    run = torch.compile(model) if a.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    data = batches(a)

    def step():
        for batch, _ in data:
            with torch.autocast("cpu", torch.bfloat16, enabled=a.dtype == "bf16"):
                loss = run(*batch)
            (loss / len(data)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(a.warm_up):  # and compiles
        step()
    for _ in range(a.samples):
        begin = time.monotonic()
        step()
        rate = sum(tokens for _, tokens in data) / (time.monotonic() - begin)
        print(json.dumps({"name": name, "value": rate, "unit": "tokens/s"}), flush=True)
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(json.dumps({"name": f"{name}.peak_resident", "value": peak / 2**20, "unit": "GiB"}), flush=True)


if __name__ == "__main__":
    main()
