# SPDX-License-Identifier: Apache-2.0
"""Servers: many requests at once to ours and to llama.cpp's, which have the same weights and the same client; and what a
server owes those it writes for: even gaps, known beginnings, a step that is the model's."""
import array
import contextlib
import json
import random
import struct
import subprocess

from quantised_comparisons import VOCAB, smollm2
from record import PEERS, ROOT


AT_ONCE = (1, 4, 8, 16, 32)
# Of SmolLM2-135M: inputs and outputs of a layer's modules.
LAYERS, MODULES = 30, {"self_attn.q_proj": (576, 576), "self_attn.k_proj": (576, 192), "self_attn.v_proj": (576, 192), "self_attn.o_proj": (576, 576),
                       "mlp.gate_proj": (576, 1536), "mlp.up_proj": (576, 1536), "mlp.down_proj": (1536, 576)}
# Which of them have factors, and of what rank: what PEFT takes for the family, and all.
ADAPTERS = {"qv": (("self_attn.q_proj", "self_attn.v_proj"), 8), "all": (tuple(MODULES), 16)}
ADAPTERS_AT_ONCE = 16


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


def write_adapter(folder, kind, number):
    """A LoRA as PEFT saves it, of random factors: parts of one list of draws, which are others for each adapter."""
    names, rank = ADAPTERS[kind]
    draw = random.Random(number)
    draws = array.array("f", [draw.gauss(0, 0.03) for _ in range(1 << 16)])
    folder.mkdir(parents=True)
    header, size, parts = {}, 0, []
    for layer in range(LAYERS):
        for name in names:
            inputs, outputs = MODULES[name]
            for factor, shape in (("lora_A", (rank, inputs)), ("lora_B", (outputs, rank))):
                count, begin = shape[0] * shape[1], draw.randrange(1 << 15)
                parts.append((draws[begin:] * (count // (1 << 15) + 1))[:count].tobytes())
                header[f"base_model.model.model.layers.{layer}.{name}.{factor}.weight"] = {
                    "dtype": "F32", "shape": shape, "data_offsets": (size, size + 4 * count)}
                size += 4 * count
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": "all-linear" if len(names) == len(MODULES) else
                                                            [name.split(".")[1] for name in names]}))
    return folder


def serve_adapters(r):
    """16 requests at once, each with an adapter of its own, beside as many without, to the same server in turn; and one after another."""
    if not (model := smollm2(r)):
        return
    tokens = r.size(128, 8)
    for kind in ADAPTERS:
        folders = {f"a{i}": write_adapter(r.work / f"adapters-{kind}" / str(i), kind, i) for i in range(ADAPTERS_AT_ONCE)}
        command = [*sides_of(r, model, ADAPTERS_AT_ONCE, 704)["megalith"], *(word for name, folder in folders.items() for word in ("--adapter", f"{name}={folder}"))]
        texts = {label: r.work / f"{kind}-{label}.json" for label in ("together", "alone")}
        with served(r, command) as url:
            def load(label, at_once, seed, *more):
                return ["python3", PEERS / "completions_load.py", "--url", url, "--label", label, "--vocab", VOCAB, "--at-once", at_once, "--requests", ADAPTERS_AT_ONCE,
                        "--tokens", tokens, "--seed", seed, *more]
            for sample in range(r.size(6, 1)):
                for label, name in (("none", "smollm2"), ("adapters", ",".join(folders))):
                    r.run("warm" if sample == 0 and not r.tiny else f"serve_adapters_{kind}", load(label, ADAPTERS_AT_ONCE, sample, "--model", name, "--texts", texts["together"]))
            r.run("warm", load("alone", 1, r.size(6, 1) - 1, "--model", ",".join(folders), "--texts", texts["alone"]))
        none, own = (r.median(f"serve_adapters_{kind}.{label}.output") for label in ("none", "adapters"))
        if none and own:
            together, alone = (json.loads(path.read_text()) for path in texts.values())
            same = sum(together[number] == text for number, text in alone.items())
            names, rank = ADAPTERS[kind]
            r.note(f"=> {ADAPTERS_AT_ONCE} requests at once, each with an adapter of rank {rank} of {len(names)} modules a layer: {100 * own / none:.0f} % of the tokens a second "
                   f"without ({own:.1f} and {none:.1f}); {same} of {len(alone)} texts are those of one at a time")
