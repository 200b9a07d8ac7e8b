# SPDX-License-Identifier: Apache-2.0
"""The record of a comparison: what was run, on which machine and how busy it was, what it said, and the medians."""
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ROOT / "bench" / "peers"
BUSY, PATIENCE = 0.7, 120.0  # runnable processes; seconds


class Record:
    """What was run and what it said, as it comes."""

    def __init__(self, megalith, python, options, work, file):
        self.megalith, self.python, self.work, self.file = megalith, python, work, file
        self.tiny, self.rounds = options.tiny, 1 if options.tiny else options.rounds
        self.threads = len(os.sched_getaffinity(0))  # of every side, but where a comparison says one
        self.samples, self.units, self.failed = {}, {}, []

    def write(self, text):
        print(text, file=self.file, flush=True)

    def note(self, text):
        print(text, file=sys.stderr, flush=True)
        self.write(text)

    def say(self, command):
        """The command as anyone may repeat it: without this machine's folders."""
        text = " ".join(map(str, command)).replace(str(ROOT) + "/", "").replace(str(self.work), "WORK")
        self.note("$ " + (text.replace(str(self.python), "python") if self.python else text))

    def add(self, name, values, unit):
        self.samples.setdefault(name, []).extend(values)
        self.units[name] = unit
        self.write(f"{name}: {' '.join(f'{v:.4g}' for v in values)} {unit}")

    def size(self, real, tiny):
        return tiny if self.tiny else real

    def median(self, name):
        values = self.samples.get(name)
        return statistics.median(values) if values else None

    def run(self, label, command, only=None, environment=None):
        """Runs one side; its JSON lines become samples named LABEL.NAME. A side that fails is noted, not hidden."""
        command = [str(c) for c in command]
        environment = environment or {}
        self.say([*(f"{name}={value}" for name, value in environment.items()), *command])
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment})
        if done.returncode != 0:
            self.note(f"{label or command[1]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
            self.failed.append(" ".join(command[:4]))
            return
        for line in done.stdout.splitlines():
            if not line.startswith("{"):
                continue
            value = json.loads(line)
            if only is None or value["name"] in only:
                self.add(f"{label}.{value['name']}" if label else value["name"],
                         value.get("samples") or [value["value"]], value["unit"])

    def bench(self, label, *arguments, only=None, threads=None):
        self.run(label, [self.megalith, "bench", *arguments, "--threads", threads or self.threads, "--json"], only)

    def peer(self, label, script, *arguments, threads=None, environment=None):
        if self.python:
            self.run(label, [self.python, PEERS / script, *arguments, "--threads", threads or self.threads],
                     environment=environment)

    def rate(self, what, ours, *theirs, faster=True):
        """One line of the outcome: ours over the best of the others."""
        mine = self.median(ours)
        others = {name: self.median(name) for name in theirs if self.median(name) is not None}
        if mine is None or not others:
            self.note(f"=> {what}: {ours} {mine}, no rival measured")
            return
        best = (max if faster else min)(others, key=others.get)
        ratio = mine / others[best] if faster else others[best] / mine
        self.note(f"=> {what}: {mine:.4g} {self.units[ours]}, {ratio:.2f}x of the best rival ({best}, {others[best]:.4g})")


def machine():
    said = dict(reversed([[part.strip() for part in l.split(":", 1)] for l in open("/proc/cpuinfo") if ":" in l]))
    cpu = f"{said.get('model name', '?')} family {said.get('cpu family', '?')} model {said.get('model', '?')}"
    flags = f" {said['flags']} "
    kinds = [f for f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f" {f} " in flags]
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{cpu} ({', '.join(kinds)}), {os.cpu_count()} cores, {memory_bytes / 2**30:.0f} GiB, {platform.platform()}"


def idle_load(patience):
    """What else runs, once that is little or patience is over: what ran here before still counts for a minute."""
    end = time.monotonic() + patience
    while os.getloadavg()[0] >= BUSY and time.monotonic() < end:
        time.sleep(2)
    return os.getloadavg()[0]
