#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What reaches a run from outside: signals, full disks, odd paths, closed log targets, limits:
python3 signals_and_environment_test.py PROGRAM"""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import random
import resource
import signal
import statistics
import subprocess
import tempfile
import termios
import time
import unittest

from program import ENDLESS, LONGEST_PATH, PATIENCE, PROGRAM, RoadTest, ended, path_of, run, wait_for

ROOT = os.geteuid() == 0


def is_saving(folder):
    """A save has begun its first file. Folders come and go while this looks."""
    try:
        return any((folder / "checkpoints").glob(".tmp-*/*"))
    except FileNotFoundError:
        return False


def has_begun(folder):
    """The start that holds the lock has written its record. The lock may go while this looks."""
    try:
        return (folder / "run.json").stat().st_mtime > (folder / "lock").stat().st_mtime
    except FileNotFoundError:
        return False


class Environment(RoadTest):
    def same_as_whole(self, out):
        """Finished now, the run equals one that nothing happened to."""
        self.train(out)
        if not (self.folder / "whole").exists():
            self.train("whole")
        self.same(out, "whole")

    def whole_checkpoints(self, out):
        return sorted(p.name for p in (out / "checkpoints").glob("step-*") if (p / "COMMIT").exists())

    @contextlib.contextmanager
    def small_disk(self, options):
        """A file system of its own, where this process may make one."""
        with tempfile.TemporaryDirectory() as place:
            if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True).returncode != 0:
                self.skipTest("file systems cannot be mounted here")
            try:
                yield pathlib.Path(place)
            finally:
                subprocess.run(["umount", "-l", place], check=True)


class Signals(Environment):
    def stopped_by(self, number, out, when, *overrides):
        folder = self.folder / out
        process = self.start(folder, *overrides)
        try:
            reached = wait_for(lambda: when(folder), process)
            process.send_signal(number)
            said = process.communicate(timeout=PATIENCE)[1]
        finally:
            process.kill()
        return process.returncode, said, reached

    def owed(self, out):
        """What the newest checkpoint says that its step has not done."""
        return self.newest_state(out).get("owed")

    def stopped_at(self, out):
        """The step that the logs say the run had come to; one more when that step still owes its line."""
        metrics, owed = self.metrics(out), self.owed(out)
        step = metrics[-1]["step"] if metrics else 0
        if owed and owed["what"] == "validation":
            self.assertEqual(json.loads(owed["line"])["step"], step + 1)
            step += 1
        return step

    def test_a_wish_to_stop_at_any_moment(self):
        moments = {
            "start": lambda folder: (folder / "lock").exists(),
            "first": lambda folder: (folder / "metrics.jsonl").exists() and (folder / "metrics.jsonl").stat().st_size > 0,
            "saving": is_saving,
        }
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            for name, when in moments.items():
                out = f"{name}-{number}"
                code, said, reached = self.stopped_by(number, out, when, *ENDLESS, "checkpoint.every=1")
                self.assertTrue(reached, (out, said))
                self.assertEqual(code, 128 + number, (out, said))
                self.assertEqual(self.whole_checkpoints(self.folder / out)[-1:], [f"step-{self.stopped_at(out):08}"], (out, said))
                self.assertEqual(list((self.folder / out / "checkpoints").glob(".tmp-*")), [], out)
                self.assertFalse((self.folder / out / "lock").exists())

    def test_during_a_validation(self):
        # Validation of as many samples as there are, after each step: nearly all of the time goes there.
        for attempt in range(10):
            name = f"validating-{attempt}"
            out = self.folder / name
            process = self.start(out, *ENDLESS, "train.validate_every=1", "train.validate_samples=1000000", "data.validation_fraction=0.9",
                                 "train.micro_batch=1")
            self.assertTrue(wait_for(lambda: self.logged(name) > 0, process))
            time.sleep(0.02 * attempt)
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=PATIENCE)[1]
            self.assertEqual(process.returncode, 143, said)
            self.assertEqual(self.whole_checkpoints(out)[-1], f"step-{self.stopped_at(name):08}")
            if (self.owed(name) or {"what": None})["what"] == "validation":
                return
        self.fail("no signal met a validation")

    def test_no_validation_and_no_sample_is_lost(self):
        """Stopped again and again, mostly in a step with a validation or before its samples: what a step still owes
        is done by the next start, and the logs are those of a run that nobody stopped."""
        slow = ("train.steps=6", "train.global_batch=64", "train.validate_every=2", "train.validate_samples=1000000",
                "data.validation_fraction=0.5", "train.sample_every=1", "train.sample_prompts=[the cat, a]", "train.sample_tokens=4",
                "checkpoint.every=4")
        self.train("unstopped", *slow)
        draw, owed = random.Random(5), set()
        step_seconds = statistics.median(m["step_seconds"] for m in self.metrics("unstopped"))
        logged = lambda out: [(m["step"], m["loss_hex"], m["samples"], m.get("validation_loss")) for m in self.metrics(out)]
        for attempt in range(10):  # until both kinds have been seen
            name = f"stopped-{attempt}"
            for stop in range(200):
                out = self.folder / name
                process = self.start(out, *slow)
                wait_for(lambda: has_begun(out), process)
                # Later and later: the machine may have become slower.
                time.sleep(draw.uniform(0, (3 + stop / 10) * step_seconds))
                process.send_signal(signal.SIGTERM)
                said = process.communicate(timeout=PATIENCE)[1]
                if process.returncode == 0:
                    break
                self.assertEqual(process.returncode, 143, said)
                owed.add((self.owed(name) or {"what": None})["what"])
            self.assertEqual(process.returncode, 0, "never finished")
            self.assertEqual(logged(name), logged("unstopped"))
            self.assertEqual((out / "samples.jsonl").read_bytes(), (self.folder / "unstopped" / "samples.jsonl").read_bytes())
            self.assertEqual(self.state(name), self.state("unstopped"))
            self.assertIsNone(self.owed(name))
            if {"validation", "samples"} <= owed:
                break
        self.assertLessEqual({"validation", "samples"}, owed)

    def test_a_terminal_that_closes(self):
        """First a hangup, then an error for everything that is written to it."""
        out = self.folder / "terminal"
        master, slave = pty.openpty()
        process = subprocess.Popen(self.command("terminal", *ENDLESS)[:-1], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        shown = b""
        while b"step 1/" not in shown:  # the living line
            shown += os.read(master, 1 << 16)
        os.close(master)
        self.assertEqual(process.wait(timeout=PATIENCE), 129)
        self.assertEqual(self.whole_checkpoints(out)[-1], f"step-{self.stopped_at('terminal'):08}")
        self.goes_on("terminal")

    def test_ignored_hangups_stay_ignored(self):
        process = self.start("nohup", *ENDLESS, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertTrue(wait_for(lambda: self.logged("nohup") > 0, process))
        process.send_signal(signal.SIGHUP)
        before = self.logged("nohup")
        self.assertTrue(wait_for(lambda: self.logged("nohup") > before + 5, process))
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, 143, said)


class Packing(Environment):
    """A pack that is ended leaves nothing, whatever it waits for and however it is ended."""

    def pack(self, source):
        return subprocess.Popen([PROGRAM, "pack", "--tokenizer", str(self.folder / "tokenizer.json"), "--input", str(source), "--document", "line",
                                 "--output", str(self.folder / "packing" / "c")], stderr=subprocess.PIPE, text=True)

    def ended_by(self, number, process, old):
        process.send_signal(number)
        said = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, -number, said)
        self.assertEqual({p.name: p.read_bytes() for p in (self.folder / "packing").iterdir()}, old)

    def test_ended_while_it_reads(self):
        fifo, place = self.folder / "fifo", self.folder / "packing"
        os.mkfifo(fifo)
        place.mkdir()
        for old in ({}, {"c.bin": b"old", "c.idx": b"old"}):
            for name, content in old.items():
                (place / name).write_bytes(content)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                with self.subTest(number=number, old=len(old)):
                    process = self.pack(fifo)
                    with open(fifo, "wb", buffering=0) as writer:
                        writer.write(b"the cat sees the dog.\n" * 200_000)  # more than it holds back
                        self.ended_by(number, process, old)
                    process = self.pack(fifo)
                    time.sleep(0.3)  # or longer: nobody ever writes
                    self.ended_by(number, process, old)


class Disks(Environment):
    def fails_naming_bytes(self, out, code=1, **options):
        result = ended(self.command(out, "checkpoint.every=4"), **options)
        self.assertEqual(result.returncode, code, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("megalith: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        return lines[0]

    def test_full_disk(self):
        """Room for some checkpoints: the run says what it needs, what is whole stays, more room lets it finish."""
        self.train("size", "train.steps=4")
        size = sum(f.stat().st_size for f in (self.folder / "size").rglob("*") if f.is_file())
        with self.small_disk(f"size={size + (3 << 19)}") as disk:
            said = self.fails_naming_bytes(disk / "run")
            self.assertRegex(said, r"needs \d+ bytes, the disk has \d+ free")
            self.assertEqual(list((disk / "run" / "checkpoints").glob(".tmp-*")), [])
            kept = self.whole_checkpoints(disk / "run")
            self.assertNotEqual(kept, [])
            for name in kept:
                run("generate", "--checkpoint", disk / "run" / "checkpoints" / name, "--prompt", "the", "--max-new-tokens", 1)
            subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
            ended(self.command(disk / "run"), check=True)
            self.train("whole")
            self.assertEqual(json.loads((disk / "run" / "run.json").read_text())["state_sha256"], self.state("whole"))

    def before_the_first_step(self, out):
        self.assertEqual((out / "metrics.jsonl").read_text(), "")

    def test_no_room_for_a_checkpoint_is_found_before_the_first_step(self):
        with self.small_disk("size=1m") as disk:
            self.assertRegex(self.fails_naming_bytes(disk / "run"), r"needs \d+ bytes, the disk has \d+ free")
            self.before_the_first_step(disk / "run")
        with self.small_disk("size=4m") as disk:  # one, but not two and a third in progress
            result = ended(self.command(disk / "run", "train.steps=2"))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stderr, r"no room for 2 checkpoints of \d+ bytes and one in progress: the disk has \d+ bytes free")

    def test_no_room_at_all(self):
        for options, said in (("size=4k", r"/lock \(pwrite\): No space left on device: \d+ bytes more do not fit; make room$"),
                              ("nr_inodes=2", r"/run \(mkdir\): No space left on device: not one more folder fits; make room$"),
                              ("nr_inodes=3", r"/lock \(open\): No space left on device: not one more file fits; make room$")):
            with self.small_disk(options) as disk:
                (disk / "full").write_bytes(bytes(4096))
                self.assertRegex(self.fails_naming_bytes(disk / "run"), said)

    def test_no_more_files(self):
        with self.small_disk("size=64m,nr_inodes=12") as disk:
            self.assertRegex(self.fails_naming_bytes(disk / "run"), r"needs \d+ bytes in \d+ files, the disk has room for \d+ more")
            self.before_the_first_step(disk / "run")
            # Enough for one checkpoint and the files beside it, not for the next.
            subprocess.run(["mount", "-o", "remount,nr_inodes=24", disk], check=True)
            self.assertRegex(self.fails_naming_bytes(disk / "run"), r"needs \d+ bytes in \d+ files")
            self.assertEqual(self.whole_checkpoints(disk / "run"), ["step-00000004"])
            subprocess.run(["mount", "-o", "remount,nr_inodes=1000", disk], check=True)
            ended(self.command(disk / "run"), check=True)

    def test_file_size_limit(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))
        said = self.fails_naming_bytes(self.folder / "fsize", preexec_fn=limit)
        self.assertRegex(said, r"needs \d+ bytes, \d+ of them in one file, and a file may have 30000")
        self.before_the_first_step(self.folder / "fsize")
        self.same_as_whole("fsize")

    def test_a_limit_that_comes_later_leaves_the_checkpoints_of_before(self):
        out = self.folder / "later"
        process = self.start(out, *ENDLESS, "checkpoint.every=4", "model.hidden=256")
        self.assertTrue(wait_for(lambda: len(self.whole_checkpoints(out)) > 1, process))
        # Less than the tensors have, and more than the logs get to.
        limit = 4 << 20
        self.assertGreater(max(f.stat().st_size for f in (out / "checkpoints").glob("step-*/*.safetensors")), 2 * limit)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        said = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, 1, said)
        self.assertRegex(said, r"needs \d+ bytes")
        kept = self.whole_checkpoints(out)
        self.assertNotEqual(kept, [])
        run("generate", "--checkpoint", out / "checkpoints" / kept[-1], "--prompt", "the", "--max-new-tokens", 1)

    def test_nobody_else_may_write_what_is_made(self):
        """Whatever the umask."""
        place = self.folder / "open"
        own = lambda *words: ended([PROGRAM, *map(str, words)], check=True, umask=0)
        place.mkdir(mode=0o755)
        own("tokenizer", "train", "--input", self.folder / "text.txt", "--vocab-size", 285, "--output", place / "t.json")
        own("pack", "--tokenizer", place / "t.json", "--input", self.folder / "text.txt", "--output", place / "c")
        own(*self.command(place / "runs" / "run", "train.steps=2")[1:])
        own("convert", "--from", place / "runs" / "run", "--to", place / "made" / "hf")
        own("convert", "--from", place / "made" / "hf", "--to", place / "made" / "back", "--format", "megalith")
        found = list(place.rglob("*"))
        self.assertGreater(len(found), 25)
        for path in found:
            self.assertEqual(path.stat().st_mode & 0o022, 0, path)
            self.assertEqual(path.stat().st_mode & 0o111, 0o111 if path.is_dir() else 0, path)

    def test_folders_that_cannot_be_written_are_found_before_the_first_step(self):
        file = self.folder / "file"
        file.write_text("")
        dangling = self.folder / "dangling"
        dangling.symlink_to(self.folder / "nowhere")
        loop = self.folder / "loop"
        loop.symlink_to(loop)
        places = [file, file / "below", dangling, loop, self.folder / ("x" * 300), self.folder / "/".join(["y" * 200] * 25)]
        # Room for the names in it, and for that of a save in progress, not for its files'.
        places.append(path_of(LONGEST_PATH - len("/checkpoints/.tmp-0123456789abcdef/") - 20, self.folder))
        for place in places:
            said = self.fails_naming_bytes(place, code=2)
            self.assertIn(str(place)[:200], said)
            self.assertRegex(said, r"name another path(, by run\.out)?$")
        self.assertEqual(file.read_text(), "")
        with self.small_disk("size=8m") as disk:
            self.train_into(disk / "run")
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            self.assertIn("Read-only", self.fails_naming_bytes(disk / "run", code=2))
            self.assertIn("Read-only", self.fails_naming_bytes(disk / "new", code=2))

    def test_folders_of_any_name(self):
        names = ["läufe", "zwei Wörter", "q'uo\"te", "実験", "new\nline", "-dash", "a" * 200, "#%s{}$HOME"]
        deep = "/".join(["d" * 100] * 20)
        for name in [*names, deep]:
            self.train_into(self.folder / name)
            self.assertTrue((self.folder / name / "report.html").exists())
        self.assertIn("UTF-8", self.fails_naming_bytes(self.folder / os.fsdecode(b"\xff\xfe"), code=2))

    def train_into(self, out):
        result = ended(self.command(out, "train.steps=2"))
        self.assertEqual(result.returncode, 0, result.stderr)


class Logs(Environment):
    def test_targets_that_are_full_or_closed(self):
        """Without --json all that is said goes to people, and a run does not end for want of them; with it the result is owed."""
        closing = lambda *streams: {"preexec_fn": lambda: [os.close(stream) for stream in streams]}
        for name, options, owing in (
                ("full-errors", {"stderr": open("/dev/full", "w"), "stdout": subprocess.DEVNULL}, 0),
                ("closed-errors", {**closing(2), "stdout": subprocess.DEVNULL}, 0),
                ("closed-result", {**closing(1), "stderr": subprocess.DEVNULL}, 1),
                ("closed-both", closing(1, 2), 1),
                ("closed-all", closing(0, 1, 2), 1)):
            for json_flag, code in ((True, owing), (False, 0)):
                out = self.folder / f"{name}-{json_flag}"
                command = self.command(out)[:None if json_flag else -1]
                self.assertEqual(subprocess.run(command, timeout=PATIENCE, **options).returncode, code, out)
                self.same_as_whole(out.name)

    def test_a_result_that_cannot_be_written_is_an_error_and_the_run_is_whole(self):
        out = self.folder / "full-result"
        result = ended(self.command(out), capture_output=False, stdout=open("/dev/full", "w"), stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 1)
        self.assertIn("standard output", result.stderr)
        self.same_as_whole("full-result")

    def test_a_reader_that_goes_away(self):
        reader, writer = os.pipe()
        out = self.folder / "pipe"
        process = subprocess.Popen(self.command(out)[:-1], stdout=writer, stderr=writer)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        self.assertEqual(process.wait(timeout=PATIENCE), 0)
        self.same_as_whole("pipe")


class Limits(Environment):
    def test_few_descriptors(self):
        # Three are the standard streams. Without one more the system cannot even load the program; with a few more it is at one
        # file or another that they are too few, the machine's failure and not the person's; 24 are plenty.
        for limit, code, say in ((3, 127, "error while loading shared libraries"), *((few, 1, "Too many open files") for few in (4, 5, 6, 8, 10)),
                                 (24, 0, "")):
            out = self.folder / f"descriptors-{limit}"
            result = ended(self.command(out), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
            self.assertEqual(result.returncode, code, (limit, result.stderr))
            self.assertIn(say, result.stderr)
            self.same_as_whole(out.name)

    def refused(self, out, *overrides, prefix=(), **options):
        result = ended([*prefix, *self.command(out, *overrides)], **options)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("does not fit into memory", result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr

    def test_what_does_not_fit_into_memory_is_refused_with_what_would(self):
        huge = ("model.layers=200", "model.hidden=65536", "model.heads=64")
        self.assertIn("smaller model", self.refused(self.folder / "huge", *huge))
        # 16384 samples at once are too many for any machine that runs this; the advice must be enough.
        wide = ["model.context=1024", "model.hidden=512", "model.heads=8", "model.layers=8", "train.global_batch=16384",
                "train.micro_batch=16384", "data.validation_fraction=0", "train.validate_every=0"]
        said = self.refused(self.folder / "wide", *wide)
        self.assertRegex(said, r"plans \S+ \S+ \(\d+ bytes\).*; set (memory|train|checkpoint)\.[a-z_]+=")

    def test_an_address_space_limit_is_respected(self):
        limited = lambda size: lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size))
        said = self.refused(self.folder / "as", preexec_fn=limited(180 << 20))
        self.assertIn("ulimit -v", said)
        for size, code in ((1 << 30, 1), (4 << 30, 0)):
            result = ended(self.command("as"), preexec_fn=limited(size))
            self.assertEqual(result.returncode, code, result.stderr)
            if code:
                self.assertRegex(result.stderr, r"out of memory for workspace: \d+ bytes asked")
        self.same_as_whole("as")

    @contextlib.contextmanager
    def control_group(self):
        """A new group and the file of its memory limit, of either version of control groups, where this process may make one."""
        places = []
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "memory":
                places.append((pathlib.Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"))
            elif not controllers:
                # Of version 2 a group that holds processes has no groups with controllers below it: one further up may.
                mine = pathlib.Path("/sys/fs/cgroup" + path)
                places += [(group, "memory.max") for group in (mine, *mine.parents) if group.is_relative_to("/sys/fs/cgroup")]
        for place, limit in places:
            group = place / f"megalith-test-{os.getpid()}"
            try:
                group.mkdir()
            except OSError:
                continue
            try:
                if os.access(group / limit, os.W_OK):
                    yield group, group / limit
                    return
            finally:
                group.rmdir()
        self.skipTest("control groups cannot be made here")

    def test_a_control_group_is_respected(self):
        with self.control_group() as (group, limit):
            limit.write_text(str(60 << 20))
            enter = ("sh", "-c", f'echo $$ > "{group}/cgroup.procs" || exit 77; exec "$@"', "sh")
            if ended([*enter, "true"]).returncode == 77:
                self.skipTest("control groups cannot be entered here")
            self.assertIn(f"the control group {group} leaves", self.refused("group", prefix=enter))
            limit.write_text(str(300 << 20))
            result = ended([*enter, *self.command("group")])
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_full_shared_memory(self):
        if not ROOT or self.folder.is_relative_to("/dev/shm"):
            self.skipTest("needs a mount namespace, and its files elsewhere")
        script = 'mount -t tmpfs -o size=4k tmpfs /dev/shm && head -c 4096 /dev/zero > /dev/shm/full; exec "$@"'
        result = ended(["unshare", "-m", "sh", "-c", script, "sh", *self.command("shm")])
        if "unshare" in result.stderr or "mount" in result.stderr:
            self.skipTest("namespaces cannot be made here")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.same_as_whole("shm")


if __name__ == "__main__":
    unittest.main()
