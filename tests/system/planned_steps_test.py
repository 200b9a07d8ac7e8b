#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of layouts as they are planned for this machine and as they are: python3 planned_steps_test.py PROGRAM

The machine is measured as a cluster file by kernels of other models than the ones here. Then twelve layouts of two and four ranks of
small GPT, Llama and BERT models are predicted from it and run, all of a model in turn and several times, so that they see the same
machine. The order of the predictions must be that of the times, the first of it nearly the fastest, and memory equal to the byte.

A busy machine slows steps, and layouts unequally: of a layout's samples the fastest third counts. What other programs took is printed
(stages that wait leave them more), and the rate of matrix products just before each sample, all ranks at once: where that of equal numbers
of ranks differs much from layout to layout, the machine changed its speed meanwhile, and the comparison says nothing."""
import json
import pathlib
import statistics
import tempfile
import unittest

from program import run

ROUNDS, SAMPLES = 3, 3

MODELS = {
    "gpt": ("model: {family: gpt2, layers: 4, hidden: 256, heads: 8, context: 256, vocab: 4096}", "bf16", "causal"),
    "llama": ("model: {family: llama, layers: 4, hidden: 320, heads: 8, kv_heads: 4, ffn: 864, context: 256, vocab: 6000}", "f32", "causal"),
    "bert": ("model: {family: bert, layers: 4, hidden: 384, heads: 8, context: 128, vocab: 8000}", "f32", "masked"),
}

# Tensor, pipeline and data ranks, micro-batch, and what else.
LAYOUTS = (
    (2, 1, 1, 8, {}), (2, 1, 1, 2, {"parallel.sequence": "true"}), (1, 2, 1, 2, {}), (1, 2, 1, 1, {"parallel.schedule": "interleaved", "parallel.chunks": 2}),
    (1, 1, 2, 4, {"parallel.zero": 1}), (1, 1, 2, 2, {"memory.recompute": "full"}),
    (4, 1, 1, 8, {}), (2, 2, 1, 4, {}), (2, 1, 2, 4, {"memory.recompute": "selective"}), (1, 2, 2, 1, {}), (1, 4, 1, 2, {"memory.recompute": "full"}),
    (1, 1, 4, 2, {}),
)


def ranks_of(layout):
    return layout[0] * layout[1] * layout[2]


def overrides(layout):
    tensor, pipeline, data, micro_batch, more = layout
    keys = {"parallel.tensor": tensor, "parallel.pipeline": pipeline, "parallel.data": data, "parallel.data_shards": data, "train.micro_batch": micro_batch, **more}
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]


def places(values):
    """The place of each in rising order; equals share theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def spearman(a, b):
    return statistics.correlation(places(a), places(b))


class PlannedSteps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        # One file for two and four ranks, of which two have cores: measured apart, a machine may have had two speeds.
        run("bench", "machine", "--output", cls.folder / "here.yaml", "--ranks", 4)
        print((cls.folder / "here.yaml").read_text().splitlines()[1], flush=True)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def recipe(self, model):
        text, precision, objective = MODELS[model]
        path = self.folder / f"{model}.yaml"
        path.write_text(f"{text}\ntrain: {{steps: 100, global_batch: 8, objective: {objective}}}\n"
                        f"precision: {{parameters: {precision}, compute: {precision}}}\ncheckpoint: {{async: false}}\n")
        return path

    def predicted(self, recipe, layout):
        return json.loads(run("plan", recipe, "--search", "--cluster", self.folder / "here.yaml", "--gpus", ranks_of(layout), "--top", 1, *overrides(layout),
                              "--json"))["own"]["step_seconds"]

    def measure(self, recipe, layout, samples):
        lines = map(json.loads, run("bench", "train", recipe, "--samples", SAMPLES, *overrides(layout), "--json").splitlines())
        figures = {line["name"]: line for line in lines}
        samples += zip(*(figures[f"train.{name}"]["samples"] for name in ("step_seconds", "gemm_ceiling", "other_programs")))
        self.assertEqual(figures["train.memory"]["value"], figures["train.memory.planned"]["value"], layout)

    def compare(self, model):
        recipe = self.recipe(model)
        predicted = [self.predicted(recipe, layout) for layout in LAYOUTS]
        samples = [[] for _ in LAYOUTS]
        for _ in range(ROUNDS):
            for layout, of_layout in zip(LAYOUTS, samples):
                self.measure(recipe, layout, of_layout)
        seconds = []
        for of_layout in samples:
            fastest = sorted(taken for taken, _, _ in of_layout)
            seconds.append(statistics.mean(fastest[:len(fastest) // 3]))
        for layout, of_prediction, of_run, of_layout in zip(LAYOUTS, predicted, seconds, samples):
            ceilings, loads = [ceiling for _, ceiling, _ in of_layout], [load for _, _, load in of_layout]
            print(f"{model:6} {layout[:4]} {layout[4]}: predicted {of_prediction:.4f} s, measured {of_run:.4f} s ({of_prediction / of_run:.2f}), "
                  f"products {min(ceilings):.0f} to {max(ceilings):.0f} GFLOP/s, others {min(loads):.0f} to {max(loads):.0f} %", flush=True)
        pick = seconds[predicted.index(min(predicted))] / min(seconds)
        correlation = spearman(predicted, seconds)
        print(f"{model}: Spearman {correlation:.3f}, the pick takes {pick:.3f} of the fastest", flush=True)
        self.assertGreaterEqual(correlation, 0.9)
        self.assertLessEqual(pick, 1.05)

    def test_gpt(self):
        self.compare("gpt")

    def test_llama(self):
        self.compare("llama")

    def test_bert(self):
        self.compare("bert")


if __name__ == "__main__":
    unittest.main()
