#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run and its folder from start to start: its lock, the judgement of changed recipes, what earlier starts left, the accounts of
its time: python3 runs_test.py PROGRAM"""
import hashlib
import json
import os
import resource
import signal
import socket
import time
import unittest

from program import ENDLESS, PATIENCE, RoadTest, ended, run, run_json, wait_for

LONG = (*ENDLESS, "checkpoint.every=0")


class Starts(RoadTest):
    def started(self, out, *overrides):
        """A run that has taken a few steps."""
        process = self.start(out, *overrides)
        lock, metrics = self.folder / out / "lock", self.folder / out / "metrics.jsonl"

        def runs():
            try:
                mine = json.loads(lock.read_text())["pid"] == process.pid
                return mine and metrics.stat().st_size > 2000 and metrics.stat().st_mtime > lock.stat().st_mtime
            except (OSError, ValueError):
                return False

        if not wait_for(runs, process):
            process.kill()
            self.fail(process.communicate()[1])
        return process

    def stopped(self, process):
        """What it said when it was told to stop, and did."""
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, 143, said)
        return said


def files_of(folder):
    """What lies in a run folder and when it was written, without the files that a run always appends to."""
    return {p: (p.stat().st_size, p.stat().st_mtime_ns) for p in folder.rglob("*")
            if p.is_file() and p.name != "metrics.jsonl" and not p.name.startswith("events.")}


class Lock(Starts):
    def test_the_second_run_in_a_folder_is_refused_and_harms_nothing(self):
        out = self.folder / "locked"
        first = self.started("locked", *LONG)
        try:
            planted = out / "checkpoints" / ".tmp-fedcba9876543210"
            planted.mkdir()
            before = files_of(out)
            message = self.train("locked", *LONG, code=2)
            self.assertIn(f"process {first.pid} on host {socket.gethostname()}", message)
            self.assertIn("run.out", message)
            self.assertEqual(message.count("\n"), 1)
            self.assertEqual(files_of(out), before)
        finally:
            first.kill()
            first.communicate()
        # The kernel has let go of the lock; what it left is recognised as stale.
        self.assertTrue((out / "lock").exists())
        self.assertIn(f"process {first.pid} on host", self.stopped(self.started("locked", *LONG)))
        self.assertFalse((out / "lock").exists())
        self.assertFalse(planted.exists())


class ChangedRecipe(RoadTest):
    def allow(self, out, keys, *overrides, code=0):
        return run(*self.command(out, *overrides)[1:], *(word for k in keys for word in ("--allow", k)), code=code)

    def test_each_change_is_judged(self):
        self.train("run", "train.steps=4")
        before = self.state("run")
        for change, say in (("optimizer.lr=2e-2", "--allow optimizer.lr"), ("model.hidden=64", "old shape"),
                            ("run.seed=3", "--allow run.seed"), ("precision.compute=bf16", "--allow precision.compute")):
            message = self.train("run", "train.steps=8", change, code=2)
            self.assertIn(say, message)
            self.assertIn(change.split("=")[0], message)
        self.assertIn("optimizer.lr", self.allow("run", ["optimizer.rl"], code=2))
        self.assertIn("model.hidden", self.allow("run", ["model.hidden"], "model.hidden=64", code=2))
        self.assertEqual(self.state("run"), before)
        changed = ("train.steps=8", "optimizer.lr=2e-2")
        self.allow("run", ["optimizer.lr"], *changed)
        # What was allowed once is the recipe now.
        self.train("run", *changed)
        self.assertIn("optimizer.lr", self.train("run", "train.steps=12", code=2))
        self.train("run", *changed[1:], "train.steps=12", "train.micro_batch=2", "memory.recompute=full", "run.threads=2",
                   "checkpoint.every=3")

    def test_data_and_tokenizer_are_judged_by_content(self):
        self.train("moved", "train.steps=4")
        for suffix in ("bin", "idx"):
            (self.folder / f"copy.{suffix}").write_bytes((self.folder / f"corpus.{suffix}").read_bytes())
        (self.folder / "copy.json").write_bytes((self.folder / "tokenizer.json").read_bytes())
        moved = (f"data.train={self.folder / 'copy'}", f"data.tokenizer={self.folder / 'copy.json'}")
        self.train("moved", "train.steps=8", *moved)
        text = self.folder / "other.txt"
        text.write_text("the cat sees the dog.\n" * 400)
        run("pack", "--tokenizer", self.folder / "tokenizer.json", "--input", text, "--document", "line", "--output",
            self.folder / "copy")
        self.assertIn("--allow data.train", self.train("moved", "train.steps=12", *moved, code=2))
        self.allow("moved", ["data.train"], "train.steps=12", *moved)


    def test_a_token_in_the_middle_of_the_data_counts(self):
        """Of a corpus of more than the first and the last MiB."""
        source = self.folder / "large.txt"
        source.write_text("the cat sees the dog.\n" * 260_000)
        run("pack", "--tokenizer", self.folder / "tokenizer.json", "--input", source, "--output", self.folder / "large")
        tokens = self.folder / "large.bin"
        whole = tokens.read_bytes()
        self.assertGreater(len(whole), 3 << 20)
        data = (f"data.train={self.folder / 'large'}", "data.validation_fraction=0", "train.validate_every=0", "optimizer.schedule=constant")
        self.train("middle", *data, "train.steps=4")
        changed = bytearray(whole)
        at = len(whole) // 2 & ~1
        changed[at] ^= 1
        tokens.write_bytes(changed)
        self.assertIn("--allow data.train", self.train("middle", *data, "train.steps=8", code=2))
        tokens.write_bytes(whole)
        self.train("middle", *data, "train.steps=8")


class Links(RoadTest):
    def test_links_inside_a_run_folder_are_not_followed(self):
        self.train("linked", "train.steps=4", "optimizer.schedule=constant")
        out, mine = self.folder / "linked", self.folder / "mine"
        mine.mkdir()
        (events,) = out.glob("events.*")
        for name in ("checkpoints", "run.json", "metrics.jsonl", "samples.jsonl", "lock", events.name):
            with self.subTest(name=name):
                place, other = out / name, mine / name
                existed = place.exists()
                if existed:
                    place.rename(other)
                else:
                    other.write_text("mine")
                if other.is_dir():
                    (other / ".tmp-mine").write_text("mine")
                place.symlink_to(other)
                before = {p: (p.lstat().st_ino, p.lstat().st_mtime_ns) for p in mine.rglob("*")}
                said = self.train("linked", "train.steps=8", "optimizer.schedule=constant", code=2)
                self.assertIn(str(place), said)
                self.assertEqual(said.count("megalith: "), 1, said)
                self.assertEqual({p: (p.lstat().st_ino, p.lstat().st_mtime_ns) for p in mine.rglob("*")}, before)
                place.unlink()
                if existed:
                    other.rename(place)
        # A run folder as a whole may be elsewhere; files that are written whole replace a link.
        (mine / "page").write_text("mine")
        out.rename(mine / "run")
        out.symlink_to(mine / "run")
        for name in ("report.html", "recipe.yaml"):
            (out / name).unlink()
            (out / name).symlink_to(mine / "page")
        self.train("linked", "train.steps=8", "optimizer.schedule=constant")
        self.assertEqual((mine / "page").read_text(), "mine")


class Finished(Starts):
    def again(self, out, **options):
        return ended(self.command(out), **options)

    def test_a_finished_run_is_answered_from_its_files(self):
        self.train("done")
        out = self.folder / "done"
        last = self.metrics("done")[-1]
        before = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file() and p.name != "report.html"}
        # Less memory than any run may have: the question does not come up.
        limit = 180 << 20
        result = self.again("done", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assertEqual(result.returncode, 0, result.stderr)
        said = json.loads(result.stdout)
        self.assertEqual((said["status"], said["step"], said["loss_hex"]), ("already finished", last["step"], last["loss_hex"]))
        self.assertEqual({p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file() and p.name != "report.html"}, before)
        # One that was killed behind its last save says so now.
        record = json.loads((out / "run.json").read_text())
        (out / "run.json").write_text(json.dumps({**record, "status": "running"}))
        self.assertEqual(self.again("done").returncode, 0)
        self.assertEqual(json.loads((out / "run.json").read_text()), record)
        # It is judged like any resume, and with more steps there is something to do.
        self.assertIn("--allow optimizer.lr", self.train("done", "optimizer.lr=3e-2", code=2))
        # A damaged end is not an end.
        newest = sorted((out / "checkpoints").iterdir())[-1]
        (state,) = newest.glob("*.safetensors")
        state.write_bytes(state.read_bytes()[:-1] + b"?")
        result = self.again("done")
        self.assertEqual((result.returncode, json.loads(result.stdout)["status"]), (0, "finished"), result.stderr)
        self.assertIn("passing over", result.stderr)
        self.assertEqual(json.loads((out / "run.json").read_text())["state_sha256"], record["state_sha256"])

    def test_a_report_that_fails_is_a_warning(self):
        self.train("report", "train.steps=2", "optimizer.schedule=constant")
        out = self.folder / "report"
        (out / "report.html").unlink()
        (out / "report.html").mkdir()
        self.assertEqual(json.loads(self.train("report", "train.steps=3", "optimizer.schedule=constant"))["step"], 3)
        self.assertIn("no report", self.stopped(self.started("report", *LONG)))


class Samples(RoadTest):
    def test_their_memory_is_planned(self):
        for layout in ((), ("parallel.tensor=2", "parallel.pipeline=2")):
            out = f"samples-{len(layout)}"
            self.train(out, "train.steps=2", "train.sample_every=1", "train.sample_prompts=[the cat sees the dog, a]",
                       "train.sample_tokens=30", *layout)
            memory = json.loads((self.folder / out / "run.json").read_text())["memory"]
            for name, planned in memory["planned"].items():
                self.assertEqual(memory["measured"][name], planned, name)
            texts = [json.loads(line)["text"] for line in (self.folder / out / "samples.jsonl").read_text().splitlines()]
            self.assertEqual(len(texts), 4)
            self.texts = getattr(self, "texts", texts)
            self.assertEqual(texts, self.texts, "the layout changes a text")


class Initial(RoadTest):
    """train.init: another model's weights, a fresh optimizer."""

    def losses(self, out):
        return [m["loss_hex"] for m in self.metrics(out)]

    def test_a_run_begins_with_the_weights_of_another(self):
        steady = ["train.steps=4", "optimizer.schedule=constant", "train.validate_every=1"]
        self.train("first", *steady)
        first = self.folder / "first"
        run("convert", "--from", first, "--to", self.folder / "hf", "--format", "hf")
        runs = {}
        for name, more in {"run": [f"train.init={first}"], "hf": [f"train.init={self.folder / 'hf'}"],
                           "t2": [f"train.init={first}", "parallel.tensor=2"],
                           "zero": [f"train.init={first}", "parallel.data_shards=2", "parallel.data=2", "parallel.zero=1"]}.items():
            self.train(f"init-{name}", *steady, *more)
            runs[name] = self.losses(f"init-{name}")
        self.assertEqual(runs["hf"], runs["run"])
        self.assertEqual(runs["t2"], runs["run"])
        self.assertLess(self.metrics("init-zero")[0]["loss"], self.metrics("first")[0]["loss"])
        # The weights are the first run's, the optimizer is not: a step from them moves as a first step does.
        last, begun = self.metrics("first")[-1], self.metrics("init-run")[0]
        self.assertLess(abs(begun["loss"] - last["loss"]), abs(begun["loss"] - self.metrics("first")[0]["loss"]))
        # A resume goes on from the checkpoint, also where the source is gone.
        (self.folder / "hf").rename(self.folder / "gone")
        self.assertEqual(json.loads(self.train("init-hf", *steady, f"train.init={self.folder / 'hf'}"))["status"], "already finished")
        self.train("init-hf", "train.steps=5", *steady[1:], f"train.init={self.folder / 'hf'}")
        self.assertEqual(len(self.losses("init-hf")), 5)

    def test_a_restart_keeps_the_source(self):
        self.train("itself", "train.steps=1", "optimizer.schedule=constant")
        command = [*self.command("itself", "train.steps=2", "optimizer.schedule=constant", f"train.init={self.folder / 'itself'}"), "--restart"]
        error = ended(command)
        self.assertEqual(error.returncode, 2, error.stderr)
        self.assertIn("--restart", error.stderr)
        self.assertTrue((self.folder / "itself" / "checkpoints").exists())

    def test_another_model_is_refused(self):
        self.train("small", "train.steps=1", "optimizer.schedule=constant")
        error = ended(self.command("wider", "model.hidden=64", f"train.init={self.folder / 'small'}", "optimizer.schedule=constant"))
        self.assertEqual(error.returncode, 2, error.stderr)
        self.assertIn("hidden", error.stderr)
        self.assertFalse((self.folder / "wider" / "metrics.jsonl").exists())
        error = ended(self.command("none", f"train.init={self.folder / 'nothing'}", "optimizer.schedule=constant"))
        self.assertEqual(error.returncode, 2, error.stderr)


class Frozen(RoadTest):
    """optimizer.frozen, in bf16: what stays as it was has no optimizer state, and every command reads the run."""
    STEADY = ("optimizer.schedule=constant", "precision.parameters=bf16", "train.sample_every=2", "train.sample_prompts=[a]")
    SOME = "optimizer.frozen=[embedding.*, layers.0.*]"

    def test_a_run_is_stopped_resumed_and_read(self):
        self.train("straight", *self.STEADY, self.SOME, "train.steps=4")
        self.train("stopped", *self.STEADY, self.SOME, "train.steps=2")
        self.train("stopped", *self.STEADY, self.SOME, "train.steps=4")
        self.same("stopped", "straight")
        out, hf = self.folder / "straight", self.folder / "frozen-hf"
        run("evaluate", "perplexity", "--checkpoint", out, "--input", self.folder / "text.txt")
        run("convert", "--from", out, "--to", hf, "--format", "hf")
        self.assertEqual(json.loads((hf / "config.json").read_text())["torch_dtype"], "float32")
        self.train("begun", *self.STEADY, "train.steps=1", f"train.init={out}")

    def test_a_resume_may_freeze_more_but_not_less(self):
        self.train("more", *self.STEADY, "train.steps=2")
        command = self.command("more", *self.STEADY, self.SOME, "train.steps=3")
        error = ended(command)
        self.assertEqual(error.returncode, 2, error.stderr)
        self.assertIn("--allow optimizer.frozen", error.stderr)
        self.assertEqual(ended([*command, "--allow", "optimizer.frozen"]).returncode, 0)
        less = ended([*self.command("more", *self.STEADY, "train.steps=4"), "--allow", "optimizer.frozen"])
        self.assertEqual(less.returncode, 2, less.stderr)
        self.assertIn("was frozen when this was saved", less.stderr)
        self.assertIn("train.init", less.stderr)


class Arithmetic(RoadTest):
    """There is one arithmetic, and what the CPU has for bf16 is said."""

    BF16 = ("precision.parameters=bf16", "precision.compute=bf16")

    def begun(self, out, *settings):
        result = ended(self.command(out, "train.steps=2", *settings))
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def test_what_bf16_would_gain_is_said_where_the_cpu_has_it(self):
        gain = "precision.parameters and precision.compute bf16 would multiply matrices"
        said = self.begun("f32")
        self.assertEqual(gain in said, run_json("doctor")["bf16_products"] == "VDPBF16PS", said)
        self.assertNotIn(gain, self.begun("bf16", *self.BF16))

    def test_fast_is_exact_without_amx(self):
        if run_json("doctor")["amx"]:
            self.skipTest("this CPU has AMX")
        for name, precision in (("f32", ()), ("bf16", self.BF16)):
            for numerics in ("exact", "fast"):
                self.begun(f"{numerics}-{name}", f"numerics={numerics}", *precision)
            self.same(f"exact-{name}", f"fast-{name}")


class Profile(RoadTest):
    def test_a_profile_has_kernels_parts_and_a_timeline(self):
        said = ended([*self.command("profiled", "train.steps=4"), "--profile", "2"]).stderr
        lines = said.splitlines()
        tables = {line.split()[0]: n for n, line in enumerate(lines) if "ms/step" in line and "roofline" in line}
        self.assertEqual(set(tables), {"kernel", "part"}, said)
        for table, wanted in (("kernel", {"attention_forward", "linear_forward", "linear_backward_weight", "adamw"}),
                              ("part", {"layers.*.attention", "layers.*.mlp", "head", "embedding", "optimizer"})):
            rows = {}
            for line in lines[tables[table] + 1:]:
                if not line.strip():
                    break
                name, milliseconds, share, *rest = line.split()
                rows[name] = float(share.rstrip("%"))
                self.assertRegex(rest[-1], r"^\d+%$")
            self.assertLessEqual(wanted, set(rows))
            self.assertLess(sum(rows.values()), 101)
        self.assertRegex(said, r"2 steps of [\d.]+ ms; between kernels [\d.]+ ms \([\d.]+ %\); the least that this work takes")
        events = json.loads((self.folder / "profiled" / "profile.json").read_text())
        self.assertLessEqual({"linear_forward", "attention_backward", "adamw"}, {e.get("name") for e in events})
        self.assertTrue(all(e["dur"] >= 0 for e in events if e["ph"] == "X"))


class Leftovers(RoadTest):
    def test_what_a_killed_run_was_writing_goes_at_the_next_start(self):
        run_folder = self.folder / "left"
        self.train("left", "train.steps=2", "optimizer.schedule=constant")
        for steps in (3, 3):  # also when there is nothing else to do
            for place in (run_folder, run_folder / "checkpoints"):
                (place / ".tmp-0123456789abcdef").write_text("half")
            self.train("left", f"train.steps={steps}", "optimizer.schedule=constant")
            self.assertEqual(list(run_folder.rglob(".tmp-*")), [])

    def test_checkpoints_that_a_killed_run_had_no_time_to_remove(self):
        many = ("train.steps=4", "checkpoint.every=1")
        self.train("many", *many, "checkpoint.keep=4")
        self.assertEqual(len(list((self.folder / "many" / "checkpoints").iterdir())), 4)
        self.train("many", *many)
        self.assertEqual(sorted(p.name for p in (self.folder / "many" / "checkpoints").iterdir()), ["step-00000003", "step-00000004"])

    def test_logs_of_steps_behind_the_end_are_cut(self):
        """Killed behind its last save, and then told that this was its end."""
        self.train("behind", "train.sample_every=4", "train.sample_prompts=[the]", "train.sample_tokens=2")
        out = self.folder / "behind"
        (events,) = out.glob("events.*")
        logs = {path: path.read_bytes() for path in (out / "metrics.jsonl", out / "samples.jsonl", events)}
        for path, content in logs.items():
            path.write_bytes(content + (content if path == events else content.splitlines(True)[-1].replace(b'"step":12', b'"step":13')) + b'{"to')
            said = json.loads(self.train("behind", "train.sample_every=4", "train.sample_prompts=[the]", "train.sample_tokens=2"))
            self.assertEqual((said["status"], said["step"]), ("finished", 12))
            for other, was in logs.items():
                self.assertEqual(other.read_bytes(), was, (path, other))

    def test_a_record_that_cannot_be_read_is_said(self):
        self.train("record", "train.steps=2", "optimizer.schedule=constant")
        (self.folder / "record" / "run.json").write_text('{"name": ')
        result = ended(self.command("record", "train.steps=3", "optimizer.schedule=constant"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("run.json", result.stderr)
        self.assertIn("begins anew", result.stderr)

    def test_planted_temporary_names_lead_nowhere(self):
        """Links under names that a run takes for what a crash left: what they lead to is not touched."""
        self.train("planted", "train.steps=2", "optimizer.schedule=constant")
        run_folder, mine = self.folder / "planted", self.folder / "not-yours"
        (mine / "below").mkdir(parents=True)
        (mine / "file").write_text("mine")
        (mine / "below" / "file").write_text("mine")
        before = {p: (p.lstat().st_ino, p.lstat().st_mtime_ns) for p in mine.rglob("*")}
        for place in (run_folder, run_folder / "checkpoints"):
            (place / ".tmp-0123456789abcdef").symlink_to(mine)
            (place / ".tmp-fedcba9876543210").symlink_to(mine / "file")
            (place / ".tmp-0000000000000000").symlink_to(mine / "nowhere")
        self.train("planted", "train.steps=4", "optimizer.schedule=constant")
        self.assertEqual({p: (p.lstat().st_ino, p.lstat().st_mtime_ns) for p in mine.rglob("*")}, before)
        self.train("unplanted", "train.steps=4", "optimizer.schedule=constant")
        self.same("planted", "unplanted")


class NoCheckpointYet(Starts):
    def killed(self, out, *overrides):
        process = self.started(out, *LONG, *overrides)
        process.kill()
        process.communicate()

    def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew_and_says_so(self):
        self.killed("early")
        self.assertGreater(self.logged("early"), 0)
        result = ended(self.command("early", *LONG, "train.steps=4"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("before its first checkpoint was complete"), 1, result.stderr)
        self.assertEqual([m["step"] for m in self.metrics("early")], [1, 2, 3, 4])
        self.assertEqual(len(list((self.folder / "early").glob("events.*"))), 1)

    def test_a_checkpoint_that_was_resumed_from_is_remembered(self):
        """Also when the run was killed between its save and its record."""
        self.train("resumed", *LONG, "train.steps=2")
        out = self.folder / "resumed"
        record = json.loads((out / "run.json").read_text())
        del record["state_sha256"], record["checkpoint"]
        (out / "run.json").write_text(json.dumps(record))
        self.killed("resumed")
        for folder in (out / "checkpoints").iterdir():
            folder.rename(self.folder / folder.name)
        self.assertIn("a checkpoint of step 2", self.train("resumed", *LONG, code=3))

    def test_what_others_put_into_a_run_folder_stays(self):
        out = self.folder / "shared"
        (out / "checkpoints" / "backup").mkdir(parents=True)
        (out / "checkpoints" / "step-00000002").mkdir()
        (out / "checkpoints" / ".tmp-mine").mkdir()
        for name in ("events.out.tfevents.1700000000.other.7.0", "notes.jsonl", ".tmp-mine-0123456789abcdef", "checkpoints/backup/x",
                     "checkpoints/.tmp-mine/x", "checkpoints/.tmp-0123456789abcdef0"):
            (out / name).write_text("mine\n")
        mine = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
        (out / "checkpoints" / "step-00000002").rename(self.folder / "later")
        self.killed("shared")  # begins
        self.train("shared", *LONG, "train.steps=3")  # begins anew
        (self.folder / "later").rename(out / "checkpoints" / "step-00000002")
        (out / "checkpoints" / "step-00000002" / "mine").write_text("mine\n")
        mine[out / "checkpoints" / "step-00000002" / "mine"] = b"mine\n"
        self.train("shared", *LONG, "checkpoint.every=1", "train.steps=8")  # goes on, and removes old checkpoints
        self.assertEqual({p: p.read_bytes() for p in mine if p.exists()}, mine)
        self.assertEqual(len(list(out.glob("events.*"))), 2)


class NewerFormat(RoadTest):
    def test_a_checkpoint_of_a_newer_program_is_refused_and_untouched(self):
        self.train("newer", "train.steps=8")
        newest = self.folder / "newer" / "checkpoints" / "step-00000008"
        manifest = json.loads((newest / "manifest.json").read_text())
        text = json.dumps({**manifest, "format_version": 4, "files": "elsewhere"})
        (newest / "manifest.json").write_text(text)
        (newest / "COMMIT").write_text(hashlib.sha256(text.encode()).hexdigest() + "\n")
        before = {p: p.read_bytes() for p in (self.folder / "newer" / "checkpoints").rglob("*") if p.is_file()}
        for steps in (8, 12):
            said = self.train("newer", f"train.steps={steps}", code=2)
            self.assertIn(str(newest), said)
            self.assertIn("version 4, and this program reads 1 to 3", said)
            self.assertEqual({p: p.read_bytes() for p in (self.folder / "newer" / "checkpoints").rglob("*") if p.is_file()}, before)
        run("generate", "--checkpoint", self.folder / "newer", "--prompt", "the", code=2)


class Corpus(Starts):
    def test_one_that_shrinks_under_a_run_is_named_and_nothing_is_lost(self):
        for suffix in ("bin", "idx"):
            (self.folder / f"live.{suffix}").write_bytes((self.folder / f"corpus.{suffix}").read_bytes())
        tokens = (self.folder / "live.bin").read_bytes()
        data = (*ENDLESS, f"data.train={self.folder / 'live'}", "checkpoint.every=1")
        process = self.started("shrinks", *data)
        os.truncate(self.folder / "live.bin", 64)
        said = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, 3, said)
        (line,) = [line for line in said.splitlines() if line.startswith("megalith: ")]
        self.assertIn(str(self.folder / "live.bin"), line)
        steps = self.metrics("shrinks")[-1]["step"]
        self.assertIn(str(self.folder / "live."), self.train("shrinks", *data, code=3))
        (self.folder / "live.bin").write_bytes(tokens)
        self.train("shrinks", *data, f"train.steps={steps + 2}")
        self.assertEqual([m["step"] for m in self.metrics("shrinks")], list(range(1, steps + 3)))


class Time(Starts):
    def test_the_buckets_sum_to_the_wall_time_over_restarts(self):
        out = self.folder / "time"
        begin, ran = time.time(), []
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            process = self.started("time", *LONG)
            ran.append(time.time())
            before = self.logged("time")
            self.assertTrue(wait_for(lambda: self.logged("time") >= before + 5, process))
            process.send_signal(number)
            process.communicate(timeout=PATIENCE)
            time.sleep(0.4)
        self.train("time", *LONG, "train.steps=1")
        steps = json.loads((out / "run.json").read_text())["accounts"]["step"] + 5
        last = time.time()
        self.train("time", *LONG, f"train.steps={steps}")
        accounts = json.loads((out / "run.json").read_text())["accounts"]
        total = sum(accounts["buckets"].values())
        self.assertAlmostEqual(total, accounts["wall_seconds"], delta=0.005 * total)
        # From the start of the first process to the end of the last.
        slack = 2  # a busy machine may let a process wait between the looks at its clocks
        self.assertTrue(begin - slack <= accounts["since"] <= ran[0], (begin, ran, accounts))
        self.assertTrue(last <= accounts["until"] <= time.time() + slack, (last, accounts))
        self.assertGreater(accounts["buckets"]["idle"], 1.0)
        self.assertGreater(accounts["buckets"]["lost_steps"], 0)
        self.assertGreater(accounts["useful"], 0)
        page = (out / "report.html").read_text().split("<h2>Time")[1].split("</article>")[0]
        for name, seconds in accounts["buckets"].items():
            self.assertEqual(f'<th scope="row">{name.replace("_", " ")}</th>' in page, seconds > 0, name)


if __name__ == "__main__":
    unittest.main()
