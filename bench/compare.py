#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program beside what a user would take instead, in one run on the same cores; called by script/bench.

Every comparison runs its sides in turn, several times round, on as many threads as there are cores, so that a slow minute of the
machine meets all of them alike.
The record holds the machine, the versions, every command, every sample and the medians; it is written as it comes, so
that what was measured before an interruption stays. With --tiny every comparison runs on sizes that say nothing, in a
minute or two: to see that all of it works."""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from record import BUSY, PATIENCE, PEERS, ROOT, Record, idle_load, machine

FAST = ("--set", "numerics=fast", "--set", "precision.parameters=bf16", "--set", "precision.compute=bf16")


OWN_SIDES = {"fast_bf16": FAST, "exact_f32": ()}

# PyTorch as installed; and with an allocator that keeps what it was given back instead of taking every large tensor anew
# from the system, page by page.
TORCH_MEMORY = {"installed": {}, "keeping": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}}


ALL_SIDES = [(dtype, compiled, memory) for dtype in ("f32", "bf16") for compiled in (False, True)
             for memory in (("keeping",) if dtype == "f32" else ("keeping", "installed"))]
LONG_SIDES = [side for side in ALL_SIDES if side[0] == "bf16"]


def torch_name(dtype, compiled, memory):
    return f"{memory}.torch.{dtype}.{'compile' if compiled else 'eager'}"


def train_shape(r, name, recipe, shape, sides, samples, turns=1, own=tuple(OWN_SIDES)):
    """`sides`: of (dtype, compiled, memory) in PyTorch. `turns` times the rounds: for steps so short that a round passes in
    one mood of the machine."""
    rate = ("train.tokens_per_second", "train.peak_resident", "train.share_of_best_gemm", "gemm.best")
    for _ in range(r.rounds * turns):
        for side in own:
            r.bench(f"{name}.{side}", "train", recipe, *OWN_SIDES[side], "--samples", samples, only=rate)
        for dtype, compiled, memory in sides:
            r.peer(f"{name}.{memory}", "torch_train.py", *shape, "--dtype", dtype, "--samples", samples,
                   *(["--compile"] if compiled else []), environment=TORCH_MEMORY[memory])
    ours = max((f"{name}.{side}.train.tokens_per_second" for side in own), key=lambda n: r.median(n) or 0)
    for chosen, how in (("installed", "PyTorch as installed"), ("keeping", "PyTorch with an allocator that keeps memory")):
        if rivals := [f"{name}.{torch_name(*side)}" for side in sides if side[2] == chosen]:
            r.rate(f"{name}: training against {how}", ours, *rivals)
    for side in own:
        share = r.median(f"{name}.{side}.train.share_of_best_gemm")
        if share:
            r.note(f"=> {name}, {side}: {share:.1f} % of the best GEMM rate, "
                   f"{r.median(f'{name}.{side}.train.peak_resident'):.2f} GiB resident at most")


def recipe_of(r, name, layers, hidden, heads, context, vocab, batch):
    """A recipe of this shape and the same for PyTorch."""
    path = r.work / f"{name}.yaml"
    path.write_text(f"model: {{layers: {layers}, hidden: {hidden}, heads: {heads}, context: {context}, vocab: {vocab}}}\n"
                    f"train: {{steps: 1, global_batch: {batch}, micro_batch: {batch}}}\n")
    return path, ["--layers", layers, "--hidden", hidden, "--heads", heads, "--vocab", vocab, "--context", context,
                  "--micro-batch", batch]


def gpt2(r):
    return recipe_of(r, "tiny", 2, 64, 2, 64, 1024, 2)[0] if r.tiny else "recipes/gpt2_124m.yaml"


def train(r):
    recipe, shape = gpt2(r), recipe_of(r, "tiny", 2, 64, 2, 64, 1024, 2)[1] if r.tiny else []
    train_shape(r, "gpt2_124m", recipe, shape, ALL_SIDES, r.size(3, 1))


def llama(r):
    """A Llama of 56M parameters with grouped heads: steps, and decoding."""
    layers, hidden, heads, kv_heads, ffn, context, vocab, batch = (
        (2, 64, 4, 2, 96, 64, 512, 2) if r.tiny else (8, 512, 8, 4, 1408, 1024, 32000, 4))
    recipe = r.work / "llama.yaml"
    recipe.write_text(f"model: {{family: llama, layers: {layers}, hidden: {hidden}, heads: {heads}, kv_heads: {kv_heads}, ffn: {ffn}, "
                      f"context: {context}, vocab: {vocab}}}\ntrain: {{steps: 1, global_batch: {batch}, micro_batch: {batch}}}\n")
    shape = ["--family", "llama", "--layers", layers, "--hidden", hidden, "--heads", heads, "--kv-heads", kv_heads, "--ffn", ffn,
             "--vocab", vocab, "--context", context]
    train_shape(r, "llama_56m", recipe, [*shape, "--micro-batch", batch], ALL_SIDES, r.size(5, 1))
    decode_shape(r, "llama_56m", [*shape, "--prompt", r.size(64, 16)])


def demo(r):
    recipe, shape = recipe_of(r, "demo", 4, r.size(256, 64), 4, 128, r.size(4096, 512), r.size(16, 2))
    train_shape(r, "demo_model", recipe, shape, ALL_SIDES, r.size(5, 1), r.size(2, 1))


def sequence(r, length, samples, sides, own):
    recipe, shape = recipe_of(r, f"long_{length}", r.size(4, 1), r.size(768, 64), r.size(12, 2), length, r.size(50304, 512), 1)
    train_shape(r, f"sequence_{length}", recipe, shape, sides, samples, own=own)


def long(r):
    sequence(r, r.size(4096, 128), r.size(3, 1), LONG_SIDES, tuple(OWN_SIDES))


def longest(r):
    """Steps of a minute and more: the faster sides alone."""
    sequence(r, r.size(16384, 256), r.size(3, 1), [s for s in LONG_SIDES if s[2] == "keeping"], ("fast_bf16",))


def memory(r):
    for recompute in ("none", "full"):
        r.bench(f"memory.{recompute}", "train", gpt2(r), *FAST, "--set", "checkpoint.async=false",
                "--set", f"memory.recompute={recompute}", "--samples", 1, only=("train.peak_resident",))
        r.note(f"=> 124M in bf16 storage, recomputation {recompute}: "
               f"{r.median(f'memory.{recompute}.train.peak_resident'):.2f} GiB resident at most")


def decode_shape(r, name, shape):
    for _ in range(r.rounds):
        for_all = [*shape, "--tokens", r.size(512, 16), "--samples", r.size(2, 1)]
        r.bench(f"decode_{name}", "decode", *for_all, "--dtype", "bf16")
        r.peer(f"decode_{name}", "llama_decode.py", *for_all)
        r.peer(f"decode_{name}", "hf_generate.py", *for_all)
    ours = f"decode_{name}.decode.tokens_per_second"
    r.rate(f"decoding {name} against llama.cpp", ours, f"decode_{name}.llama.cpp.bf16.decode")
    r.rate(f"decoding {name} against transformers", ours, f"decode_{name}.transformers.bf16.decode")
    r.note(f"=> decoding {name}: {r.median(f'decode_{name}.decode.share_of_read_bandwidth'):.1f} % of the read bandwidth "
           f"({r.median(f'decode_{name}.decode.read_bandwidth'):.1f} GB/s)")


def decode(r):
    common = ["--vocab", r.size(50304, 1024), "--context", 1024, "--prompt", 64]
    shapes = {"124m": [], "0.5b": ["--layers", 24, "--hidden", 1280, "--heads", 20]}
    if r.tiny:
        shapes = {"tiny": ["--layers", 2, "--hidden", 64, "--heads", 2]}
    for name, shape in shapes.items():
        decode_shape(r, name, [*shape, *common])


def prompt(r):
    common = ["--vocab", 50304, "--context", 2048, "--prompt", 1024, "--tokens", 4]
    if r.tiny:
        common = ["--layers", 2, "--hidden", 64, "--heads", 2, "--vocab", 1024, "--context", 256, "--prompt", 128,
                  "--tokens", 4]
    for _ in range(r.rounds):
        r.bench("prompt", "decode", *common, "--dtype", "bf16", "--samples", r.size(5, 1))
        r.peer("prompt", "llama_decode.py", *common, "--samples", r.size(5, 1))
    r.rate("a prompt of 1024 tokens, 124M", "prompt.decode.prompt_tokens_per_second", "prompt.llama.cpp.bf16.prompt")
    r.note(f"=> prompt: {r.median('prompt.decode.prompt_share_of_best_gemm'):.1f} % of the best GEMM rate")


def text_of(r, size):
    """`size` bytes: WordNet's entries over and over, lines in another order each time."""
    path = r.work / f"text_{size}.txt"
    if not path.exists():
        lines = []
        for part in ("noun", "verb", "adj", "adv"):
            lines += subprocess.run(["awk", "-f", ROOT / "tools/wordnet_text.awk", f"/usr/share/wordnet/data.{part}"],
                                    capture_output=True, text=True, check=True).stdout.splitlines(keepends=True)
        import random
        order = random.Random(1)
        with open(path, "w") as file:
            left = size
            while left > 0:
                order.shuffle(lines)
                for line in lines:
                    file.write(line)
                    left -= len(line.encode())
                    if left <= 0:
                        break
    return path


def tokenizer_of(r):
    path = r.work / "tokenizer.json"
    if not path.exists():
        subprocess.run([r.megalith, "tokenizer", "train", "--input", text_of(r, r.size(12_000_000, 500_000)), "--vocab-size",
                        str(r.size(32768, 1024)), "--output", path], check=True, capture_output=True)
    return path


def tokenizer(r):
    """English; Unicode of many scripts; texts without one space, the worst case of pair merging, of one letter, of random
    ones and of repeated English: each beside random words."""
    import random
    order = random.Random(2)
    mixed = r.work / "mixed.txt"
    blocks = [(0x20, 0x7E), (0xA1, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A), (0x905, 0x939),
              (0x3041, 0x3096), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1F5FF)]
    with open(mixed, "w", encoding="utf-8") as file:
        for _ in range(r.size(1_000_000, 5_000)):  # as much as of English
            low, high = order.choice(blocks)
            word = "".join(chr(order.randint(low, high)) for _ in range(order.randint(1, 9)))
            file.write(word + order.choice("       \n"))  # lines: what several threads divide
    size = r.size(4_000_000, 100_000)
    letters = b"abcdefghijklmnopqrstuvwxyz"
    english = text_of(r, r.size(12_000_000, 500_000))
    made = {"random": bytes(order.choice(letters + b"    \n") for _ in range(size)), "worst_one_letter": b"a" * size,
            "worst_random_letters": bytes(order.choice(letters) for _ in range(size)),
            "worst_english": bytes(b for b in english.read_bytes()[:2 * size] if b in letters)[:size]}
    for name, content in made.items():
        (r.work / f"{name}.txt").write_bytes(content)
    texts = {"english": english, "mixed": mixed}
    for name, path in texts.items():
        for _ in range(r.rounds):
            r.bench(f"tokenizer_{name}", "tokenizer", "--tokenizer", tokenizer_of(r), "--input", path)
            r.peer(f"tokenizer_{name}", "tokenizers_peers.py", "encode", "--tokenizer", tokenizer_of(r), "--input", path, "--samples",
                   r.size(3, 1), threads=1)
        ours = f"tokenizer_{name}.tokenizer.encode.1_threads"
        r.rate(f"encoding {name} against tiktoken", ours, f"tokenizer_{name}.tiktoken.encode")
        r.rate(f"encoding {name} against tokenizers", ours, f"tokenizer_{name}.tokenizers.encode")
        if r.threads > 1:
            r.note(f"=> encoding {name}: {r.threads} threads "
                   f"{r.median(f'tokenizer_{name}.tokenizer.encode.speedup'):.2f}x of one")
    for _ in range(r.rounds):
        for name in made:
            r.bench(f"tokenizer_{name}", "tokenizer", "--tokenizer", tokenizer_of(r), "--input", r.work / f"{name}.txt", threads=1)
    rates = {name: r.median(f"tokenizer_{name}.tokenizer.encode.1_threads") for name in made}
    if None in rates.values():
        r.note("=> worst texts: not all were measured")
        return
    slowest = min((name for name in made if name != "random"), key=rates.get)
    r.note(f"=> {slowest} takes {rates['random'] / rates[slowest]:.2f}x the time per byte of random words")


def timed(r, name, command):
    """Seconds and peak resident memory of one of our commands."""
    r.say(command)
    before = time.monotonic()
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - before
    if status != 0:
        r.note(f"{name} ended with status {status}")
        r.failed.append(name)
        return
    r.add(f"{name}.seconds", [seconds], "s")
    r.add(f"{name}.peak_resident", [usage.ru_maxrss / 2**20], "GiB")


def tokenizer_training(r):
    text, vocab = text_of(r, r.size(100_000_000, 500_000)), r.size(32768, 1024)
    for _ in range(r.rounds):
        timed(r, "tokenizer_train", [r.megalith, "tokenizer", "train", "--input", text, "--vocab-size", vocab, "--output",
                                     r.work / "trained.json", "--threads", r.threads])
        r.peer("", "tokenizers_peers.py", "train", "--input", text, "--vocab-size", vocab)
    r.rate("tokenizer training, 100 MB", "tokenizer_train.seconds", "tokenizers.train", faster=False)
    r.rate("its memory", "tokenizer_train.peak_resident", "tokenizers.train.peak_resident", faster=False)


def pack(r):
    size = r.size(2_000_000_000, 1_000_000)
    text = text_of(r, size)
    for _ in range(r.rounds):
        r.bench("pack", "tokenizer", "--tokenizer", tokenizer_of(r), "--input", text_of(r, r.size(100_000_000, 500_000)))
        timed(r, "pack", [r.megalith, "pack", "--tokenizer", tokenizer_of(r), "--input", text, "--document", "line", "--output",
                          r.work / "packed", "--threads", r.threads])
    if r.median("pack.seconds") is None:
        return
    rate = size / 1e6 / r.median("pack.seconds")
    encode = r.median(f"pack.tokenizer.encode.{r.threads}_threads")
    r.note(f"=> pack of 2 GB: {rate:.1f} MB/s, {100 * rate / encode:.0f} % of encoding by {r.threads} threads, "
           f"{r.median('pack.peak_resident'):.2f} GiB resident at most")
    for suffix in ("bin", "idx"):
        (r.work / f"packed.{suffix}").unlink()
    text.unlink()


def corpus_of(r):
    if not (r.work / "corpus.bin").exists():
        subprocess.run([r.megalith, "pack", "--tokenizer", tokenizer_of(r), "--input", text_of(r, r.size(12_000_000, 500_000)),
                        "--document", "line", "--output", r.work / "corpus"], check=True, capture_output=True)
    return r.work / "corpus"


def dd(r, size):
    """GB/s of plain writing to the same disk."""
    target = r.work / "dd.bin"
    begin = time.monotonic()
    subprocess.run(["dd", "if=/dev/zero", f"of={target}", f"bs={r.size(1 << 20, 4096)}",
                    f"count={size // r.size(1 << 20, 4096)}", "conv=fsync"], check=True, capture_output=True)
    r.add("save.dd", [size / 1e9 / (time.monotonic() - begin)], "GB/s")
    target.unlink()


def saves_of(run, process):
    """What run.json says of every checkpoint while the process runs: it holds the last one only."""
    saves = {}
    while True:
        ended = process.poll() is not None
        try:
            saved = json.loads((run / "run.json").read_text()).get("checkpoint", {})
        except FileNotFoundError:
            saved = {}
        if saved:
            saves[saved["step"]] = saved
        if ended:
            return [saves[step] for step in sorted(saves)]
        time.sleep(0.05)


def seconds_to_first_step(command, run, steps):
    """Until the step after `steps` begins: when its line is there, without the seconds that it says it took. None: it ended."""
    log = run / "metrics.jsonl"
    before = log.read_text()  # with what the last start did behind the checkpoint
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    while process.poll() is None:
        now, text = time.monotonic() - begin, log.read_text()
        last = (text.splitlines() or [""])[-1]
        if text != before and text.endswith("}\n") and json.loads(last)["step"] == steps + 1:
            process.kill()  # behind no save: the checkpoint stays as it is
            process.wait()
            return now - json.loads(last)["step_seconds"]
        time.sleep(0.005)
    return None


def save(r):
    """Steps of 124M with saves in the background; the same bytes by dd; resumes up to their first step."""
    run, steps = r.work / "run", 12
    common = [str(c) for c in (r.megalith, "train", gpt2(r), "--set", f"run.out={run}", "--set",
                               f"data.train={corpus_of(r)}", *FAST, "--set", "checkpoint.every=2", "--set",
                               "checkpoint.keep=1", "--set", "train.global_batch=1", "--set", "train.micro_batch=1", "--set",
                               f"run.threads={r.threads}")]
    saves = []
    for _ in range(r.rounds):
        shutil.rmtree(run, ignore_errors=True)
        r.say([*common, "--set", f"train.steps={steps}"])
        process = subprocess.Popen([*common, "--set", f"train.steps={steps}"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, cwd=ROOT)
        saves += saves_of(run, process)
        if process.returncode != 0 or not saves:
            r.failed.append("train with saves")
            return
        for _ in range(r.size(3, 1)):
            dd(r, saves[0]["bytes"])
    # The last one is written while nothing trains, the ones before beside a step.
    r.add("save.write", [s["bytes"] / 1e9 / s["write_seconds"] for s in saves], "GB/s")
    r.add("save.stall", [s["stall_seconds"] for s in saves], "s")
    r.add("save.stall_share", [100 * s["stall_seconds"] / s["write_seconds"] for s in saves], "%")
    state = json.loads((run / "run.json").read_text())
    r.note(f"=> save of {saves[0]['bytes']} bytes: {r.median('save.write'):.2f} GB/s, "
           f"{100 * r.median('save.write') / r.median('save.dd'):.0f} % of dd conv=fsync; training stood still "
           f"{r.median('save.stall'):.3f} s, {r.median('save.stall_share'):.1f} % of its duration; snapshot "
           f"{state['memory']['planned']['snapshot']} bytes")
    metrics = [json.loads(line) for line in open(run / "metrics.jsonl")]
    wait = state["accounts"]["buckets"]["data_wait"] / sum(m["step_seconds"] for m in metrics)
    r.note(f"=> waiting for data: {100 * wait:.4f} % of step time")
    for _ in range(r.size(5, 1)):
        seconds = seconds_to_first_step([*common, "--set", f"train.steps={steps + 2}"], run, steps)
        if seconds is None:
            r.failed.append("a resume")
            return
        r.add("resume", [seconds], "s")
    r.note(f"=> resume of 124M: {r.median('resume'):.2f} s from the start of the program to its first step")
    shutil.rmtree(run)


def start(r):
    times = []
    for _ in range(21):
        begin = time.monotonic()
        subprocess.run([r.megalith, "--version"], capture_output=True, check=True)
        times.append(1e3 * (time.monotonic() - begin))
    r.add("start", times, "ms")
    r.note(f"=> megalith --version: {statistics.median(times):.1f} ms")


def gemm(r):
    """The ceiling; and `exact` against the library in f32, operation by operation."""
    for _ in range(r.rounds):
        r.bench("", "gemm", "--samples", r.size(5, 1))
    shares = {n: r.median(n) for n in r.samples if n.startswith("gemm.exact_over_library.f32.")}
    low = min(shares, key=shares.get)
    best = max(r.median(n) for n in r.samples if n.startswith("gemm.ceiling."))
    r.note(f"=> ceiling {best:.0f} GFLOP/s; exact f32 reaches {statistics.median(shares.values()):.0f} % of the library's f32 "
           f"(median of {len(shares)}), at least {shares[low]:.0f} % ({low})")


COMPARISONS = {f.__name__: f for f in (gemm, train, llama, demo, long, longest, memory, decode, prompt, tokenizer, tokenizer_training, pack,
                                       save, start)}
# The rows of the table of goals, by the comparison that measures them.
ROWS = {"1": [train], "2": [train], "3": [memory], "4": [demo], "5": [long, longest], "6": [gemm], "7": [decode], "8": [prompt],
        "9": [tokenizer], "10": [tokenizer_training], "11": [pack], "12": [save], "13": [save], "14": [start, save]}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--megalith", required=True)
    p.add_argument("--python", help="of the environment with the rivals; without it there are none")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--tiny", action="store_true", help="sizes that say nothing, to see that all of it works")
    p.add_argument("--record", required=True)
    p.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COMPARISONS) + ", or a row 1 to 14")
    a = p.parse_args()
    for name in a.names:
        if name not in ROWS and name not in COMPARISONS:
            p.error(f"no comparison {name}; there are {', '.join(COMPARISONS)}, and rows 1 to 14")
    wanted = [c for n in a.names or COMPARISONS for c in ROWS.get(n, [COMPARISONS.get(n)])]
    commit = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True,
                            cwd=ROOT).stdout.strip()
    versions = subprocess.run([a.megalith, "doctor", "--json"], capture_output=True, text=True).stdout.strip()
    rivals = (PEERS / "requirements.txt").read_text().splitlines()[1:] if a.python else []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/tmp")) as folder, open(a.record, "a") as file:
        r = Record(a.megalith, a.python, a, pathlib.Path(folder), file)
        r.write(f"# {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC\n\n{machine()}\n\n"
                f"megalith {commit}: {versions}\n\nrivals: {', '.join(rivals)}\n\nthreads of every side, unless said: {r.threads}")
        for comparison in dict.fromkeys(wanted):
            load = idle_load(0.0 if r.tiny else PATIENCE)
            r.note(f"\n## {comparison.__name__}, load {load:.1f}{'' if load < BUSY else ': NOT an idle machine'}")
            comparison(r)
        r.write("")
    print(a.record, file=sys.stderr)
    if r.failed:
        print("did not run: " + "; ".join(r.failed), file=sys.stderr)
    return 1 if r.failed else 0


if __name__ == "__main__":
    sys.exit(main())
