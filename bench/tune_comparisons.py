# SPDX-License-Identifier: Apache-2.0
"""Tuning beside plain PyTorch loops with transformers and peft: a classifier, and a chat model."""
import json
import os
import re
import subprocess

from encoder_comparisons import minilm
from model_comparisons import OWN_SIDES, TORCH_MEMORY
from quantised_comparisons import unpacked
from record import ROOT
from text_comparisons import text_of

GLUE = ROOT.parent / "shared" / "data" / "glue"
# By recipe: the folder, the columns of text and label (CoLA's tables have no heading), the number that is reported.
TASKS = {"rte": ("RTE", ("sentence1", "sentence2"), "label", "accuracy"),
         "mrpc": ("MRPC", ("#1 String", "#2 String"), "Quality", "f1"),
         "cola": ("CoLA", ("sentence",), "label", "matthews_correlation"),
         "sst2": ("SST-2", ("sentence",), "label", "accuracy")}
LABELS = {"rte": ("entailment", "not_entailment")}  # others have numbers
TRAINED, HELD, BATCH = 1000, 500, 16  # of each task the first lines; examples of a step


def lines_of(r, task, part, most):
    """(path, how many) of a set's first examples as JSON lines, which both sides read."""
    folder, texts, label, _ = TASKS[task]
    rows = [line.split("\t") for line in (GLUE / folder / f"{part}.tsv").read_text(encoding="utf-8-sig").splitlines()]
    names = ["source", "label", "mark", "sentence"] if task == "cola" else rows.pop(0)
    made = []
    for row in rows[:most]:
        value = row[names.index(label)]
        line = dict(zip(("text", "pair"), (row[names.index(text)] for text in texts)))
        made.append(line | {"label": LABELS[task].index(value) if task in LABELS else int(value)})
    path = r.work / f"{task}-{part}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in made))
    return path, len(made)


def epochs_of(r):
    return r.size(3, 1)


def own(r, task, side, model, files, examples, seeds):
    """The recipe of recipes/tune/glue, of fewer epochs."""
    trained = epochs_of(r) * examples
    steps, run = trained // BATCH, r.work / f"{task}-{side}-{seeds.start}"
    changes = {"run.out": run, "tune.model": model, "tune.data": files[0], "tune.validation": files[1], "tune.seeds": len(seeds),
               "run.seed": seeds.start, "train.epochs": epochs_of(r), "train.validate_every": 1000000,
               "optimizer.warmup_steps": steps // 10, "run.threads": r.threads, "checkpoint.async": "false"}
    command = [r.megalith, "tune", f"recipes/tune/glue/{task}.yaml", *(word for key, value in changes.items() for word in ("--set", f"{key}={value}")),
               *OWN_SIDES[side], "--json"]
    r.say(command)
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        r.failed.append(f"tune {task} {side}")
        r.note(done.stderr[-300:])
        return
    said = json.loads(done.stdout)["seeds"]
    buckets = [json.loads((run / f"seed-{one['seed']}" / "run.json").read_text())["accounts"]["buckets"] for one in said]
    seconds = [sum(bucket[name] for name in ("data_wait", "steps", "logging")) for bucket in buckets]
    metric = TASKS[task][3]
    r.add(f"glue_tune.{task}.{side}.examples_per_second", [trained / s for s in seconds], "examples/s")
    r.add(f"glue_tune.{task}.{side}.{metric}", [one[metric] for one in said], metric)


def glue_tune(r):
    """MiniLM on the first 1,000 examples of RTE, MRPC, CoLA and SST-2, three epochs of 16 examples a step, five seeds; the number is
    of the first 500 that are held out. Both read texts as they are: no example is padded here, theirs to the longest of a step."""
    if not r.python or not GLUE.exists():
        r.note("=> glue_tune: needs the rivals, with which the model comes, and ../shared/data/glue")
        return
    model, seeds = minilm(r), range(1, r.size(5, 2) + 1)
    of_rounds = [seeds] if r.tiny else [seeds[:3], seeds[3:]]
    for task, (_, _, _, metric) in TASKS.items():
        (train, examples), (held, answers) = (lines_of(r, task, part, most) for part, most in
                                              (("train", r.size(TRAINED, 16)), ("dev", r.size(HELD, 16))))
        r.note(f"{task}: {examples} examples, {answers} held out")
        for turn in of_rounds:
            for side in OWN_SIDES:
                own(r, task, side, model, (train, held), examples, turn)
            for dtype in OWN_SIDES:
                r.peer(f"glue_tune.{task}", "glue_tune.py", "--model", model, "--train", train, "--held", held, "--metric", metric,
                       "--epochs", epochs_of(r), "--batch", BATCH, "--seeds", *turn, "--dtype", dtype, environment=TORCH_MEMORY["keeping"])
        speeds = [f"glue_tune.{task}.{side}.examples_per_second" for side in OWN_SIDES]
        r.rate(f"fine-tuning on {task}", max(speeds, key=lambda n: r.median(n) or 0),
               *(f"glue_tune.{task}.transformers.{dtype}.examples_per_second" for dtype in OWN_SIDES))
        medians = {name: r.median(f"glue_tune.{task}.{name}.{metric}") for name in (*OWN_SIDES, *(f"transformers.{d}" for d in OWN_SIDES))}
        r.note(f"=> {task}, median {metric} of {len(seeds)} seeds: " + ", ".join(f"{n} {v:.4f}" for n, v in medians.items() if v is not None))


def chats(r):
    """Words whose meaning is asked, and WordNet's answers."""
    path = r.work / "chats.jsonl"
    lines = [line.rstrip("\n").split(": ", 1) for line in text_of(r, r.size(300_000, 20_000)).read_text().splitlines() if ": " in line]
    path.write_text("".join(json.dumps({"messages": [{"role": "user", "content": f"What does \"{word}\" mean?"},
                                                     {"role": "assistant", "content": gloss}]}) + "\n" for word, gloss in lines[: r.size(2000, 40)]))
    return path


def chat_model(r):
    folder = r.work / "smollm2"
    if not folder.exists():
        subprocess.run([r.megalith, "convert", "--from", unpacked(r), "--to", folder, "--format", "hf", "--dtype", "bf16"], check=True, capture_output=True)
    return folder


def own_chats(r, name, recipe, model, data, turn, others=None):
    """Forty steps of two samples of 512 tokens, into which examples are packed: the run, or nothing where it failed."""
    run = r.work / f"{name}-{turn}"
    changes = {"run.out": run, "tune.model": model, "tune.data": data, "train.steps": r.size(40, 4), "train.sequence_length": 512, "train.global_batch": 2,
               "optimizer.warmup_steps": 2, "run.threads": r.threads, "checkpoint.every": 1000000, "checkpoint.async": "false",
               **(others or {})}
    command = [str(c) for c in (r.megalith, "tune", f"recipes/tune/{recipe}.yaml", *(word for k, v in changes.items() for word in ("--set", f"{k}={v}")))]
    r.say(command)
    with open(r.work / "told.txt", "w+") as told:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=told, cwd=ROOT)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        said = told.read()
    counts = re.search(r"\((\d+) learned\) in (\d+) samples", said)
    if child.returncode != 0 or not counts:
        r.failed.append(f"tune chats {name}")
        r.note(said[-300:])
        return None
    learned, samples = map(int, counts.groups())
    times = [json.loads(line)["step_seconds"] for line in (run / "metrics.jsonl").read_text().splitlines()][2:]
    parts = [part for i in range(5) if (part := times[i::5])]
    r.add(f"{name}.learned_per_second", [2 * learned / samples * len(part) / sum(part) for part in parts], "tokens/s")
    r.add(f"{name}.resident", [used.ru_maxrss / 1024], "MiB")
    return run


def chat_tune(r):
    """SmolLM2-135M on 2,000 chats: all weights, and factors of rank 16. Theirs are 40 steps of 16 chats, in f32 weights under autocast
    and in bf16 weights; their speed with an allocator that keeps memory, their memory as installed."""
    if not r.python:
        r.note("=> chat_tune: needs the rivals, with which the model comes")
        return
    model, data = chat_model(r), chats(r)
    for method in ("full", "lora"):
        for turn in range(r.rounds):
            own_chats(r, f"chat_tune.{method}", method, model, data, turn)
            for dtype in ("autocast", "bf16"):
                for memory in TORCH_MEMORY:
                    r.peer(f"chat_tune.{method}.{memory}", "tune_chats.py", "--model", model, "--data", data, "--method", method, "--dtype", dtype,
                           "--steps", r.size(40, 4), environment=TORCH_MEMORY[memory])
        for what, memory, faster in (("learned_per_second", "keeping", True), ("resident", "installed", False)):
            r.rate(f"tuning on chats, {method}, {what}", f"chat_tune.{method}.{what}",
                   *(f"chat_tune.{method}.{memory}.peft.{dtype}.{what}" for dtype in ("autocast", "bf16")), faster=faster)


# Weights that stay, by what they are held in; all else is recipes/tune/qlora.yaml.
HELD_IN = {"bf16": {"tune.quantize": "stored"}, "q8_0": {"tune.quantize": "q8_0"}, "q4_0": {"tune.quantize": "q4_0"},
           "q4_0_f32": {"tune.quantize": "q4_0", "precision.parameters": "f32", "precision.compute": "f32"}}


def qlora(r):
    """The same with factors of rank 8 beside weights in 16, 8 and 4 bits: what is planned, what was taken, and the most that the
    process had in memory."""
    if not r.python:
        r.note("=> qlora: needs the rivals, with which the model comes")
        return
    model, data = chat_model(r), chats(r)
    for side, held in HELD_IN.items():
        if not (run := own_chats(r, f"qlora.{side}", "qlora", model, data, 0, {"tune.rank": 8, "tune.alpha": 16, **held})):
            continue
        memory = json.loads((run / "run.json").read_text())["memory"]
        planned, taken = (memory[which]["total"] for which in ("planned", "measured"))
        r.add(f"qlora.{side}.planned", [planned / 2**20], "MiB")
        r.add(f"qlora.{side}.loss", [json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["loss"]], "nats")
        r.note(f"=> weights in {side}: {planned / 2**20:.1f} MiB planned, {'the same' if planned == taken else 'OTHER'} bytes taken; "
               f"at most {r.median(f'qlora.{side}.resident'):.1f} MiB resident")
