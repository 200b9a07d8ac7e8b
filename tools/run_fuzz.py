#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs fuzz targets and says what each did.

    tools/run_fuzz.py [--seconds N] [--cpu-seconds N] [--random-seed N] [--work DIR] [--keep] [--inputs DIR] PROGRAM...

Each program starts from its seeds (fuzz_seeds.py) and from the files of INPUTS/NAME/, with the dictionary
INPUTS/NAME.dict. With --keep what it found new ways with stays in WORK/NAME and is used again. A finding (crash, hang above 10 s,
leak, more than 1 GiB) is written to WORK as NAME-crash-..., and the exit status is 1.
--cpu-seconds bounds the processor time instead of the wall time, for busy machines. Without --random-seed the random numbers are
others each time.
"""
import argparse
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile

from fuzz_seeds import SEEDS

LARGEST_INPUT = 16384


def write_seeds(name, inputs, folder):
    seeds = list(SEEDS[name]())
    assert seeds, f"{name} has no seeds"
    for path in sorted((inputs / name).glob("*")) if inputs else ():
        seeds.append(path.read_bytes())
    for i, seed in enumerate(seeds):
        (folder / f"seed-{i:03}").write_bytes(seed)
    return len(seeds)


def number_after(word, text):
    found = re.findall(rf"{word}:?\s+(\d+)", text)
    return int(found[-1]) if found else 0


def processor_seconds():
    """Of the programs that have ended, their own and the system's on their behalf."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fuzz(program, arguments):
    name = program.name.removeprefix("fuzz_")
    inputs = arguments.inputs or next(iter(pathlib.Path(__file__).parent.parent.glob(f"src/*/fuzz/{name}_fuzz.cpp"))).parent
    arguments.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        found, seeds = pathlib.Path(temporary, "found"), pathlib.Path(temporary, "seeds")
        seeds.mkdir()
        if arguments.keep:
            found = arguments.work / name
        found.mkdir(exist_ok=True)
        count = write_seeds(name, inputs, seeds)
        command = [program, found, seeds, f"-max_len={LARGEST_INPUT}", "-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1",
                   f"-artifact_prefix={arguments.work}/{name}-", "-verbosity=1"]
        if (inputs / f"{name}.dict").exists():
            command.append(f"-dict={inputs / name}.dict")
        if arguments.random_seed:
            command.append(f"-seed={arguments.random_seed}")
        limit = None
        if arguments.cpu_seconds:
            # The wall clock is only a guard; SIGXCPU ends the program where the budget ends.
            command.append(f"-max_total_time={arguments.cpu_seconds * 20}")
            limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (arguments.cpu_seconds, arguments.cpu_seconds + 5))
        else:
            command.append(f"-max_total_time={arguments.seconds}")
        before = processor_seconds()
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            status = subprocess.run(command, stdout=log, stderr=log, preexec_fn=limit).returncode
            log.seek(0)
            output = log.read()
        seconds = processor_seconds() - before
    out_of_time = arguments.cpu_seconds and status == -signal.SIGXCPU and "SUMMARY: " not in output
    runs = max(number_after("number_of_executed_units", output), *map(int, re.findall(r"^#(\d+)", output, re.M)), 0, 0)
    good = (status == 0 or out_of_time) and runs > 0
    covered = re.findall(r"cov: (\d+)", output)
    print(f"{'ok  ' if good else 'FAIL'} {name:20} {runs:9} runs from {count:3} seeds, "
          f"{covered[-1] if covered else '?':>5} edges, {seconds:6.0f} s of processor", flush=True)
    if not good:
        print(output[-6000:])
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--cpu-seconds", type=int, default=0)
    parser.add_argument("--random-seed", type=int, default=0)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/asan/fuzzing"))
    parser.add_argument("--inputs", type=pathlib.Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("programs", nargs="+", type=lambda p: pathlib.Path(p).resolve())
    arguments = parser.parse_args()
    os.environ.setdefault("ASAN_OPTIONS", "allocator_may_return_null=0:detect_leaks=1")
    results = [fuzz(program, arguments) for program in arguments.programs]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
