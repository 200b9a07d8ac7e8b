#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completion scripts and manual pages say what --help says: python3 documentation_test.py PROGRAM"""
import os
import pathlib
import re
import shutil
import tempfile
import unittest

from options_test import COMMANDS
from program import ended, run, run_json

GROUPS = ("", "tokenizer", "evaluate", "bench")


def options_of(command):
    """The options that --help of a command tells of, with all their names."""
    text = run(*command.split(), "--help")
    return sorted({name for line in re.findall(r"^  (-\S+)", text, re.M) for name in line.split(",")})


def spoken(page):
    """A page without roff's escapes."""
    return re.sub(r"\\f[BIR]", "", page).replace("\\-", "-")


class Documentation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.scripts = {shell: run("completion", shell) for shell in ("bash", "zsh", "fish")}
        for shell, script in cls.scripts.items():
            (cls.folder / shell).write_text(script)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_the_list_of_commands_is_whole(self):
        pages = {pathlib.Path(page).name for page in run_json("man", "--output", self.folder / "all")["pages"]}
        self.assertEqual({"-".join(("megalith", *command.split())) + ".1" for command in (*COMMANDS, *GROUPS)}, pages)
        self.assertEqual({page.name for page in (self.folder / "all").iterdir()}, pages)

    def test_every_option_of_every_help_is_in_its_page_and_its_completions(self):
        for command in (*COMMANDS, *GROUPS):
            page, words = spoken(run("man", *command.split())), " ".join(("megalith", *command.split()))
            options = options_of(command)
            self.assertIn("--help", options)
            zsh = re.search(rf"^_{words.replace(' ', '_')}\(\) {{\n(.*?)^}}$", self.scripts["zsh"], re.M | re.S)[1]
            fish = "\n".join(line for line in self.scripts["fish"].splitlines() if f"'__megalith_at {words}'" in line)
            bash = re.search(rf"^    '{words}'\)\n      options='(.*)'$", self.scripts["bash"], re.M)[1].split()
            self.assertEqual(sorted(bash), options)
            for option in options:
                with self.subTest(command=command, option=option):
                    self.assertRegex(page, rf"(?m)^\.TP\n(-\w, )?{option}\b")
                    self.assertRegex(zsh, rf"'\*?{option}[=\[]")
                    self.assertRegex(fish, rf" {'-l' if option.startswith('--') else '-s'} {option.lstrip('-')} ")

    def test_a_page_has_choices_defaults_ranges_and_examples(self):
        page = spoken(run("man", "tokenizer", "train"))
        for text in ("--pattern gpt2|llama3", "Default: gpt2.", "From 0 to 1024.", "Required.", ".SH EXAMPLES", "megalith tokenizer train --input", ".BR megalith-tokenizer (1)"):
            self.assertIn(text, page)
        self.assertIn(".BR megalith-train (1)", spoken(run("man")))

    def test_pages_of_no_command_are_refused(self):
        for words, hint in ((("trian",), "train"), (("bench", "gem"), "gemm"), (("train", "x"), "no command x")):
            self.assertIn(hint, run("man", *words, code=2))
        run("man", "train", "--output", self.folder / "x", code=2)
        run("completion", "tcsh", code=2)

    def completed(self, *words):
        """What bash offers for the last word."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _megalith; printf "%s\\n" "${COMPREPLY[@]}"')
        return ended(["bash", "-c", script, "bash", self.folder / "bash", "megalith", *words], check=True).stdout.split()

    def test_bash_completes(self):
        self.assertEqual(self.completed("tok"), ["tokenizer"])
        self.assertEqual(sorted(self.completed("tokenizer", "")), ["chat", "convert", "decode", "encode", "train"])
        self.assertEqual(self.completed("tokenizer", "train", "--vo"), ["--vocab-size"])
        self.assertEqual(self.completed("tokenizer", "train", "--pattern", "l"), ["llama3"])
        self.assertEqual(self.completed("generate", "--dtype", "=", "b"), ["bf16"])
        self.assertEqual(sorted(self.completed("generate", "--dtype", "=")), ["bf16", "f16", "f32"])
        self.assertEqual(sorted(self.completed("completion", "")), ["bash", "fish", "zsh"])
        self.assertEqual(self.completed("tokenizer", "train", "--input", ""), [])  # files
        self.assertEqual(self.completed("train", ""), [])
        self.assertIn("--json", self.completed("doctor", ""))
        self.assertEqual(self.completed("train", "r.yaml", "--se"), ["--set"])
        self.assertEqual(sorted(self.completed("bench", "gemm", "--samples", "3", "--th")), ["--threads"])

    @unittest.skipUnless(shutil.which("fish"), "there is no fish")
    def test_fish_completes(self):
        for line, offered in (("megalith tok", ["tokenizer"]), ("megalith tokenizer ", ["chat", "convert", "decode", "encode", "train"]), ("megalith tokenizer train --pattern l", ["llama3"]),
                              ("megalith completion ", ["bash", "fish", "zsh"]), ("megalith train --se", ["--set"])):
            said = ended(["fish", "--no-config", "-c", f"source {self.folder / 'fish'}; complete -C '{line}'"], check=True,
                         env={**os.environ, "HOME": str(self.folder)}).stdout
            self.assertEqual(sorted(word.split("\t")[0] for word in said.splitlines()), offered, line)

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh_completes(self):
        typed = """
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; PROMPT_EOL_MARK=; autoload -U compinit; compinit -u -D; source $1; cd /; print rea''dy"
zpty -r -m z line '*ready*'
shift
while [[ $# -gt 0 ]]; do
  zpty -w -n z "$1"$'\\t'
  zpty -r -m z line "*$2*"  # waits for it
  print -r -- "$2"
  zpty -w -n z $'\\x15'
  shift 2
done
"""
        self.assertEqual(ended(["zsh", "-n", self.folder / "zsh"]).stderr, "")
        pairs = [("megalith tok", "megalith tokenizer"), ("megalith tokenizer tra", "megalith tokenizer train"), ("megalith tokenizer train --pattern l", "--pattern llama3"),
                 ("megalith completion fi", "megalith completion fish"), ("megalith train --pro", "megalith train --profile")]
        said = ended(["zsh", "-f", "-c", typed, "zsh", self.folder / "zsh", *(word for pair in pairs for word in pair)], check=True,
                     env={**os.environ, "HOME": str(self.folder), "TERM": "dumb"}).stdout
        self.assertEqual(said.splitlines(), [completed for _, completed in pairs])

    def test_pages_are_good_roff(self):
        pages = run_json("man", "--output", self.folder / "linted")["pages"]
        checks = [["groff", "-man", "-Tutf8", "-ww", "-z"], ["mandoc", "-Tlint", "-Wwarning"]]
        there = [check for check in checks if shutil.which(check[0])]
        if not there:
            self.skipTest("there is no groff and no mandoc")
        for check in there:
            for page in pages:
                result = ended([*check, page])
                self.assertEqual((result.returncode, result.stdout + result.stderr), (0, ""), page)


if __name__ == "__main__":
    unittest.main()
