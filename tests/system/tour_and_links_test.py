#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What documents say of the sources is there: python3 tour_and_links_test.py

Every document: links lead somewhere, paths in backticks that begin with a folder of the project exist, and a room's README names files
that the room has. docs/tour.md, to the letter: every path exists; every other word in backticks stands in a file that its paragraph
names; every block `cpp PATH` is lines of PATH (`...` leaves some out); a stated number of lines is the file's; stops and levels are
those of the rooms, and go down.
"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from check_rooms import parse_rooms  # noqa: E402

PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:md|h|cpp|py|txt|awk)")
FENCE = re.compile(r"^```(\S*) ?([^\n]*)\n(.*?)^```$", re.M | re.S)
FOLDERS = ("src", "apps", "tests", "tools", "docs", "bench", "script", "recipes", "cmake", "examples")


def documents():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [ROOT / name for name in listed if not name.startswith("bench/results/")]


def quoted(text):
    return re.findall(r"`([^`\n]+)`", text)


def is_there(path):
    return any(ROOT.glob(path)) if "*" in path else (ROOT / path).exists()


def squeezed(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def has_lines(content, lines):
    have = squeezed(content)
    return any(have[i:i + len(lines)] == lines for i in range(len(have) - len(lines) + 1))


def wrong_snippets(page):
    for _, path, snippet in FENCE.findall(page):
        if not path or not (ROOT / path).is_file():
            yield f"a block of no file: {path}"
            continue
        content = (ROOT / path).read_text()
        for part in re.split(r"^\s*\.\.\.\s*$", snippet, flags=re.M):
            if not has_lines(content, squeezed(part)):
                yield f"{path} does not have these lines:\n{part}"


def wrong_names(page):
    """Paths that do not exist, and names that are in no file of their paragraph."""
    prose = FENCE.sub("", page)
    prose = prose[:prose.index("## Words")]
    for paragraph in re.split(r"\n\n|\n(?=- )", prose):
        words = quoted(paragraph)
        paths = [word for word in words if PATH.fullmatch(word)]
        for path in paths:
            if path != "README.md" and not (ROOT / path).exists():
                yield f"{path} does not exist"
        content = ""
        for path in paths:
            if (ROOT / path).is_file():
                content += (ROOT / path).read_text()
        for word in words:
            if word not in paths and not re.search(rf"(?<!\w){re.escape(word.split('::')[-1])}(?!\w)", content):
                yield f"`{word}` is in no file that its paragraph names: {', '.join(paths)}"


def wrong_counts(page):
    for sentence in re.split(r"(?<=[.:])\s", FENCE.sub("", page)):
        for number in re.findall(r"([\d,]+) lines", sentence):
            paths = [word for word in quoted(sentence) if (ROOT / word).is_file()]
            if [len((ROOT / path).read_text().splitlines()) for path in paths] != [int(number.replace(",", ""))]:
                yield f"{number} lines: {sentence}"


def wrong_stops(page):
    rooms, last = {name: level for name, (level, _, _) in parse_rooms().items()}, 1000
    rows = re.findall(r"^\| (\d+) \| (\w+) \|\s*(\d*)\s*\| `([^`]+)` \|$", page, re.M)
    if [int(row[0]) for row in rows] != list(range(1, len(rows) + 1)) or len(rows) < 2:
        yield "no table of stops"
    for number, place, level, path in rows:
        if not (ROOT / path).is_file() or place not in pathlib.PurePath(path).parts:
            yield f"stop {number}: {path} is not of {place}"
        if place == "apps":
            continue
        if rooms.get(place) != int(level or -1):
            yield f"stop {number}: {place} has level {rooms.get(place)}"
        elif int(level) >= last:
            yield f"stop {number}: from level {last} up to {level}"
        else:
            last = int(level)
        stop = re.search(rf"^## {number}\. .*?(?=^## )", page, re.M | re.S)
        if not stop or f"`{path}`" not in stop[0] or "```cpp " not in stop[0]:
            yield f"stop {number} does not read and quote {path}"


def faults_of_tour(page):
    return [*wrong_names(page), *wrong_snippets(page), *wrong_counts(page), *wrong_stops(page)]


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for page in documents():
            for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", FENCE.sub("", page.read_text())):
                if not re.match(r"[a-z]+:", link):
                    self.assertTrue((page.parent / link).exists(), f"{page.relative_to(ROOT)}: {link}")

    def test_paths_exist(self):
        for page in documents():
            for word in quoted(FENCE.sub("", page.read_text())):
                path = word.split(" ")[0]
                if re.fullmatch(rf"(?:{'|'.join(FOLDERS)})/[\w./*-]+", path):
                    self.assertTrue(is_there(path), f"{page.relative_to(ROOT)}: {path}")

    def test_rooms_have_the_levels_that_their_readmes_say(self):
        for name, (level, _, _) in parse_rooms().items():
            said = re.search(r"\(?level (\d+)", (ROOT / "src" / name / "README.md").read_text(), re.I)
            if said:
                self.assertEqual(int(said[1]), level, name)

    def test_rooms_have_the_files_that_their_readmes_name(self):
        for page in ROOT.glob("src/*/README.md"):
            for word in quoted(page.read_text()):
                if re.fullmatch(r"[\w./-]+\.(?:h|cpp|md|awk|proto)", word):
                    self.assertTrue(any((folder / word).exists() for folder in (page.parent, ROOT / "src", ROOT)) or list(page.parent.rglob(word)),
                                    f"{page.relative_to(ROOT)}: {word}")


class Readme(unittest.TestCase):
    def test_each_figure_stands_alone_and_has_a_record(self):
        """Of the table of measurements: one figure in a cell, and a link to its record with commit and date, or to the test that holds it."""
        table = (ROOT / "README.md").read_text().split("## Measured")[1].split("\n## ")[0]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")]
        self.assertEqual(rows.pop(0)[-1], "record")
        self.assertGreater(len(rows), 5)
        for row in rows[1:]:
            with self.subTest(row=row):
                self.assertEqual(len(row), 4)
                self.assertRegex(row[1], r"^([\d.,]+( (%|min|s))?)( [\d.]+ s)?$")
                if row[3] != "the same":
                    self.assertRegex(row[3], r"\]\(bench/results/[^)]+\), .*[0-9a-f]{7}.*, \d{4}-\d\d-\d\d$|\]\(docs/[^)]+\), held by a test$")


class Tour(unittest.TestCase):
    def setUp(self):
        self.page = (ROOT / "docs" / "tour.md").read_text()

    def test_it_is_true(self):
        self.assertEqual(faults_of_tour(self.page), [])

    def test_what_is_wrong_is_seen(self):
        """Planted faults, each of which must be told."""
        for right, wrong in (("`src/data/sampler.h`", "`src/data/samplers.h`"), ("`run_training`", "`run_trainings`"),
                             ("`BlockSaved`", "`BlockKept`"), ("blocks_[block].forward(context, batch", "blocks_[i].forward(batch, context"),
                             ("cpp src/account/plan.h", "cpp src/account/plans.h"), ("| 3 | engine | 8 |", "| 3 | engine | 7 |"),
                             ("| 4 | models | 7 |", "| 4 | data | 2 |"), ("`src/layers/linear.cpp` is", "`src/layers/linear.cpp` in 100 lines is")):
            self.assertIn(right, self.page)
            self.assertTrue(faults_of_tour(self.page.replace(right, wrong)), wrong)

    def test_a_true_number_of_lines_is_true(self):
        lines = len((ROOT / "src/layers/linear.cpp").read_text().splitlines())
        self.assertEqual(faults_of_tour(self.page.replace("`src/layers/linear.cpp` is", f"`src/layers/linear.cpp` in {lines} lines is")), [])


if __name__ == "__main__":
    unittest.main()
