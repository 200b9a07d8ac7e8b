#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the tests: plants one fault at a time in a copy of the sources, builds the test that is meant for
it and sees that it turns red.

    tools/plant_faults.py [--folder build/faults] [--jobs N] [--check-table] [--ladder] [name ...]

A test is a GoogleTest filter, or a script of tests/system with what it shall run ("signals_and_environment_test.py
Disks.test_full_disk"), which gets the files that the targets build as its first arguments. The copy lies in FOLDER
and is brought up to date first, so a second call builds little. Before any fault is planted all tests named in the table
must be green. `--check-table` only sees that every fault still fits the sources. Ends with "N passed, N failed"; exit status 1 if a fault went unnoticed.

The faults are in the files *_faults.py beside this one. Those of the ladder (ladder_faults.py; `--ladder`: these alone) run
every level and must turn red exactly the levels that stand beside them.
"""
import argparse
import ast
import filecmp
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

from adapter_faults import ADAPTER_FAULTS
from chat_faults import CHAT_FAULTS
from computation_faults import COMPUTATION_FAULTS
from fault import Fault
from file_faults import FILE_FAULTS
from generation_faults import GENERATION_FAULTS
from grammar_faults import GRAMMAR_FAULTS
from half_faults import HALF_FAULTS
from ladder_faults import LADDER, LEVELS
from narrow_faults import NARROW_FAULTS
from objective_faults import OBJECTIVE_FAULTS
from planning_faults import PLANNING_FAULTS
from rank_faults import RANK_FAULTS
from run_faults import RUN_FAULTS
from serve_faults import SERVE_FAULTS
from sizing_faults import SIZING_FAULTS
from task_faults import TASK_FAULTS
from tokenizer_faults import TOKENIZER_FAULTS
from tune_faults import TUNE_FAULTS

FAULTS = COMPUTATION_FAULTS + GENERATION_FAULTS + RANK_FAULTS + FILE_FAULTS + RUN_FAULTS + CHAT_FAULTS + OBJECTIVE_FAULTS + TOKENIZER_FAULTS + GRAMMAR_FAULTS + SERVE_FAULTS + NARROW_FAULTS + HALF_FAULTS + ADAPTER_FAULTS + TUNE_FAULTS + SIZING_FAULTS + TASK_FAULTS + PLANNING_FAULTS
ROOT = pathlib.Path(__file__).resolve().parent.parent
COPIED = ["CMakeLists.txt", "CMakePresets.json", "cmake", "src", "apps", "tests", "recipes"]
SCRIPTS = pathlib.Path("tests/system")


def pattern_of(text):
    """The tokens of `text` with any white space between them."""
    return re.compile(r"\s*".join(re.escape(token) for token in re.findall(r"\w+|[^\w\s]", text)))


def planted(fault, tree):
    """(path, new text of the file). Raises LookupError when the fault does not fit it exactly once."""
    path = tree / fault.file
    text = path.read_text()
    found = pattern_of(fault.old).findall(text)
    if len(found) != 1:
        raise LookupError(f"{fault.name}: its text occurs {len(found)} times in {fault.file}")
    return path, pattern_of(fault.old).sub(lambda _: fault.new, text)


def tests_of(script):
    """The test methods of each class of a script, with those of its bases in the scripts beside it."""
    classes, bases = {}, {}

    def read(path):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and (path.parent / f"{node.module}.py").exists():
                read(path.parent / f"{node.module}.py")
            elif isinstance(node, ast.ClassDef):
                classes[node.name] = {f.name for f in node.body if isinstance(f, ast.FunctionDef) and f.name.startswith("test")}
                bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in classes]
                for base in bases[node.name]:
                    classes[node.name] |= classes[base]

    read(script)
    return classes


def require_test(fault, tree):
    """A script must be there with the tests named; LookupError otherwise. (Of GoogleTest the run itself says so.)"""
    if not fault.is_script():
        return
    script, *words = fault.test.split()
    classes = tests_of(tree / SCRIPTS / script)
    for chosen in [word for word in words if not word.isdigit() and not word.startswith("-")]:
        class_name, _, test = chosen.partition(".")
        if not (test in classes.get(class_name, ()) if test else classes.get(class_name)):
            raise LookupError(f"{fault.name}: there is no {chosen} in {script}")


def check_table():
    stale = []
    for fault in FAULTS + LADDER:
        try:
            planted(fault, ROOT)
            if isinstance(fault, Fault):
                require_test(fault, ROOT)
        except (LookupError, OSError) as error:
            stale.append(str(error))
    return stale


def bring_up_to_date(tree):
    """Copies what differs, removes what is gone; untouched files keep their times."""
    wanted = set()
    for top in COPIED:
        source = ROOT / top
        for path in ([source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file())):
            relative = path.relative_to(ROOT)
            wanted.add(relative)
            target = tree / relative
            if not target.exists() or not filecmp.cmp(path, target, shallow=False):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
    for top in COPIED:
        for path in [p for p in (tree / top).rglob("*") if p.is_file()]:
            if path.relative_to(tree) not in wanted:
                path.unlink()


# Warnings that a fault may bring are no errors, whatever the flags.
LENIENT = "".join(f'#pragma GCC diagnostic warning "-Wunused-{what}"\n'
                  for what in ("variable", "parameter", "function", "but-set-variable"))


def ended(command, folder):
    """What the command printed until its end. A planted fault may keep it from ending: then until it was made to."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=folder,
                               start_new_session=True)
    try:
        return process.communicate(timeout=600)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


class Workshop:
    """The copy and its build, made as the tests' own is, so that a compiler cache knows most of it."""

    def __init__(self, folder, jobs):
        self.tree, self.build_folder, self.jobs = folder, folder / "build" / "faults", jobs
        self.tree.mkdir(parents=True, exist_ok=True)
        bring_up_to_date(self.tree)
        subprocess.run(["cmake", "--preset", "ci", "-S", self.tree, "-B", self.build_folder], check=True, cwd=self.tree,
                       stdout=subprocess.DEVNULL)
        self.seen = {}  # (digest of a program, filter): whether it was green

    def build(self, targets):
        result = subprocess.run(["ninja", "-C", self.build_folder, f"-j{self.jobs}", *targets],
                                capture_output=True, text=True)
        return result.returncode == 0, result.stdout[-3000:]

    def program(self, target):
        """The program or library that a target builds."""
        names = {target, f"lib{target}.so"}
        return next(p for p in sorted(self.build_folder.rglob("*")) if p.name in names and p.is_file())

    def is_green(self, name, tests):
        """A program that does not change gives what it gave: most faults leave most programs alone."""
        program = self.program(name)
        key = hashlib.sha256(program.read_bytes()).hexdigest(), tests
        if key not in self.seen:
            try:
                result = subprocess.run([program, f"--gtest_filter={tests}"], capture_output=True, text=True, timeout=600,
                                        cwd=self.tree)
                ran = "[ RUN      ]" in result.stdout
                self.seen[key] = result.returncode == 0 and ran
            except subprocess.TimeoutExpired:
                self.seen[key] = False
        return self.seen[key]

    def red_levels(self):
        return [level for level, tests in LEVELS.items() if not all(self.is_green(*test) for test in tests.items())]

    def plant_in_ladder(self, fault):
        """Nothing if exactly its levels turned red, else what is wrong."""
        path, text = planted(fault, self.tree)
        healthy = path.read_text()
        path.write_text(LENIENT + text)
        try:
            built, output = self.build(ladder_programs())
            if not built:
                return f"does not build, so it proves nothing:\n{output}"
            red = " ".join(self.red_levels())
            return "" if red == fault.red else f"red: {red or 'nothing'}"
        finally:
            path.write_text(healthy)

    def run(self, fault):
        """(number of tests that ran, number that failed, what was printed)."""
        files = [self.program(target) for target in fault.targets()]
        if fault.is_script():
            script, *words = fault.test.split()
            output = ended([sys.executable, self.tree / SCRIPTS / script, *files, *words, "-v"], self.tree)
            ran, skipped = re.search(r"^Ran (\d+) test", output, re.M), re.search(r"\bskipped=(\d+)", output)
            ran = (int(ran[1]) if ran else 1) - (int(skipped[1]) if skipped else 0)  # none: it did not come to its end
            return ran, ran - len(re.findall(r"\bok$", output, re.M)), output
        output = ended([files[0], f"--gtest_filter={fault.test}:*/{fault.test}"], self.tree)
        ran = len(re.findall(r"^\[ RUN      \]", output, re.M))
        return ran, ran - len(re.findall(r"^\[       OK \]", output, re.M)), output

    def plant(self, fault):
        """Nothing if the fault was seen, else what is wrong."""
        path, text = planted(fault, self.tree)
        healthy = path.read_text()
        path.write_text(LENIENT + text)
        try:
            built, output = self.build(fault.targets())
            if not built:
                return f"does not build, so it proves nothing:\n{output}"
            ran, failed, output = self.run(fault)
            if ran == 0:
                return f"nothing ran, so it proves nothing:\n{output[-3000:]}"
            return "" if failed == ran else f"{ran - failed} of {ran} tests stayed green"
        finally:
            path.write_text(healthy)


def ladder_programs():
    return sorted({program for tests in LEVELS.values() for program in tests})


def run_single(workshop, chosen):
    """How many faults their tests did not see; None when the tests are red without any."""
    built, output = workshop.build(sorted({target for f in chosen for target in f.targets()}))
    if not built:
        print(f"the healthy sources do not build:\n{output}")
        return None
    for fault in chosen:
        ran, failed, output = workshop.run(fault)
        if ran == 0 or failed:
            print(f"{fault.program} {fault.test}: {failed} of {ran} fail without any fault\n{output[-3000:]}")
            return None
    unseen = 0
    for fault in chosen:
        problem = workshop.plant(fault)
        unseen += bool(problem)
        print(f"{'NOT SEEN' if problem else 'seen    '} {fault.name} ({fault.test}) {problem}", flush=True)
    return unseen


def run_ladder(workshop, chosen):
    """How many faults turned other levels red than theirs; None when one is red without any."""
    built, output = workshop.build(ladder_programs())
    if not built:
        print(f"the healthy sources do not build:\n{output}")
        return None
    if red := workshop.red_levels():
        print(f"red without any fault: {' '.join(red)}")
        return None
    wrong = 0
    for fault in chosen:
        problem = workshop.plant_in_ladder(fault)
        wrong += bool(problem)
        print(f"{'WRONG   ' if problem else 'seen    '} {fault.name} ({fault.red}) {problem}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "faults")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--check-table", action="store_true")
    parser.add_argument("--ladder", action="store_true")
    parser.add_argument("names", nargs="*", help="only faults whose name contains one of these")
    arguments = parser.parse_args()
    stale = check_table()
    if stale or arguments.check_table:
        print("\n".join(stale + [f"{len(FAULTS) + len(LADDER) - len(stale)} passed, {len(stale)} failed"]))
        return 1 if stale else 0

    def chosen(table):
        return [f for f in table if not arguments.names or any(n in f.name for n in arguments.names)]
    workshop = Workshop(arguments.folder.resolve(), arguments.jobs)
    done, unseen = 0, 0
    for table, run in ((FAULTS, run_single), (LADDER, run_ladder)):
        faults = chosen(table)
        if not faults or (arguments.ladder and table is FAULTS):
            continue
        missed = run(workshop, faults)
        if missed is None:
            return 1
        done, unseen = done + len(faults), unseen + missed
    print(f"{done - unseen} passed, {unseen} failed")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
