# SPDX-License-Identifier: Apache-2.0
"""What the system tests share: the program, a small corpus, a small recipe."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve()) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ""

# Tests may be started with nohup, or behind an "&" of a script, and what they start would inherit what those ignore.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# What anything may take that ends by itself, in seconds: machines are slow and busy, and their disks slower.
PATIENCE = 300

# Bytes of a path, without the zero behind it.
LONGEST_PATH = os.pathconf("/", "PC_PATH_MAX") - 1

# Of runs that a test ends: they do not come to their end before, and no step depends on the last.
ENDLESS = ("train.steps=100000000", "train.validate_every=0", "optimizer.schedule=constant")

RECIPE = """
model: {layers: 2, hidden: 32, heads: 4, context: 16, dropout: 0.1}
data: {train: DIR/corpus, tokenizer: DIR/tokenizer.json, validation_fraction: 0.1, document_mask: true}
train: {steps: 12, global_batch: 8, micro_batch: 4, validate_every: 4, validate_samples: 8}
optimizer: {lr: 1e-2, warmup_steps: 3}
checkpoint: {every: 4}
run: {threads: 1}
"""


def ended(command, **options):
    """The command's result, whatever it is."""
    return subprocess.run(command, **{"capture_output": True, "text": True, "timeout": PATIENCE, **options})


def wait_for(condition, process):
    """Whether it came true while the process lived."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.0005)
    return True


def run(*arguments, code=0):
    """Standard output of the program; fails when the exit code is another one."""
    result = ended([PROGRAM, *map(str, arguments)])
    assert result.returncode == code, (arguments, result.returncode, result.stdout, result.stderr)
    return result.stderr if code else result.stdout


def run_json(*arguments):
    return json.loads(run(*arguments, "--json"))


def text(lines, seed=1):
    """Text that a model can learn: sentences of a small grammar."""
    draw = random.Random(seed)
    nouns, verbs = ["cat", "dog", "bird", "fish", "man"], ["sees", "likes", "finds", "eats"]
    return "".join(f"the {draw.choice(nouns)} {draw.choice(verbs)} the {draw.choice(nouns)}.\n" for _ in range(lines))


def path_of(length, folder):
    """A path of so many bytes, below the folder."""
    path, rest = str(folder), length - len(os.fsencode(folder))
    while rest > 202:  # a name has 255 at most
        path, rest = f"{path}/{'y' * 199}", rest - 200
    return pathlib.Path(f"{path}/{'z' * (rest - 1)}")


def pack_spiking_corpus(folder):
    """Documents of one kind, and now and then of another that the model has not seen, beside RoadTest's tokenizer: overrides of
    a run whose loss spikes."""
    source = folder / "spiking.txt"
    for name, content in (("calm", "the cat sees the dog.\n" * 1500), ("wild", "zq?!xj#kv~w\n" * 40)):
        source.write_text(content)
        run("pack", "--tokenizer", folder / "tokenizer.json", "--input", source, "--document", "line", "--output", folder / name)
    return (f"data.train=[{{path: {folder / 'calm'}, weight: 98}}, {{path: {folder / 'wild'}, weight: 2}}]",
            "data.validation_fraction=0", "train.validate_every=0", "train.steps=80", "train.global_batch=2", "train.micro_batch=2",
            "checkpoint.every=5", "train.spike_window=12", "train.spike_factor=4", "train.spike_limit=50",
            "optimizer.schedule=constant", "model.dropout=0")


class RoadTest(unittest.TestCase):
    """A folder with a packed corpus, a tokenizer and a recipe, made once per class."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        (cls.folder / "text.txt").write_text(text(600))
        run("tokenizer", "train", "--input", cls.folder / "text.txt", "--vocab-size", 285, "--output", cls.folder / "tokenizer.json")
        run("pack", "--tokenizer", cls.folder / "tokenizer.json", "--input", cls.folder / "text.txt", "--document", "line",
            "--output", cls.folder / "corpus")
        cls.recipe = cls.folder / "recipe.yaml"
        cls.recipe.write_text(RECIPE.replace("DIR", str(cls.folder)))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def command(cls, out, *overrides, program=PROGRAM):
        words = [word for o in (f"run.out={cls.folder / out}", *overrides) for word in ("--set", o)]
        return [program, "train", str(cls.recipe), *words, "--json"]

    @classmethod
    def train(cls, out, *overrides, code=0):
        return run(*cls.command(out, *overrides)[1:], code=code)

    def start(self, out, *overrides, **options):
        return subprocess.Popen(self.command(out, *overrides),
                                **{"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, **options})

    def metrics(self, out):
        return [json.loads(line) for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()]

    def logged(self, out):
        """The number of steps with a line in the logs."""
        path = self.folder / out / "metrics.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def losses(self, out):
        return [(m["step"], m["loss_hex"], m["grad_norm_hex"]) for m in self.metrics(out)]

    def state(self, out):
        return json.loads((self.folder / out / "run.json").read_text())["state_sha256"]

    def newest_state(self, out):
        """What the newest checkpoint says of the run beside its tensors; nothing when there is none."""
        newest = max((self.folder / out / "checkpoints").glob("step-*"), default=None)
        return json.loads((newest / "manifest.json").read_text())["state"] if newest else {}

    def same(self, out, other):
        self.assertEqual(self.losses(out), self.losses(other))
        self.assertEqual(self.state(out), self.state(other))

    def goes_on(self, out, train=None):
        """An ENDLESS run that was ended somewhere goes on (by `train`), to the bits of one that nothing happened to."""
        steps = (*ENDLESS, f"train.steps={self.logged(out) + 4}")
        (train or self.train)(out, *steps)
        self.train(f"{out}-at-once", *steps)
        self.same(out, f"{out}-at-once")
