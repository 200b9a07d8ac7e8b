#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serving as it is planned for this machine and as it is: python3 planned_serving_test.py PROGRAM

The machine is measured as cluster files of one rank with one thread and with two, by kernels in passes of other models than the one here.
From these eight configurations (format of weights x texts at once x threads) of one model are predicted, and then run by the server's own
generator: tokens a second, the time until all texts have their first token, the time between tokens. Nothing is fitted to what is judged.

A busy machine slows runs: all configurations run in turn and several times, and the fastest third of a configuration's samples counts.
What other programs took meanwhile is printed."""
import json
import pathlib
import statistics
import tempfile
import unittest

from program import run

ROUNDS, SAMPLES = 3, 3
INPUT, OUTPUT = 128, 48
SHAPE = {"layers": 8, "hidden": 768, "heads": 12, "ffn": 2048, "vocab": 16000, "context": 256}

# Format of weights, texts at once, threads.
CONFIGURATIONS = (("bf16", 1, 2), ("bf16", 4, 2), ("bf16", 16, 1), ("q8_0", 1, 2), ("q8_0", 4, 1), ("q8_0", 16, 2), ("q4_0", 1, 1), ("q4_0", 4, 2))
FIGURES = {"tokens/s": "decode.written_tokens_per_second", "first token": "decode.first_token", "between tokens": "decode.between_tokens"}


class PlannedServing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.recipe = cls.folder / "model.yaml"
        cls.recipe.write_text(f"model: {{family: llama, {', '.join(f'{key}: {value}' for key, value in SHAPE.items())}}}\ntrain: {{steps: 1}}\n")
        for threads in (1, 2):
            run("bench", "machine", "--output", cls.folder / f"{threads}.yaml", "--ranks", 1, "--threads", threads)
            print((cls.folder / f"{threads}.yaml").read_text().splitlines()[1], flush=True)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def predicted(self, weights, batch, threads):
        answer = json.loads(run("plan", self.recipe, "--inference", "--cluster", self.folder / f"{threads}.yaml", "--weights", weights,
                                "--input-tokens", INPUT, "--output-tokens", OUTPUT, "--json"))
        row, = (row for row in answer["rows"] if row["bs"] == batch and row["chunk"] == 512)
        self.assertNotIn("refused", row)
        return {"tokens/s": 1e3 * batch * OUTPUT / row["latency_ms"], "first token": row["ttft_ms"], "between tokens": row["tpot_ms"]}

    def measure(self, weights, batch, threads, samples):
        shape = [word for key, value in SHAPE.items() for word in (f"--{key}", value)]
        quantize = ["--quantize", weights] if weights != "bf16" else []
        lines = map(json.loads, run("bench", "decode", "--family", "llama", *shape, "--dtype", "bf16", *quantize, "--batch", batch, "--threads", threads,
                                    "--prompt", INPUT, "--tokens", OUTPUT, "--samples", SAMPLES, "--json").splitlines())
        figures = {line["name"]: line["samples"] for line in lines}
        for name, key in (*FIGURES.items(), ("load", "decode.other_programs")):
            samples.setdefault(name, []).extend(figures[key])

    def test_formats_batches_and_threads(self):
        predicted = [self.predicted(*configuration) for configuration in CONFIGURATIONS]
        samples = [{} for _ in CONFIGURATIONS]
        for _ in range(ROUNDS):
            for configuration, of_configuration in zip(CONFIGURATIONS, samples):
                self.measure(*configuration, of_configuration)
        errors = {name: [] for name in FIGURES}
        for configuration, of_prediction, of_runs in zip(CONFIGURATIONS, predicted, samples):
            words = []
            for name in FIGURES:
                fastest = sorted(of_runs[name], reverse=name == "tokens/s")
                measured = statistics.mean(fastest[:len(fastest) // 3])
                errors[name].append(abs(of_prediction[name] / measured - 1))
                words.append(f"{name} {of_prediction[name]:.1f} predicted, {measured:.1f} measured ({of_prediction[name] / measured:.2f})")
            print(f"{configuration}: {'; '.join(words)}; others {min(of_runs['load']):.0f} to {max(of_runs['load']):.0f} %", flush=True)
        medians = {name: statistics.median(of_figure) for name, of_figure in errors.items()}
        print(", ".join(f"{name}: median {100 * median:.1f} %, worst {100 * max(errors[name]):.1f} %" for name, median in medians.items()), flush=True)
        for name, median in medians.items():
            self.assertLessEqual(median, 0.15, name)


if __name__ == "__main__":
    unittest.main()
