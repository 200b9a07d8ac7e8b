# SPDX-License-Identifier: Apache-2.0
"""Training in 8 bits beside bf16: how losses go, from nothing and from a model that bf16 trained; what the guard and the
emulated products cost. No rival is needed."""
import json
import shutil
import statistics
import subprocess

from record import ROOT
from text_comparisons import corpus_of, text_of

SCALED = ("delayed", "current", "block", "mx")
SEEDS = (1234, 2, 3)
COLOURS = {"bf16": "#444444", "delayed": "#1f77b4", "current": "#2ca02c", "block": "#9467bd", "mx": "#ff7f0e", "unscaled": "#d62728"}


def in_format(name):
    """Settings of a side: bf16, or a recipe of scales."""
    narrow = ("precision.compute=fp8", f"precision.fp8.recipe={name}") if name != "bf16" else ("precision.compute=bf16",)
    return ("precision.parameters=bf16", *narrow)


def small_tokenizer(r):
    path = r.work / "tokenizer_4096.json"
    if not path.exists():
        subprocess.run([r.megalith, "tokenizer", "train", "--input", text_of(r, r.size(12_000_000, 500_000)), "--vocab-size", str(r.size(4096, 512)),
                        "--output", path], check=True, capture_output=True)
    return path


def corpora(r):
    """WordNet's glosses: to train on, and others to validate with."""
    train, held_out = r.work / "narrow", r.work / "narrow_held_out"
    if not train.with_suffix(".bin").exists():
        lines = text_of(r, r.size(12_000_000, 500_000)).read_text().splitlines(keepends=True)
        count = len(lines) // 40
        for prefix, part in ((train, lines[count:]), (held_out, lines[:count])):
            text = prefix.with_suffix(".txt")
            text.write_text("".join(part))
            subprocess.run([r.megalith, "pack", "--tokenizer", small_tokenizer(r), "--input", text, "--document", "line", "--output", prefix],
                           check=True, capture_output=True)
    return train, held_out


def trained(r, command, out, settings):
    """The run's lines; the run is made once."""
    if not (out / "report.html").exists():
        shutil.rmtree(out, ignore_errors=True)
        arguments = [r.megalith, *command, *(word for s in (*settings, f"run.out={out}", f"run.threads={r.threads}") for word in ("--set", s))]
        r.say(arguments)
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, cwd=ROOT)
        if done.returncode != 0:
            r.note(f"it ended with {done.returncode}: {done.stderr.strip()[-300:]}")
            r.failed.append(out.name)
            return []
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def gpt(r, name, seed=SEEDS[0]):
    """11.6M parameters, 1,024 tokens a step."""
    recipe = r.work / "narrow.yaml"
    train, held_out = corpora(r)
    recipe.write_text(
        f"model: {{layers: 3, hidden: {r.size(512, 64)}, heads: 8, context: 128, vocab: {r.size(4096, 512)}}}\n"
        f"data: {{train: {train}, validation: {held_out}, tokenizer: {small_tokenizer(r)}}}\n"
        f"train: {{steps: {r.size(1000, 20)}, global_batch: 8, micro_batch: 8, validate_every: {r.size(1000, 20)}, validate_samples: 256}}\n"
        "optimizer: {lr: 1e-3, min_lr: 1e-4, warmup_steps: 10, schedule: cosine}\n")
    return trained(r, ["train", recipe], r.work / f"gpt_{name}_{seed}", (*in_format(name), f"run.seed={seed}"))


def end_of(lines):
    """Mean loss of the last tenth of a run, and that of its last validation."""
    last = lines[-max(1, len(lines) // 10):]
    return statistics.fmean(line["loss"] for line in last), [line["validation_loss"] for line in lines if "validation_loss" in line][-1]


def apart(r, what, wide, narrow):
    """How far the losses of runs lie from bf16's from the same start, in percent: of each seed, and the mean."""
    for kind, w, n in zip(("training", "held out"), zip(*map(end_of, wide)), zip(*map(end_of, narrow))):
        percent = [100 * (b / a - 1) for a, b in zip(w, n)]
        r.note(f"=> {what}, {kind}: " + ", ".join(f"{b:.4f} (bf16 {a:.4f}, {d:+.3f} %)" for a, b, d in zip(w, n, percent))
               + f"; {statistics.fmean(percent):+.3f} % on average")


def picture(runs, path):
    """Losses over steps, each a mean of the 20 steps around it, and how far they lie from bf16's."""
    width, height, margin = 860, 300, 50

    def smooth(values):
        return [statistics.fmean(values[max(0, i - 10):i + 10]) for i in range(0, len(values), 5)]

    losses = {name: smooth([line["loss"] for line in lines]) for name, lines in runs.items()}
    differences = {name: [100 * (a / b - 1) for a, b in zip(values, losses["bf16"])] for name, values in losses.items() if name != "bf16"}
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {2 * height}" font-family="sans-serif" font-size="13">',
             f'<rect width="{width}" height="{2 * height}" fill="white"/>']
    for row, (title, curves, low, high) in enumerate((("loss", losses, min(map(min, losses.values())), max(map(max, losses.values()))),
                                                      ("% from bf16", differences, -1.0, 1.0))):
        top = row * height + 20

        def y(value):
            return top + (height - margin) * (1 - (min(max(value, low), high) - low) / (high - low))

        for i in range(5):
            value = low + (high - low) * i / 4
            parts.append(f'<path d="M{margin} {y(value):.1f}H{width - 110}" stroke="#ddd"/><text x="{margin - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>')
        parts.append(f'<text x="{margin}" y="{top - 6}">{title}</text>')
        for i, (name, values) in enumerate(curves.items()):
            points = " ".join(f"{margin + (width - 110 - margin) * j / (len(values) - 1):.1f},{y(v):.1f}" for j, v in enumerate(values))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.5"/>'
                         f'<text x="{width - 100}" y="{top + 14 + 18 * i}" fill="{COLOURS[name]}">{name}</text>')
    path.write_text("\n".join(parts) + f'\n<text x="{margin}" y="{2 * height - 8}">steps 1 to {len(runs["bf16"])}</text>\n</svg>\n')


def fp8_curves(r):
    """1,000 steps on the same samples in bf16 and with each recipe of scales, from three starts; and with no scales, from one. One pair
    says little: runs that round differently part by chance."""
    seeds = SEEDS if not r.tiny else SEEDS[:2]
    starts = {name: [gpt(r, name, seed) for seed in seeds] for name in ("bf16", *SCALED)} | {"unscaled": [gpt(r, "unscaled")]}
    if not all(lines for runs in starts.values() for lines in runs):
        return
    for name in (*SCALED, "unscaled"):
        apart(r, f"fp8 {name}", starts["bf16"], starts[name])
    runs = {name: lines[0] for name, lines in starts.items()}
    path = ROOT / ("build" if r.tiny else "docs/guide") / "fp8_curves.svg"
    picture(runs, path)
    r.note(f"=> the curves: {path.relative_to(ROOT)}")


def fp8_tune(r):
    """What bf16 trained, tuned on other examples: words to be told from their glosses."""
    if not gpt(r, "bf16"):
        return
    examples = r.work / "glosses.jsonl"
    lines = [line.split(": ", 1) for line in (r.work / "narrow.txt").read_text().splitlines()[: r.size(4000, 200)] if ": " in line]
    examples.write_text("".join(json.dumps({"prompt": f"{gloss.strip()} =", "completion": f" {word.strip()}"}) + "\n" for word, gloss in lines))
    recipe = r.work / "narrow_tune.yaml"
    recipe.write_text(f"tune: {{model: {r.work / f'gpt_bf16_{SEEDS[0]}'}, data: {examples}}}\n"
                      f"train: {{steps: {r.size(300, 10)}, sequence_length: 128, global_batch: 8, micro_batch: 8}}\n"
                      "optimizer: {lr: 2e-4, warmup_steps: 10, schedule: cosine, min_lr: 0}\n")
    runs = {name: trained(r, ["tune", recipe], r.work / f"tuned_{name}", in_format(name)) for name in ("bf16", *SCALED)}
    if not all(runs.values()):
        return
    loss = {name: statistics.fmean(line["loss"] for line in lines[-max(1, len(lines) // 5):]) for name, lines in runs.items()}
    for name in SCALED:
        r.note(f"=> tuned with fp8 {name}: loss {loss[name]:.4f}, with bf16 {loss['bf16']:.4f}, {100 * (loss[name] / loss['bf16'] - 1):+.3f} %")


def fp8_steps(r):
    """What a step costs in 8 bits, and a check of the guard, in turn with bf16."""
    recipe = r.work / "narrow_step.yaml"
    recipe.write_text(f"model: {{layers: {r.size(4, 2)}, hidden: {r.size(768, 64)}, heads: {r.size(12, 4)}, context: {r.size(512, 64)}, vocab: {r.size(16384, 512)}}}\n"
                      "train: {steps: 1, global_batch: 4, micro_batch: 2}\n")
    for _ in range(r.size(5, 1)):
        for name in ("bf16", *SCALED):
            r.bench(f"fp8_step.{name}", "train", recipe, *(word for s in in_format(name) for word in ("--set", s)), "--samples", 1,
                    only=("train.tokens_per_second",))
    wide = r.median("fp8_step.bf16.train.tokens_per_second")
    for name in SCALED:
        narrow = r.median(f"fp8_step.{name}.train.tokens_per_second")
        if wide and narrow:
            r.note(f"=> a step with fp8 {name}: {wide / narrow:.3f}x the time of bf16")
    guard = r.work / "guarded.yaml"
    guard.write_text(recipe.read_text().replace("steps: 1", f"steps: {r.size(60, 10)}") + f"data: {{train: {corpus_of(r)}}}\n")
    lines = trained(r, ["train", guard], r.work / "guarded",
                    (*in_format("delayed"), f"model.vocab={r.size(32768, 1024)}", "precision.fp8.guard.every=6", "precision.fp8.guard.patience=1000"))
    if lines:
        checked = [line["step_seconds"] for line in lines[1:] if "fp8_loss_difference" in line]
        plain = [line["step_seconds"] for line in lines[1:] if "fp8_loss_difference" not in line]
        r.add("fp8_guard.checked", checked, "s")
        r.add("fp8_guard.plain", plain, "s")
        step = statistics.median(plain)
        r.note(f"=> a check takes {100 * (statistics.median(checked) / step - 1):.0f} % of a step, "
               f"{(statistics.median(checked) / step - 1):.2f} % of the time with guard.every: 100")


def fp8_decode(r):
    """Tokens one after another from weights in 8 bits with a scale for each row, a Llama of 0.5B, in turn with bf16."""
    shape = ("--family", "llama", "--layers", r.size(24, 2), "--hidden", r.size(1280, 64), "--heads", r.size(20, 2), "--ffn", r.size(3456, 96), "--vocab", r.size(49152, 512),
             "--dtype", "bf16", "--prompt", r.size(64, 8), "--tokens", r.size(64, 4), "--samples", r.size(3, 1))
    for _ in range(r.size(2, 1)):
        for numerics in ("exact", "fast"):
            for name, more in (("bf16", ()), ("fp8", ("--quantize", "fp8"))):
                r.bench(f"fp8_decode.{numerics}.{name}", "decode", *shape, "--numerics", numerics, *more,
                        only=("decode.tokens_per_second", "decode.share_of_read_bandwidth"))
    for numerics in ("exact", "fast"):
        rates = [r.median(f"fp8_decode.{numerics}.{name}.decode.tokens_per_second") for name in ("fp8", "bf16")]
        if all(rates):
            r.note(f"=> {numerics}: {rates[0]:.2f} tokens/s with fp8, {rates[0] / rates[1]:.2f}x of bf16")
