#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a budget pays for, what failures leave over, how a model is served: python3 sizing_test.py PROGRAM"""
import json
import unittest

from program import ROOT, RoadTest, run, run_json

CLUSTERS = ROOT / "recipes" / "clusters"

NEMO = ("--budget", "--nemo", "--tokens", "300B", "--tflops", "140")
GPT3 = ("--budget", "--gpus", 1024, "--days", 34, "--tokens", "300B", "--tflops", 140)
FAILS = ("--goodput", "--gpus", 3072, "--days", 84)
HEAD = "TP,PP,BS,Latency [ms],Throughput per GPU [samples/sec/gpu]\n"
# FasterTransformer, GPT-20B, 60 tokens in and 20 out, and a row of its 530B that ran out of memory.
TABLE = HEAD + "8,1,8,247,4.049\n8,1,16,272,7.353\n4,1,32,418,19.139\n1,1,256,4141,61.821\n16,1,256,OOM,\n"


class Budgets(RoadTest):
    def test_as_nemo_has_it(self):
        for gpus, days, size, layers, hidden in ((160, 5, 4.03, 32, 3072), (1024, 34, 175.47, 96, 12288)):
            answer = run_json("plan", *NEMO, "--gpus", gpus, "--days", days)
            self.assertEqual(answer["nemo"]["size_in_b"], size)
            self.assertEqual((answer["model"]["layers"], answer["model"]["hidden"]), (layers, hidden))
            self.assertEqual(answer["model"], answer["nemo"]["model"])
            self.assertAlmostEqual(answer["days"], days, delta=0.01)

    def test_ours_uses_the_budget_and_no_more(self):
        answer = run_json("plan", *GPT3, "--price", 2)
        self.assertTrue(0.9 * 34 < answer["days"] <= 34)
        self.assertAlmostEqual(answer["days"], answer["flops_per_token"] * 300e9 / (86400 * 1024 * 140e12), places=6)
        self.assertAlmostEqual(answer["cost"], 2 * answer["gpu_hours"])
        self.assertGreater(answer["parameters"], answer["nemo"]["parameters"])  # nothing is computed twice
        full = run_json("plan", *GPT3, "--recompute", "full")
        self.assertLess(full["parameters"], answer["parameters"])
        self.assertEqual(len(answer["compute_optimal"]), 3)
        for other in answer["compute_optimal"]:
            self.assertLess(other["loss"], answer["loss"])
            self.assertGreater(other["tokens"], 300e9)
        self.assertTrue(answer["assumptions"])

    def test_the_recipe_is_whole(self):
        for family, more in (("gpt", ()), ("bert", ()), ("t5", ()), ("llama", ()), ("gpt", ("--nemo",)), ("bert", ("--nemo",)), ("t5", ("--nemo",))):
            with self.subTest(family=family, more=more):
                path = self.folder / "sized.yaml"
                answer = run_json("plan", "--budget", "--gpus", 8, "--days", 2, "--tokens", "5B", "--tflops", 100, "--family", family, "--output", path, *more)
                planned = run_json("plan", path, "--set", "train.global_batch=16")
                self.assertEqual(planned["ranks"], 8)
                self.assertLess(max(rank["memory"]["total"] for rank in planned["per_rank"]), 80e9)
                if not more:
                    self.assertEqual(planned["parameters"], answer["parameters"])

    def test_a_law_of_ones_own_runs(self):
        """Runs that follow a law: it is found, and what it would train."""
        runs = []
        for i, (n, d) in enumerate((n, d) for n in (10**6, 10**7, 10**8) for d in (10**7, 10**8, 10**9)):
            folder = self.folder / f"small-{i}"
            folder.mkdir()
            loss = 1.5 + 300 / n**0.35 + 500 / d**0.3
            (folder / "run.json").write_text(json.dumps({"parameters": n}))
            (folder / "metrics.jsonl").write_text(json.dumps({
                "step": 1, "tokens": d, "samples": 1, "loss": loss, "loss_hex": float.hex(loss), "lr": 0, "grad_norm": 1, "grad_norm_hex": "0x1p+0",
                "step_seconds": 1, "tokens_per_second": 1, "mfu": 0, "memory_bytes": 1}) + "\n")
            runs.append(folder)
        answer = run_json("plan", *GPT3, "--fit-loss", *runs)
        law = answer["fitted_law"]
        for name, value in (("irreducible", 1.5), ("a", 300), ("b", 500), ("alpha", 0.35), ("beta", 0.3)):
            self.assertAlmostEqual(law[name] / value, 1, delta=0.01)
        self.assertAlmostEqual(answer["loss"], 1.5 + 300 / answer["parameters"]**0.35 + 500 / 300e9**0.3, delta=1e-3)
        self.assertLess(answer["loss_standard_error"], 1e-3)
        self.assertEqual(answer["compute_optimal"][0]["source"], "fitted to the given runs")
        self.assertLess(answer["compute_optimal"][0]["loss"], answer["loss"])
        self.assertIn("fitted to 9 runs", run("plan", *GPT3, "--fit-loss", *runs))
        self.assertIn("5 runs", run("plan", *GPT3, "--fit-loss", *runs[:5], code=2))
        self.assertIn("run.json", run("plan", *GPT3, "--fit-loss", self.folder, code=2))

    def test_bad_budgets(self):
        for options, say in ((("--budget",), "--gpus"), (("--budget", "--gpus", 1, "--days", 1, "--tokens", "1T", "--tflops", 1), "pays for no model"),
                             (("--budget", "--gpus", 8, "--days", 1, "--tokens", "30b", "--tflops", 1), "300B"),
                             (("--budget", "--gpus", 8, "--days", 1, "--tokens", "30B", "--tflops", "nan"), "--tflops"),
                             (("--budget", "--gpus", 8, "--days", -1, "--tokens", "30B", "--tflops", 100), "--days"),
                             ((*NEMO, "--gpus", 10**6, "--days", 1000), "1105"), ((*NEMO, "--gpus", 8, "--days", 9, "--family", "llama"), "--nemo knows no --family"),
                             ((*GPT3, "--family", "gpt5"), "gpt5"), (("--price", 2), "--price goes with --budget"), ((*GPT3, "--seed", 2), "--seed goes with --goodput"),
                             ((*GPT3, "--goodput"), "excludes"), ((self.recipe, *GPT3), "takes no recipe"), ((*GPT3, "--paper"), "--paper")):
            with self.subTest(options=options):
                self.assertIn(say, run("plan", *options, code=2))


class Goodput(RoadTest):
    def test_the_simulation_is_the_formula(self):
        answer = run_json("plan", *FAILS, "--write-seconds", 60)
        simulated = answer["simulated"]
        self.assertAlmostEqual(simulated["days"], answer["days"], delta=4 * simulated["days_standard_error"])
        self.assertLess(simulated["days_standard_error"], 0.01)
        self.assertAlmostEqual(sum(answer["shares"].values()), 1)
        self.assertAlmostEqual(answer["goodput"], 84 / answer["days"])
        self.assertTrue(simulated["days_p05"] < simulated["days_p50"] < simulated["days_p95"])
        named = {choice["name"]: choice for choice in answer["intervals"]}
        for name in ("half of it", "twice", "Young 1974", "Daly 2006"):
            self.assertGreaterEqual(named[name]["days"], named["best"]["days"] - 1e-6)
        self.assertEqual(answer, run_json("plan", *FAILS, "--write-seconds", 60))
        self.assertNotEqual(simulated, run_json("plan", *FAILS, "--write-seconds", 60, "--seed", 2)["simulated"])
        self.assertIn("goodput", run("plan", *FAILS))

    def test_bad_ones(self):
        for options, say in ((("--goodput", "--gpus", 8), "--days"), (("--goodput", "--days", 8), "--gpus"), ((*FAILS, "--mtbf-hours", 0), "--mtbf-hours"),
                             ((*FAILS, "--mtbf-hours", 1), "does not end"), ((*FAILS, "--save-seconds", 0), "--interval-minutes"),
                             ((*FAILS, "--save-seconds", -1), "--save-seconds"), ((*FAILS, "--write-seconds", 600, "--interval-minutes", 5), "set the interval"),
                             ((*FAILS, "--interval-minutes", 0.001, "--runs", 1000000), "--runs"), ((*FAILS, "--tokens", "3B"), "--tokens goes with --budget")):
            with self.subTest(options=options):
                self.assertIn(say, run("plan", *options, code=2))


class Inference(RoadTest):
    def measured(self, text, *options, code=0):
        path = self.folder / "measured.csv"
        path.write_text(text)
        return run("plan", "--inference", "--measured", path, *options, code=code)

    def test_a_measured_table(self):
        answer = json.loads(self.measured(TABLE, "--max-latency-ms", 400, "--json"))
        self.assertEqual((answer["pick"]["tp"], answer["pick"]["bs"]), (8, 16))
        self.assertEqual([row["bs"] for row in answer["pareto"]], [8, 16])
        self.assertEqual(len(answer["rows"]), 5)
        self.assertEqual(answer["rows"][4]["refused"], "OOM")
        self.assertIn("--max-latency-ms", answer["rows"][3]["refused"])
        text = self.measured(TABLE)
        self.assertRegex(text, r"pick +1 +1 +256 ")
        self.assertIn("1 without figures: OOM", text)

    def test_a_cluster(self):
        request = ("--inference", "--cluster", CLUSTERS / "a100_80gb.yaml", "--input-tokens", 512, "--output-tokens", 64, "--gpus", 2)
        recipe = (ROOT / "recipes" / "gpt2_124m.yaml", "--set", "model.layers=24", "--set", "model.hidden=2048", "--set", "model.heads=16")
        answer = run_json("plan", *recipe, *request, "--max-tpot-ms", 8)
        pick = answer["pick"]
        self.assertLessEqual(pick["tpot_ms"], 8)
        within = [row for row in answer["rows"] if "refused" not in row]
        self.assertEqual(pick["throughput_per_gpu"], max(row["throughput_per_gpu"] for row in within))
        self.assertLess(len(within), len(answer["rows"]))
        for row in within:
            self.assertAlmostEqual(row["throughput_per_gpu"], 1000 * row["bs"] / row["latency_ms"] / row["tp"] / row["pp"])
            # Between tokens is the mean of the text that waits most: one that began before others were read.
            waits = row["ttft_ms"] + 63 * row["tpot_ms"] - row["latency_ms"]
            self.assertGreaterEqual(waits, -1e-6)
            if row["bs"] == 1:
                self.assertLess(waits, 1e-6)
            self.assertGreaterEqual(row["kv_blocks"][0], row["bs"])
        calm, busy = (run_json("plan", *recipe, *request, "--arrivals", rate)["pick"] for rate in (0.1, 20))
        self.assertLess(calm["ttft_ms"], busy["ttft_ms"])
        self.assertEqual(busy["throughput_per_gpu"] * busy["tp"] * busy["pp"], 20)
        text = run("plan", *recipe, *request, "--weights", "bf16,q8_0")
        self.assertIn("q8_0", text)
        for options, say in (((*request[:1],), "recipe or checkpoint"), ((*recipe, "--inference"), "--cluster"), ((*recipe, *request, "--weights", "q9"), "q9"),
                             ((*recipe, *request, "--set", "model.context=100"), "context"), ((*recipe, *request, "--arrivals", 1e5), "queue grows"),
                             ((*recipe, *request, "--max-ttft-ms", 1e-3), "none of"), ((ROOT / "recipes" / "t5_small.yaml", *request[:3]), "one stack of layers"),
                             ((*recipe, "--inference", "--cluster", self.recipe), "recipe.yaml"), ((*recipe, "--arrivals", 2), "--arrivals goes with --inference")):
            with self.subTest(options=options):
                self.assertIn(say, run("plan", *options, code=2))

    def test_bad_tables(self):
        for text, options, say in ((TABLE, ("--max-latency-ms", 30), "the least latency is 247"), (TABLE, ("--max-ttft-ms", 30), "TTFT [ms]"), ("", (), "no rows"),
                                   (HEAD + "1,1,1\n", (), ":2: has 3 cells"), (HEAD + "1,1,1,OOM,\n", (), "OOM"), (TABLE, (self.recipe,), "takes no recipe"),
                                   (TABLE, ("--cluster", CLUSTERS / "h100.yaml"), "--cluster"), (TABLE, ("--max-latency-ms", "x"), "--max-latency-ms"), (TABLE, ("--days", 3), "--days goes with")):
            with self.subTest(say=say):
                self.assertIn(say, self.measured(text, *options, code=2))
        self.assertIn("absent.csv", run("plan", "--inference", "--measured", self.folder / "absent.csv", code=2))


if __name__ == "__main__":
    unittest.main()
