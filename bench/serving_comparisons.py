# SPDX-License-Identifier: Apache-2.0
"""Servers: many requests at once to ours and to llama.cpp's, which have the same weights and the same client; and what a
server owes those it writes for: even gaps, known beginnings, a step that is the model's."""
import contextlib
import json
import subprocess

from quantised_comparisons import VOCAB, smollm2
from record import PEERS, ROOT


AT_ONCE = (1, 4, 8, 16, 32)


@contextlib.contextmanager
def started(r, command):
    """A server's process, and what it says in a first line."""
    r.say(command)
    process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, cwd=ROOT)
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def served(r, command):
    """The address of a server."""
    with started(r, command) as (_, ready):
        address = ready["http"]
        yield address if "://" in address else f"http://{address}"


def sides_of(r, model, at_once, context):
    ours = [r.megalith, "serve", "--checkpoint", model, "--name", "smollm2", "--dtype", "bf16", "--port", 0, "--max-batch", at_once,
            "--context", context, "--threads", r.threads, "--json"]
    sides = {"megalith": ours}
    if r.python:
        sides["llama.cpp"] = [r.python, PEERS / "llama_server.py", "--model", model, "--at-once", at_once, "--context", context, "--threads",
                              r.threads]
    return sides


def load_of(url, label, *more):
    return ["python3", PEERS / "completions_load.py", "--url", url, "--model", "smollm2", "--label", label, "--vocab", VOCAB, *more]


def serving(r):
    """Prompts of 64 to 512 tokens, 128 new ones, so many at once."""
    if not (model := smollm2(r)):
        return
    tokens, f16 = r.size(128, 8), smollm2(r, "f16")
    for at_once in AT_ONCE if not r.tiny else (1, 2):
        for side, command in sides_of(r, model, at_once, 704).items():
            with served(r, command) as url:
                for sample in range(r.size(6, 1)):
                    load = load_of(url, side, "--at-once", at_once, "--requests", max(2, at_once), "--tokens", tokens, "--seed", sample)
                    r.run("warm" if sample == 0 and not r.tiny else f"serving_{at_once}", load)
        # Without HTTP, all requests in one call; it reads no bf16 from this format, so half precision of the same size.
        r.peer(f"serving_{at_once}", "openvino_generate.py", "--model", f16, "--at-once", at_once, "--requests", max(2, at_once), "--tokens",
               tokens, "--vocab", VOCAB, "--samples", r.size(5, 1))
        r.rate(f"{at_once} requests at once", *(f"serving_{at_once}.{side}.output" for side in ("megalith", "llama.cpp", "openvino")))
    one, eight = r.median("serving_1.megalith.output"), r.median("serving_8.megalith.output")
    if one and eight:
        r.note(f"=> eight at once: {eight / one:.2f}x of one")


def late_prompt(r):
    """A prompt of 2,048 tokens arrives among eight streams."""
    if not (model := smollm2(r)):
        return
    for side, command in sides_of(r, model, 9, 3072).items():
        with served(r, command) as url:
            r.run("late_prompt", ["python3", PEERS / "late_prompt.py", "--url", url, "--model", "smollm2", "--label", side, "--vocab", VOCAB,
                                  "--prompt", r.size(2048, 600), "--rounds", r.size(6, 1)])
        name = f"late_prompt.{side}"
        if r.median(f"{name}.ratio"):
            r.note(f"=> a prompt of 2,048 tokens among eight streams, {side}: gaps of {r.median(f'{name}.alone'):.1f} ms before it, "
                   f"{r.median(f'{name}.reading'):.1f} ms while it is read, the longest {r.median(f'{name}.longest'):.1f} ms, "
                   f"{r.median(f'{name}.ratio'):.2f}x of it (at most {max(r.samples[f'{name}.ratio']):.2f}x)")


def shared_prefix(r):
    """16 requests one after the other that begin with the same 1,000 tokens, and 16 that share nothing."""
    if not (model := smollm2(r)):
        return
    ours = sides_of(r, model, 16, 1280)["megalith"]
    with served(r, ours) as url:
        for sample in range(r.size(6, 1)):
            for label, more in (("known", ("--shared", 1000, "--shortest", 16, "--longest", 16)), ("new", ("--shortest", 1016, "--longest", 1016))):
                # The first of those that share reads the beginning for all: its prompt is asked for before.
                load = load_of(url, label, "--at-once", 1, "--tokens", 8, "--seed", sample, *more)
                if label == "known":
                    r.run("warm", [*load, "--requests", 1])
                r.run("warm" if sample == 0 and not r.tiny else "prefix", [*load, "--requests", r.size(16, 2)])
    new, known = r.median("prefix.new.first_token"), r.median("prefix.known.first_token")
    if new and known:
        r.note(f"=> first token of a prompt whose first 1,000 tokens are known: {known:.1f} ms, {new / known:.1f}x sooner than of another "
               f"({new:.1f} ms)")


def server_step(r):
    """One stream's gap between tokens beside the engine's step in a process of its own, in turn."""
    if not (model := smollm2(r)):
        return
    ours = sides_of(r, model, 1, 704)["megalith"]
    for _ in range(r.size(6, 1)):
        r.bench("server_step", "decode", "--checkpoint", model, "--prompt", 64, "--tokens", r.size(256, 8), "--samples", 1,
                only=("decode.tokens_per_second",))
        with served(r, ours) as url:
            for label in ("warm", "server_step"):
                r.run(label, load_of(url, "served", "--at-once", 1, "--requests", 1, "--shortest", 64, "--longest", 64, "--tokens",
                                     r.size(256, 8)))
    step, gap = 1e3 / r.median("server_step.decode.tokens_per_second"), r.median("server_step.served.between_tokens")
    if gap:
        r.note(f"=> one stream: {gap:.2f} ms between tokens, {100 * (gap / step - 1):.1f} % above the engine's step of {step:.2f} ms")


def serve_memory(r):
    """What a server plans, and the most that its process had in memory when all its blocks had been used."""
    if not (model := smollm2(r)):
        return
    for at_once in (4, 16):
        with started(r, sides_of(r, model, at_once, 1024)["megalith"]) as (process, ready):
            r.run("warm", load_of(f"http://{ready['http']}", "megalith", "--at-once", at_once, "--requests", at_once, "--shortest", r.size(900, 100),
                                  "--longest", r.size(900, 100), "--tokens", r.size(120, 8), "--seed", 1))
            with open(f"/proc/{process.pid}/status") as status:
                peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
        planned = sum(ready["memory"].values())
        r.add(f"serve_memory_{at_once}.planned", [planned / 2**20], "MiB")
        r.add(f"serve_memory_{at_once}.resident", [peak / 2**20], "MiB")
        r.note(f"=> {at_once} texts of 1,024 tokens: planned {planned / 2**20:.1f} MiB, 64 of them for the program; at most {peak / 2**20:.1f} MiB resident")
