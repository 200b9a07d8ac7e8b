#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command of the user guides runs and says what the guide says: python3 guides_test.py PROGRAM

In docs/guide/*.md a block of language `sh` holds commands, one a line (`\\` continues it), which end with 0 or as `# exit N`
behind them says. The block of language `text` behind it is their output: each of its lines is a line of it, in order, where
`...` stands for anything. A block `yaml NAME` is that file. Guides build on one another in the order below, in one folder.
"""
import os
import pathlib
import re
import tempfile
import unittest

from program import PROGRAM, ROOT, ended

GUIDES = ("your-own-data", "resuming", "hugging-face", "evaluating", "tuning")
NEEDED = pathlib.Path("/usr/share/wordnet/data.verb")


def blocks(page):
    """(language and name, content) of every fenced block."""
    return re.findall(r"^```(\S[^\n]*)\n(.*?)^```$", page, re.M | re.S)


def commands(block):
    """(command, exit code) of every line."""
    for line in re.sub(r"\\\n\s*", "", block).splitlines():
        code = re.search(r"\s+# exit (\d+)$", line)
        yield (line[:code.start()], int(code[1])) if code else (line, 0)


def missing(told, said):
    """The first line that a guide shows and its commands did not say, in order; nothing if they said all."""
    rest = iter(re.split(r"[\r\n]+", said))
    for line in told.splitlines():
        words = [".*".join(re.escape(part) for part in word.split("...")) for word in line.split()]
        pattern = re.compile(r"\s*" + r"\s+".join(words).replace(r"\s+.*\s+", r"\s+(.*\s+)?") + r"\s*$")
        if not any(pattern.match(other) for other in rest):
            return line
    return None


@unittest.skipUnless(NEEDED.exists(), "wordnet-base is not installed: script/bootstrap does it")
class Guides(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        (cls.folder / "bin").mkdir()
        (cls.folder / "bin" / "megalith").symlink_to(PROGRAM)
        (cls.folder / "tools").symlink_to(ROOT / "tools")
        cls.done = set()

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def run_guide(self, name):
        if name in self.done:
            return
        for earlier in GUIDES[:GUIDES.index(name)]:
            self.run_guide(earlier)
        self.done.add(name)
        environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        said = ""
        for language, content in blocks((ROOT / "docs" / "guide" / f"{name}.md").read_text()):
            kind, _, path = language.partition(" ")
            with self.subTest(guide=name, block=content):
                if kind == "yaml":
                    (self.folder / path).write_text(content)
                elif kind == "sh":
                    said = ""
                    for command, code in commands(content):
                        result = ended(["bash", "-euo", "pipefail", "-c", command], cwd=self.folder, env=environment)
                        said += result.stdout + result.stderr
                        self.assertEqual(result.returncode, code, f"{command}\n{result.stdout}{result.stderr}")
                else:
                    self.assertEqual(language, "text", "a block that is neither run nor compared")
                    self.assertIsNone(missing(content, said), f"not said by its commands, which say\n{said}")

    def test_your_own_data(self):
        self.run_guide("your-own-data")

    def test_resuming(self):
        self.run_guide("resuming")

    def test_hugging_face(self):
        self.run_guide("hugging-face")

    def test_evaluating(self):
        self.run_guide("evaluating")

    def test_tuning(self):
        self.run_guide("tuning")


class TheCheckItself(unittest.TestCase):
    def test_every_guide_with_commands_of_this_kind_is_here(self):
        with_text = {page.stem for page in (ROOT / "docs" / "guide").glob("*.md") if "```sh" in page.read_text()}
        self.assertEqual(with_text, set(GUIDES))

    def test_what_was_not_said_is_seen(self):
        said = "a 1\nmodel  12 parts\rmodel 34 parts\nloss 4.25 in 7 s\n"
        for told in ("a 1", "model 34 parts", "model ... parts\nloss 4.2... in ... s", "...", "a ..."):
            self.assertIsNone(missing(told, said), told)
        for told in ("b 1", "model 3 parts", "loss 4.3... in ... s", "loss 4.25 in 7 s\na 1", "a 1\na 1"):
            self.assertIsNotNone(missing(told, said), told)

    def test_exit_codes_are_read(self):
        self.assertEqual(list(commands("a b  # exit 3\nc \\\n  d\n")), [("a b", 3), ("c d", 0)])


if __name__ == "__main__":
    unittest.main()
