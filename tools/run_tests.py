#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of build folders and counts them: run_tests.py "BUILD=TIER TIER..."...

Tiers are CTest labels. Programs of GoogleTest and scripts of unittest count test by test, everything else as one. What does not
end within a program's time is ended and has failed. Also runs the checks of the sources (rooms, sizes, formatting, planted faults), as part
of tier `unit` of the first folder. Ends with "N passed, N failed", and ", N skipped" when some were.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TIERS = ("unit", "ranks", "golden", "system", "fuzz", "gpu", "long", "tsan")
ROOT = pathlib.Path(__file__).resolve().parent.parent

# The seconds that one program may take: far more than it needs, but not for ever.
LIMIT, LONG_LIMIT = 30 * 60, 6 * 60 * 60


def ctest_tests(build, tier):
    out = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", "-L", f"^{tier}$"],
                         check=True, capture_output=True, text=True).stdout
    return [t for t in json.loads(out)["tests"] if "command" in t]


def ended(command, limit, **options):
    """(exit status, what it printed where that is a pipe); the status is None when it had to be ended, with all that it started."""
    process = subprocess.Popen(command, cwd=ROOT, text=True, errors="replace", start_new_session=True, stdin=subprocess.DEVNULL, **options)
    try:
        output = process.communicate(timeout=limit)[0]
        return process.returncode, output or ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[0]
        return None, f"{output or ''}\n{command[0]} did not end within {limit} s\n"
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def run_google_test(command, folder, limit):
    """(passed, failed, skipped) of one program."""
    report = os.path.join(folder, "report.json")
    if os.path.exists(report):
        os.remove(report)
    status, said = ended(command + [f"--gtest_output=json:{report}", "--gtest_brief=1"], limit)
    if said:
        print(said, flush=True)
    if not os.path.exists(report):
        return (1, 0, 0) if status == 0 else (0, 1, 0)
    counts = json.load(open(report))
    skipped = sum(t.get("result") == "SKIPPED" for suite in counts["testsuites"] for t in suite["testsuite"])
    failed = counts["failures"] + counts.get("errors", 0)
    if status != 0 and failed == 0:
        failed = 1  # ended after its last test: a leak, a crash on exit
    if counts["tests"] == 0:
        failed = 1  # a filter that fits no test
    return counts["tests"] - counts.get("disabled", 0) - failed - skipped, failed, skipped


def unittest_counts(status, output):
    """(passed, failed, skipped) of a script of unittest; of another program, itself."""
    summary = list(re.finditer(r"^Ran (\d+) tests? in .*\s+(\w.*)?", output, re.M))
    if not summary:
        return (1, 0, 0) if status == 0 else (0, 1, 0)
    told = {name: int(number) for name, number in re.findall(r"\b(failures|errors|skipped)=(\d+)", summary[-1][2] or "")}
    skipped = told.get("skipped", 0)
    rest = max(0, int(summary[-1][1]) - skipped)  # a class or module that is skipped as a whole may not count as run
    # Parts of a test may fail several times; what stops a class, or the script at its end, is no test.
    failed = min(max(1, rest), told.get("failures", 0) + told.get("errors", 0))
    if failed == 0 and (status != 0 or rest + skipped == 0):
        failed = 1
    return max(0, rest - failed), failed, skipped


def check(name, command, limit=LIMIT):
    status, output = ended(command, limit, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if status != 0:
        print(f"FAILED {name}\n{output[-8000:]}", flush=True)
    return unittest_counts(status, output)


def source_checks():
    yield "rooms", [sys.executable, "tools/check_rooms.py"]
    yield "sizes", [sys.executable, "tools/check_size.py"]
    yield "planted faults", [sys.executable, "tools/plant_faults.py", "--check-table"]
    yield "this runner", [sys.executable, "tools/run_tests_test.py"]
    yield "format", format_check()


def format_check():
    """Fails where it cannot look: a check that is left out in silence is one that passed."""
    if not shutil.which("clang-format"):
        return [sys.executable, "-c", "import sys; sys.exit('clang-format is not installed: script/bootstrap installs it, or apt-get install clang-format')"]
    files = subprocess.run(["git", "ls-files", "*.h", "*.cpp"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    if not files:
        sys.exit("run_tests.py: git lists no source file")  # clang-format would read standard input
    return ["clang-format", "--dry-run", "--Werror", *files]


def jobs_of(build, tier, first, folder):
    if tier == "unit" and first:
        for name, command in source_checks():
            yield name, lambda c=command, n=name: check(n, c)
    for test in ctest_tests(build, tier):
        command, name, limit = test["command"], test["name"], LONG_LIMIT if tier in ("long", "tsan") else LIMIT
        if command[0].endswith("_test"):
            yield name, lambda c=command, l=limit: run_google_test(c, folder, l)
        else:
            yield name, lambda c=command, n=name, l=limit: check(n, c, l)


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
