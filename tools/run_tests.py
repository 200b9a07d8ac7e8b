#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of build folders and counts them: run_tests.py "BUILD=TIER TIER..."...

Tiers are CTest labels. Programs of GoogleTest count test by test, everything else as one. Also runs the
checks of the sources (rooms, formatting), as part of tier `unit` of the first folder. Ends with "N passed, N failed".
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

TIERS = ("unit", "ranks", "golden", "system", "fuzz", "gpu", "long")
ROOT = pathlib.Path(__file__).resolve().parent.parent


def ctest_tests(build, tier):
    out = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", "-L", f"^{tier}$"],
                         check=True, capture_output=True, text=True).stdout
    return [t for t in json.loads(out)["tests"] if "command" in t]


def run_google_test(command, folder):
    """(passed, failed, skipped) of one program."""
    report = os.path.join(folder, "report.json")
    if os.path.exists(report):
        os.remove(report)
    result = subprocess.run(command + [f"--gtest_output=json:{report}", "--gtest_brief=1"], cwd=ROOT)
    if not os.path.exists(report):
        return (1, 0, 0) if result.returncode == 0 else (0, 1, 0)
    counts = json.load(open(report))
    skipped = sum(t.get("result") == "SKIPPED" for suite in counts["testsuites"] for t in suite["testsuite"])
    failed = counts["failures"] + counts.get("errors", 0)
    if result.returncode != 0 and failed == 0:
        failed = 1  # ended after its last test: a leak, a crash on exit
    if counts["tests"] == 0:
        failed = 1  # a filter that fits no test
    return counts["tests"] - counts.get("disabled", 0) - failed - skipped, failed, skipped


def check(name, command):
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        print(f"FAILED {name}\n{result.stdout[-4000:]}{result.stderr[-4000:]}", flush=True)
    return (1, 0, 0) if result.returncode == 0 else (0, 1, 0)


def source_checks():
    yield "rooms", [sys.executable, "tools/check_rooms.py"]
    if shutil.which("clang-format"):
        files = subprocess.run(["git", "ls-files", "*.h", "*.cpp"], cwd=ROOT, capture_output=True, text=True).stdout.split()
        yield "format", ["clang-format", "--dry-run", "--Werror", *files]


def jobs_of(build, tier, first, folder):
    if tier == "unit" and first:
        for name, command in source_checks():
            yield name, lambda c=command, n=name: check(n, c)
    for test in ctest_tests(build, tier):
        command, name = test["command"], test["name"]
        if command[0].endswith("_test"):
            yield name, lambda c=command: run_google_test(c, folder)
        else:
            yield name, lambda c=command, n=name: check(n, c)


def main():
    total = [0, 0, 0]
    with tempfile.TemporaryDirectory() as folder:
        for position, argument in enumerate(sys.argv[1:]):
            build, tiers = argument.split("=", 1)
            for tier in tiers.split():
                jobs = list(jobs_of(build, tier, position == 0, folder))
                if not jobs and tier not in TIERS:
                    sys.exit(f"run_tests.py: there is no tier {tier}; tiers are {', '.join(TIERS)}")
                for name, job in jobs:
                    begin = time.monotonic()
                    counts = job()
                    total = [a + b for a, b in zip(total, counts)]
                    print(f"{build} {tier:7} {name:24} {counts[0]:5} passed {counts[1]:3} failed "
                          f"{time.monotonic() - begin:7.1f} s", flush=True)
    passed, failed, skipped = total
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
