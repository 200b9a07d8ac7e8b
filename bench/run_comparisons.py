# SPDX-License-Identifier: Apache-2.0
"""Saves, resumes and the start of the program, beside plain writing to the same disk."""
import json
import shutil
import statistics
import subprocess
import time

from model_comparisons import BF16, gpt2
from record import ROOT
from text_comparisons import corpus_of


def dd(r, size):
    """GB/s of plain writing to the same disk."""
    target = r.work / "dd.bin"
    begin = time.monotonic()
    subprocess.run(["dd", "if=/dev/zero", f"of={target}", f"bs={r.size(1 << 20, 4096)}",
                    f"count={size // r.size(1 << 20, 4096)}", "conv=fsync"], check=True, capture_output=True)
    r.add("save.dd", [size / 1e9 / (time.monotonic() - begin)], "GB/s")
    target.unlink()


def saves_of(run, process):
    """What run.json says of every checkpoint while the process runs: it holds the last one only."""
    saves = {}
    while True:
        ended = process.poll() is not None
        try:
            saved = json.loads((run / "run.json").read_text()).get("checkpoint", {})
        except FileNotFoundError:
            saved = {}
        if saved:
            saves[saved["step"]] = saved
        if ended:
            return [saves[step] for step in sorted(saves)]
        time.sleep(0.05)


def seconds_to_first_step(command, run, steps):
    """Until the step after `steps` begins: when its line is there, without the seconds that the lines from it on say
    they took. None: the run ended."""
    log = run / "metrics.jsonl"
    before = log.read_text()  # with what the last start did behind the checkpoint
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    while process.poll() is None:
        now, text = time.monotonic() - begin, log.read_text()
        if text != before and text.endswith("}\n"):
            later = [m for m in map(json.loads, text.splitlines()) if m["step"] > steps]
            if later:
                process.kill()  # before the next save: the checkpoint stays as it is
                process.wait()
                return now - sum(m["step_seconds"] for m in later)
        time.sleep(0.005)
    return None


def save(r):
    """Steps of 124M with saves in the background; the same bytes by dd; resumes up to their first step."""
    run, steps = r.work / "run", 12
    common = [str(c) for c in (r.megalith, "train", gpt2(r), "--set", f"run.out={run}", "--set",
                               f"data.train={corpus_of(r)}", *BF16, "--set", "checkpoint.every=2", "--set",
                               "checkpoint.keep=1", "--set", "train.global_batch=1", "--set", "train.micro_batch=1", "--set",
                               f"run.threads={r.threads}")]
    saves = []
    for _ in range(r.rounds):
        shutil.rmtree(run, ignore_errors=True)
        r.say([*common, "--set", f"train.steps={steps}"])
        process = subprocess.Popen([*common, "--set", f"train.steps={steps}"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, cwd=ROOT)
        saves += saves_of(run, process)
        if process.returncode != 0 or not saves:
            r.failed.append("train with saves")
            return
        for _ in range(r.size(3, 1)):
            dd(r, saves[0]["bytes"])
    # The last one is written while nothing trains, the ones before beside a step.
    r.add("save.write", [s["bytes"] / 1e9 / s["write_seconds"] for s in saves], "GB/s")
    r.add("save.stall", [s["stall_seconds"] for s in saves], "s")
    r.add("save.stall_share", [100 * s["stall_seconds"] / s["write_seconds"] for s in saves], "%")
    state = json.loads((run / "run.json").read_text())
    r.note(f"=> save of {saves[0]['bytes']} bytes: {r.median('save.write'):.2f} GB/s, "
           f"{100 * r.median('save.write') / r.median('save.dd'):.0f} % of dd conv=fsync; training stood still "
           f"{r.median('save.stall'):.3f} s, {r.median('save.stall_share'):.1f} % of its duration; snapshot "
           f"{state['memory']['planned']['snapshot']} bytes")
    metrics = [json.loads(line) for line in open(run / "metrics.jsonl")]
    wait = state["accounts"]["buckets"]["data_wait"] / sum(m["step_seconds"] for m in metrics)
    r.note(f"=> waiting for data: {100 * wait:.4f} % of step time")
    for _ in range(r.size(5, 1)):
        # Far from the end and from any save, so that the first step is seen before either.
        seconds = seconds_to_first_step([*common, "--set", f"train.steps={steps + 2000}", "--set",
                                         "checkpoint.every=100000"], run, steps)
        if seconds is None:
            r.failed.append("a resume")
            return
        r.add("resume", [seconds], "s")
    r.note(f"=> resume of 124M: {r.median('resume'):.2f} s from the start of the program to its first step")
    shutil.rmtree(run)


def start(r):
    times = []
    for _ in range(21):
        begin = time.monotonic()
        subprocess.run([r.megalith, "--version"], capture_output=True, check=True)
        times.append(1e3 * (time.monotonic() - begin))
    r.add("start", times, "ms")
    r.note(f"=> megalith --version: {statistics.median(times):.1f} ms")
