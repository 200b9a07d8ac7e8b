#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Candidates of a search that are run: python3 confirm_test.py PROGRAM"""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

import mpirun
from program import PROGRAM, ROOT, RoadTest, run, run_json

MODEL = "model: {layers: 2, hidden: 32, heads: 4, context: 16, vocab: 300}\ntrain: {steps: 10, global_batch: 8}\ncheckpoint: {async: false}\n"
# Rates that nobody measured: what is tested is the way, not the figures. Kernels take their operations' time.
HERE = """
name: here
device:
  name: "NAME"
  cores: 1
  memory: 1e9
  bandwidth: 10e9
  launch_seconds: 1e-6
  products: [{type: f32, peak: 50e9, share: 0.9, depth: 20}]
  kernels: [{name: linear_forward, type: f32, flops: 40e9, call_seconds: 1e-6}]
node: {devices: 2}
links: [{name: threads, devices: 0, bandwidth: 5e9, latency_seconds: 2e-6}]
"""


class Confirm(RoadTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.small = cls.folder / "small.yaml"
        cls.small.write_text(MODEL)
        cls.here = cls.folder / "here.yaml"
        cls.here.write_text(HERE.replace("NAME", run_json("doctor")["cpu"]))

    def confirm(self, cluster, name, *more, code=0):
        return run("plan", self.small, "--search", "--cluster", cluster, "--gpus", 2, "--confirm-folder", self.folder / name, *more, code=code)

    @unittest.skipIf(os.cpu_count() < 2, "two cores")
    def test_the_best_are_run_here_and_ranked_by_what_they_took(self):
        best = self.folder / "best.yaml"
        answer = json.loads(self.confirm(self.here, "runs", "--confirm", 2, "--confirm-samples", 2, "--output", best, "--json"))
        trials = answer["confirm"]["trials"]
        self.assertGreaterEqual(len(trials), 2)
        for trial in trials:
            self.assertGreater(trial["measured_seconds"], 0)
            self.assertTrue(0 <= trial["other_programs"] <= 1)
            self.assertGreater(trial["measured_memory_bytes"], 0)
        self.assertGreater(answer["confirm"]["compute"], 0)
        self.assertEqual(answer["confirm"]["commands"], [])
        measured = {trial["layout"]: trial["measured_seconds"] for trial in trials}
        first = answer["candidates"][0]
        self.assertEqual(first["measured_seconds"], min(measured.values()))
        # The recipe that is written is that of the first.
        self.assertIn(f"{first['measured_seconds']:.4g} s", best.read_text().splitlines()[0])
        planned = run_json("plan", best)
        self.assertEqual(planned["ranks"], 2)
        # What a run took is what is planned of it, to the byte.
        for recipe in (self.folder / "runs").glob("*.yaml"):
            figures = {line["name"]: line["value"] for line in map(json.loads, recipe.with_suffix(".1.jsonl").read_text().splitlines())}
            self.assertEqual(figures["train.memory"], figures["train.memory.planned"])
            self.assertLessEqual(figures["train.memory"], run_json("plan", recipe)["memory"]["total"])  # which also saves
        text = self.confirm(self.here, "runs", "--confirm", 1, "--confirm-samples", 1)
        for part in ("measured", "others", "What computes takes"):
            self.assertIn(part, text)

    @unittest.skipIf(os.cpu_count() < 2, "two cores")
    def test_a_run_that_fails_is_a_row_with_its_cause(self):
        launcher = self.folder / "launch"
        launcher.write_text("#!/bin/sh\ncase \"$*\" in *tensor2*) echo 'megalith: out of memory' >&2; exit 1;; esac\nexec \"$@\"\n")
        launcher.chmod(0o755)
        answer = json.loads(self.confirm(self.here, "failing", "--confirm", 100, "--confirm-samples", 1, "--launcher", launcher, "--json"))
        failed = [trial for trial in answer["confirm"]["trials"] if "failure" in trial]
        self.assertTrue(failed)
        for trial in failed:
            self.assertIn("tensor 2", trial["layout"])
            self.assertEqual(trial["failure"], "megalith: out of memory")
            self.assertNotIn("measured_seconds", trial)
        # Others of their cuts may follow, which were not run; what ran comes first.
        ran = [candidate["layout"]["tensor"] for candidate in answer["candidates"] if "measured_seconds" in candidate]
        self.assertEqual(set(ran), {1})
        self.assertEqual([candidate["layout"]["tensor"] for candidate in answer["candidates"][:len(ran)]], ran)
        launcher.write_text("#!/bin/sh\nkill -9 $$\n")
        self.assertIn("ended with signal 9", self.confirm(self.here, "failing", "--confirm", 1, "--launcher", launcher, code=2))
        self.assertIn("cannot be started", self.confirm(self.here, "failing", "--confirm", 1, "--launcher", "no-such-launcher", code=2))

    @unittest.skipUnless(mpirun.MPIRUN and (pathlib.Path(PROGRAM).parent / "libmegalith_mpi.so").exists(), "Open MPI and the plug-in")
    def test_ranks_may_be_processes_of_a_launcher(self):
        os.environ.update({key: mpirun.ENVIRONMENT[key] for key in mpirun.ENVIRONMENT if key.startswith("OMPI_")})
        answer = json.loads(self.confirm(self.here, "mpi", "--confirm", 1, "--confirm-samples", 1, "--launcher", "mpirun -n {ranks}", "--json"))
        self.assertGreater(answer["confirm"]["trials"][0]["measured_seconds"], 0)
        recipe = next((self.folder / "mpi").glob("*.yaml")).read_text()
        self.assertIn("threads: 1", recipe)  # of each process

    def test_another_cluster_has_commands_and_their_results_are_read(self):
        cluster = ROOT / "recipes" / "clusters" / "a100_80gb.yaml"
        more = ("--set", "precision.compute=bf16", "--set", "precision.parameters=bf16", "--confirm", 3, "--json")
        answer = json.loads(self.confirm(cluster, "elsewhere", *more))
        folder = self.folder / "elsewhere"
        commands = answer["confirm"]["commands"]
        self.assertEqual(len(commands), 3)
        script = (folder / "confirm.sbatch").read_text()
        for command in commands:
            self.assertIn(command, script)
            self.assertIn("srun --mpi=pmix megalith bench train", command)
            self.assertTrue(pathlib.Path(command.split()[5]).exists())
        self.assertIn("#SBATCH --nodes=1\n#SBATCH --ntasks=2\n#SBATCH --ntasks-per-node=2\n", script)
        self.assertEqual([trial.get("measured_seconds") for trial in answer["confirm"]["trials"]], [None] * 3)
        # The first is slow there, the second fails, the third has not run.
        names = [pathlib.Path(command.split()[5]).stem for command in commands]
        # The script runs as Slurm's copy of it, from where it was handed over.
        tools = self.folder / "tools"
        tools.mkdir()
        srun = tools / "srun"
        srun.write_text("#!/bin/sh\necho \"$*\" >> ran\nexit 3\n")
        srun.chmod(0o755)
        shutil.copy(folder / "confirm.sbatch", tools / "job")
        subprocess.run(["bash", tools / "job"], cwd="/", check=True, env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "SLURM_SUBMIT_DIR": str(self.folder)})
        self.assertEqual(len((self.folder / "ran").read_text().splitlines()), 3)
        for name in names:
            self.assertIn("megalith: ended with exit code 3", (folder / f"{name}.1.err").read_text())
            (folder / f"{name}.1.err").unlink()
            (folder / f"{name}.1.jsonl").unlink()
        slow = 100 * answer["candidates"][0]["step_seconds"]
        (folder / f"{names[0]}.1.jsonl").write_text("".join(json.dumps({"name": name, "value": value, "samples": [value] * 3}) + "\n" for name, value in (("train.step_seconds", slow), ("train.other_programs", 0))))
        (folder / f"{names[1]}.1.jsonl").write_text("")
        (folder / f"{names[1]}.1.err").write_text("a warning\nmegalith: rank 1: out of memory\n-----\nsrun: error: node: task 1: Exited with exit code 1\n")
        (folder / f"{names[2]}.1.jsonl").write_text("")
        (folder / f"{names[2]}.1.err").write_text("a warning\n")  # under way
        first = answer["confirm"]["trials"][0]["layout"]
        answer = json.loads(self.confirm(cluster, "elsewhere", *more))
        trials = {trial["layout"]: trial for trial in answer["confirm"]["trials"]}
        self.assertEqual(trials[first]["measured_seconds"], slow)
        # Slow as it is, it is the one that ran, and the recipe's figures are not better known.
        self.assertEqual(answer["candidates"][0]["measured_seconds"], slow)
        self.assertIn("megalith: rank 1: out of memory", [trial.get("failure") for trial in trials.values()])
        self.assertGreater(answer["confirm"]["compute"], 2)
        self.assertNotIn(names[0], " ".join(answer["confirm"]["commands"]))
        # Results of another recipe are not taken for this one's.
        shutil.copytree(folder, self.folder / "other")
        say = self.confirm(cluster, "other", *more, "--set", "model.layers=4", code=2)
        self.assertIn("of another recipe", say)
        for samples in ([0], [-1], [1e300], ["x"]):
            (folder / f"{names[0]}.1.jsonl").write_text(json.dumps({"name": "train.step_seconds", "value": 1, "samples": samples}) + "\n")
            self.assertIn(f"{names[0]}.1.jsonl:1: samples holds", self.confirm(cluster, "elsewhere", *more, code=2))
        (folder / f"{names[0]}.1.jsonl").write_text("no json\n")
        self.assertIn(f"{names[0]}.1.jsonl:1: is not a line of", self.confirm(cluster, "elsewhere", *more, code=2))

    def test_what_cannot_be_is_one_line(self):
        for option, values in (("--confirm", ("0", "-1", "x", "101", "1.5")), ("--confirm-samples", ("0", "x", "1001"))):
            for value in values:
                confirm = () if option == "--confirm" else ("--confirm", 1)
                self.assertIn(option, self.confirm(self.here, "x", *confirm, f"{option}={value}", code=2))
        self.assertIn("--confirm", self.confirm(self.here, "x", code=2))
        self.assertIn("--confirm", run("plan", self.small, "--search", "--cluster", self.here, "--launcher", "mpirun", code=2))
        run("plan", self.small, "--confirm", 1, code=2)

    def test_the_file_of_a_machine(self):
        bad = self.folder / "bad.yaml"
        text = self.here.read_text()
        for change, say in ((("node: {devices: 2}", "node: {devices: 2, at_once: 3}"), "node.at_once: 3 is more than node.devices 2"),
                            (("type: f32, flops: 40e9, call_seconds: 1e-6", "type: f32"), "takes no time"), (("{name: linear_forward, type: f32", "{name: linear_forward, type: int8"), "int8 is not f32 or bf16")):
            self.assertIn(change[0], text)
            bad.write_text(text.replace(*change))
            self.assertIn(say, run("plan", self.small, "--search", "--cluster", bad, code=2))


if __name__ == "__main__":
    unittest.main()
