#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The search over layouts by the command line: python3 search_test.py PROGRAM"""
import csv
import json
import unittest

from program import ROOT, RoadTest, run, run_json

CLUSTER = ROOT / "recipes" / "clusters" / "a100_80gb.yaml"
LARGE = ROOT / "recipes" / "large"


class Search(RoadTest):
    def search(self, *more, code=0, recipe=None):
        return run("plan", recipe or LARGE / "gpt3_22b.yaml", "--search", "--cluster", CLUSTER, "--gpus", 8, *more, code=code)

    def test_the_result_as_json_and_as_files(self):
        table, recipe, page = (self.folder / name for name in ("search.csv", "best.yaml", "search.html"))
        result = json.loads(self.search("--json", "--top", 4, "--csv", table, "--output", recipe, "--html", page))
        candidates = result["candidates"]
        self.assertEqual(len(candidates), 4)
        seconds = [candidate["step_seconds"] for candidate in candidates]
        self.assertEqual(seconds, sorted(seconds))
        for candidate in candidates:
            layout = candidate["layout"]
            self.assertEqual(layout["tensor"] * layout["pipeline"] * layout["data"], 8)
            self.assertEqual(candidate["recipe"]["parallel"]["tensor"], layout["tensor"])
            self.assertEqual(candidate["recipe"]["model"]["layers"], 48)
            self.assertAlmostEqual(sum(candidate["parts"].values()), candidate["step_seconds"], places=9)
            self.assertTrue(0 < candidate["mfu"] < 1)
            self.assertLess(candidate["memory_bytes"], 80 << 30)
        self.assertGreater(result["judged"], len(candidates))
        self.assertTrue(result["refused"] and result["assumptions"] and result["sensitivities"] and result["pareto"])
        rows = list(csv.DictReader(table.read_text().splitlines()))
        self.assertEqual([float(row["step_seconds"]) for row in rows], seconds)
        text = page.read_text()
        self.assertIn("What more would buy", text)
        self.assertNotIn("<script", text)
        # The best as a recipe: its plan has the bytes that were said.
        planned = json.loads(run("plan", recipe, "--set", "checkpoint.async=false", "--json"))
        self.assertEqual(planned["ranks"], 8)
        self.assertLessEqual(planned["memory"]["total"], candidates[0]["memory_bytes"])
        again = json.loads(self.search("--json", "--top", 1, recipe=recipe))
        self.assertEqual(again["own"]["place"], 1)

    def test_for_people(self):
        text = self.search("--top", 3)
        for part in ("candidates judged", "  1. ", "MFU %", "Not among them", "memory, mostly", "It rests on", "NVLink"):
            self.assertIn(part, text)

    def test_the_candidates_of_nemo(self):
        folder, table, recipe = (self.folder / name for name in ("nemo", "nemo.csv", "nemo.yaml"))
        more = ("--nemo", "--set", "train.global_batch=64", "--set", "train.micro_batch=1")
        result = json.loads(self.search(*more, "--nemo-size", 22, "--nemo-folder", folder, "--csv", table, "--output", recipe, "--json"))
        nemo, candidates = result["nemo"], result["candidates"]
        self.assertEqual((nemo["family"], nemo["size_in_b"], nemo["nodes"], nemo["gpus_per_node"], nemo["gpu_memory_gb"]), ("gpt3", 22, 1, 8, 80))
        self.assertEqual((nemo["tensor"], nemo["pipeline"], nemo["micro_batch"]), ([1, 2, 4], [1, 2, 3, 4], [1, 2, 4]))
        self.assertEqual((nemo["min_model_parallel"], nemo["max_model_parallel"]), (4, 8))
        # By hand: 1x4, 2x2, 2x4, 4x1, 4x2 and each micro-batch (three stages do not divide 8 GPUs and 64 samples).
        self.assertEqual(nemo["runs"], 15)
        self.assertEqual(len(candidates) + len(result["refused"]), 15)
        self.assertEqual(sorted(row["run"] for row in (*candidates, *result["refused"])), list(range(1, 16)))
        seconds = [candidate["step_seconds"] for candidate in candidates]
        self.assertEqual(seconds, sorted(seconds))
        out = [row for row in result["refused"] if "memory_bytes" in row]
        self.assertEqual(len(out), nemo["out_of_memory"])
        self.assertTrue(candidates and out)
        self.assertLessEqual(result["best_of_all"]["step_seconds"], seconds[0])
        summary = list(csv.DictReader((folder / "final_result" / "final_summary_1nodes.csv").read_text().splitlines()))
        self.assertEqual([float(row["Time per Step"]) for row in summary], [round(second, 4) for second in seconds])
        self.assertEqual([row["TP"] for row in summary], [str(candidate["layout"]["tensor"]) for candidate in candidates])
        failed = list(csv.DictReader((folder / "final_result" / "failed_jobs_1nodes.csv").read_text().splitlines()))
        self.assertEqual([row["Error Message"] for row in failed], ["CUDA out of memory"] * len(out))
        names = sorted(path.stem for path in (folder / "candidate_configs").iterdir())
        self.assertEqual(names, sorted(row["name"] for row in (*candidates, *result["refused"])))
        best = (folder / "final_result" / "optimal_config_22b_1nodes.yaml").read_text()
        self.assertEqual(best, (folder / "candidate_configs" / f"{candidates[0]['name']}.yaml").read_text())
        self.assertEqual([float(row["step_seconds"]) for row in csv.DictReader(table.read_text().splitlines())], seconds)
        planned = json.loads(run("plan", recipe, "--set", "checkpoint.async=false", "--set", "run.threads=1", "--json"))
        self.assertLessEqual(planned["memory"]["total"], candidates[0]["memory_bytes"])
        text = self.search(*more)
        for part in ("NeMo's auto-configurator", "Out of memory", "The best of all", "NeMo's best takes", "It rests on"):
            self.assertIn(part, text)
        for wrong, say in ((("--nemo", "--html", self.folder / "x.html"), "--nemo"), (("--nemo", "--fp8"), "--nemo"), (("--nemo-size", 5), "--nemo"),
                           (("--nemo", "--nemo-size", -1), "--nemo-size")):
            self.assertIn(say, self.search(*wrong, code=2))
        self.assertIn("whole nodes", run("plan", LARGE / "gpt3_22b.yaml", "--search", "--nemo", "--cluster", CLUSTER, "--gpus", 12, code=2))

    def test_what_cannot_be_is_one_line(self):
        bad = self.folder / "bad.yaml"
        text = CLUSTER.read_text()
        for change, say in ((("share: 0.838", "share: 8.38"), "device.products.0.share"), (("bandwidth: 2.039e12", "bandwith: 2"), "device.bandwidth"),
                            (("devices: 0, bandwidth: 25e9", "devices: 12, bandwidth: 25e9"), "links.1.devices")):
            self.assertIn(change[0], text)
            bad.write_text(text.replace(*change))
            message = run("plan", LARGE / "gpt3_22b.yaml", "--search", "--cluster", bad, code=2)
            self.assertIn(say, message)
            self.assertEqual(len(message.strip().splitlines()), 1)
        for more, say in ((("--set", "train.global_batch=3", "--set", "train.micro_batch=1", "--gpus", 4096), "no layout of 4096 devices"), (("--gpus", 1 << 20), "are more than"),
                          (("--gpus", 1), "nothing of")):
            message = run("plan", LARGE / "gpt3_22b.yaml", "--search", "--cluster", CLUSTER, *more, code=2)
            self.assertIn(say, message)
        for option in ("--gpus", "--top"):
            for value in ("x", "", "0", "-1", "1.5", str(2**64)):
                self.assertIn(option, self.search(f"{option}={value}", code=2))
        b200 = ROOT / "recipes" / "clusters" / "b200.yaml"
        self.assertIn("nobody has measured", run("plan", LARGE / "gpt3_22b.yaml", "--search", "--cluster", b200, code=2))
        self.assertIn("--cluster", run("plan", LARGE / "gpt3_22b.yaml", "--search", code=2))
        run("plan", LARGE / "gpt3_22b.yaml", "--cluster", CLUSTER, code=2)
        run("plan", "--paper", "--search", "--cluster", CLUSTER, code=2)


if __name__ == "__main__":
    unittest.main()
