#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every option of every command, and recipes: python3 options_test.py PROGRAM"""
import json
import os
import subprocess
import unittest

from program import PATIENCE, PROGRAM, run
from refusals import Refusals

MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

COMMANDS = ("tokenizer train", "tokenizer encode", "tokenizer decode", "tokenizer chat", "tokenizer convert", "pack", "train", "tune", "generate", "serve", "evaluate score", "evaluate perplexity",
            "evaluate embed", "evaluate classify", "evaluate tags", "evaluate answers", "evaluate tasks", "evaluate glue", "evaluate compare", "plan", "convert", "report", "bench gemm", "bench train", "bench decode", "bench embed", "bench tokenizer", "bench grammar", "bench layouts", "bench machine", "bench collective", "doctor",
            "completion", "man")


class Options(Refusals):
    def test_recipes(self):
        valid = self.recipe.read_bytes()
        for what, path in self.each("recipe.yaml", valid):
            if what in ("half", "one byte short", "empty"):
                continue  # may be whole recipes
            self.refused("train", path, say=[path.name])
            self.refused("plan", path, say=[path.name])
        bomb = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9)) for i in range(9))
        for content in (bomb, b"model: {layers: 2}\nmodel: {layers: 3}\n" + valid, valid + b"#" * (1 << 20), b"- a\n", b"3\n", valid + b"\n---\n" + valid, b"model: !!python/object:os.system {}\n"):
            self.refused("plan", self.put("bad-recipe.yaml", content), say=["bad-recipe.yaml"])
        self.enormous(("plan",))

    def test_overrides(self):
        for override in ("model.layers=-1", "model.layers=0", "model.layers=1e3x", "model.layers=99999999999999999999", "model.layers=1000000000", "model.layers=2.5",
                         "model.layers=[2]", "model.layers={a: 1}", "model.layers=true", "model.layers=null", "model.hidden=9223372036854775807", "model.context=4611686018427387904",
                         "model.vocab=9000000000000000000", "model.heads=5", "optimizer.lr=nan", "optimizer.lr=inf", "optimizer.lr=-1", "optimizer.lr=1e999", "model.dropout=1", "model.dropout=-0.1",
                         "train.global_batch=0", "train.global_batch=4611686018427387904", "train.micro_batch=3", "train.steps=-2", "a..b=1", ".=1", "=1", "model", "", "model.layrs=2", "model.layers.x=2",
                         "data.train.7=x", "data.train=[{path: a, weight: -1}]", "data.train=[{path: a, weight: nan}, b]", "data.train=[" + "[" * 5000, "numerics=quick",
                         "run.threads=-1", "run.threads=1000000000", "checkpoint.keep=0", "\x1b[31m=1", "run.seed=x", "train.steps=", "train.epochs=2.5x", "model.layrs=", "data.train.0=", "parallel.tensor=3", "parallel.pipeline=1000000", "parallel.data=0"):
            self.refused("plan", self.recipe, "--set", override)
            self.refused("train", self.recipe, "--set", f"run.out={self.folder / 'x'}", "--set", override)

    def test_text_samples_that_cannot_be_written(self):
        long = json.dumps("the cat sees " * 50)
        message = self.refused("train", self.recipe, "--set", f"run.out={self.folder / 'x'}", "--set", "train.sample_every=1", "--set", f"train.sample_prompts=[the, {long}]")
        self.assertRegex(message, r"train\.sample_prompts\[1\] is \d+ tokens long; from 1 to \d+, the context that it has, can be continued")

    def test_numbers(self):
        t, run_folder, x = self.tokenizer, self.folder / "run", self.folder / "x"
        generate = ("generate", "--checkpoint", run_folder, "--prompt", "the")
        text = self.folder / "text.txt"
        never = ("x", "", "1x", "99999999999999999999999", "nan", "1e999")
        for command, more in (((*generate, "--max-new-tokens"), ("-1", "1.5")), ((*generate, "--temperature"), ("-1", "inf", "-nan")), ((*generate, "--top-k"), ("-1", "1.5")),
                              ((*generate, "--top-p"), ("-0.1", "1.1", "0", "inf")), ((*generate, "--min-p"), ("-0.1", "1.1", "inf")), ((*generate, "--typical-p"), ("0", "1.1")),
                              ((*generate, "--repetition-penalty"), ("0", "-1", "inf")), ((*generate, "--presence-penalty"), ("-101", "inf")), ((*generate, "--frequency-penalty"), ("101",)),
                              ((*generate, "--no-repeat-ngram"), ("-1", "1.5")),
                              ((*generate, "--min-tokens"), ("-1", "1.5")), ((*generate, "--json", "--top-logprobs"), ("-1", "21", "1.5")), ((*generate, "--logit-bias"), ("1", "1=", "=1", "-1=1", "9999999=1", "1=inf", "1=1x")),
                              ((*generate, "--beams"), ("-1", "0", "65", "1.5")), ((*generate, "--length-penalty"), ("101", "-101", "inf")), ((*generate, "--beams=2", "--early-stopping"), ("maybe", "1")),
                              ((*generate, "--json", "--beams=2", "--best"), ("0", "3")), ((*generate, "--lookup"), ("-1", "65", "1.5")), ((*generate, "--draft-tokens"), ("0", "65")), ((*generate, "--seed"), ("-1", "1.5")), ((*generate, "--threads"), ("-1", "100000")), ((*generate, "--dtype"), ("f8",)),
                              (("tokenizer", "train", "--input", text, "--output", x, "--vocab-size"), ("-1", "0", "256", "1000000000000", "1.5")),
                              (("tokenizer", "train", "--input", text, "--output", x, "--vocab-size", 300, "--min-frequency"), ("-1", "1.5")),
                              (("tokenizer", "train", "--input", text, "--output", x, "--vocab-size", 300, "--threads"), ("-1", "100000")),
                              (("pack", "--tokenizer", t, "--input", text, "--output", x, "--threads"), ("-1", "100000")), (("train", self.recipe, "--ranks"), ("-1", "0", "100000")),
                              (("bench", "gemm", "--threads"), ("-1", "100000")), (("bench", "gemm", "--samples"), ("-1", "0"))):
            for value in never + more:
                self.refused(*command[:-1], f"{command[-1]}={value}")

    def test_numbers_that_are_infinite(self):
        """Options with a range, one end of one, and none."""
        for command, options in ((("generate",), ("--temperature", "--top-p", "--min-p", "--typical-p", "--repetition-penalty", "--presence-penalty", "--frequency-penalty", "--length-penalty")),
                                 (("serve",), ("--deadline-seconds", "--drain-seconds", "--header-seconds", "--stuck-seconds")), (("evaluate", "answers"), ("--null-threshold",)),
                                 (("plan",), ("--mtbf-hours", "--save-seconds", "--write-seconds", "--restart-seconds", "--interval-minutes", "--days", "--price", "--tflops",
                                              "--max-latency-ms", "--max-ttft-ms", "--max-tpot-ms", "--arrivals", "--nemo-size"))):
            for option in options:
                for word in ("nan", "-nan", "NaN", "inf", "-inf", "infinity", "1e999"):
                    self.refused(*command, f"{option}={word}", say=[option])

    def test_words_and_numbers_that_are_none_of_an_options(self):
        t, run_folder, x = self.tokenizer, self.folder / "run", self.folder / "x"
        text, line = self.folder / "text.txt", self.put("one.jsonl", b'{"text": "the cat"}\n')
        huge, word, number = str(2**63 - 1), ("", "quick", "F32", "\x1b[31m"), ("", "x", "-1", "0", "1.5", "1e3", str(2**63 - 1), str(2**64))
        decode, generate = ("bench", "decode"), ("generate", "--checkpoint", run_folder, "--prompt", "the")
        score, perplexity = ("evaluate", "score", "--checkpoint", run_folder, "--input", self.lines), ("evaluate", "perplexity", "--checkpoint", run_folder, "--input", self.text)
        learn = ("tokenizer", "train", "--input", text, "--output", x, "--vocab-size", 285)
        for command, option, values in (
                (learn, "--pattern", word), (learn, "--min-frequency", (huge,)), (("pack", "--tokenizer", t, "--input", line, "--output", x), "--field", ("", "absent")),
                (("pack", "--tokenizer", t, "--input", text, "--output", x), "--field", ("text",)), (("pack", "--tokenizer", t, "--input", text, "--output", x), "--document", word),
                (perplexity, "--document", (*word, "paragraph")), (generate, "--kv-dtype", word), (generate, "--stop", ("",)),
                *((command, option, ("", "absent", text, run_folder, "\x1b[32m")) for command, option in (
                    (generate, "--adapter"), (score, "--adapter"), (perplexity, "--adapter"), (("convert", "--from", run_folder, "--to", x), "--merge-adapter"))),
                (generate, "--regex", ("(", "a{2", "(?=a)", "[]", "\\b", "\x1b[31m", "(a|b)*a(a|b){30}")), (generate, "--choices", ("", "absent", self.folder, self.put("none.txt", b"\n\n"))),
                (generate, "--json-schema", ("", "absent", self.folder, *(self.put(f"schema-{i}.json", content) for i, content in enumerate(
                    (b"", b"[]", b"{", b"false", b'{"not": {}}', b'{"$ref": "#"}', b'{"maxLength": 1e30}', b'{"pattern": "\\\\p{L}"}', b"[" * 5000, b" " * (2 << 20)))))),
                ((*generate, "--json-object"), "--regex", ("a",)), ((*generate, "--choice", "a"), "--choices", (text,)), ((*generate, "--regex", "a"), "--choice", ("b",)),
                *((command, option, word) for command in (generate, score, perplexity) for option in ("--numerics", "--dtype", "--quantize")), *((command, "--threads", ("x", "-1", "100000")) for command in (score, perplexity)),
                (("convert", "--from", run_folder, "--to", x), "--format", word), (("convert", "--from", run_folder, "--to", x), "--dtype", word), (("convert", "--from", run_folder, "--to", x, "--format", "gguf"), "--quantize", word),
                (("convert", "--from", run_folder, "--to", x, "--format", "gguf"), "--quantize-tensor", (*word, "x=q9", "=q8_0", "x=q8_0")),
                (("train", self.recipe, "--set", f"run.out={x}"), "--profile", (*number[1:], "1001")), (("train", self.recipe, "--set", f"run.out={x}"), "--allow", ("x", "")),
                (("plan", self.recipe), "--timeline", ("", self.folder, self.folder / "absent" / "x", self.text / "x", "/" + "long/" * 1500)),
                (("bench", "layouts", self.recipe), "--beside", ("", "x", "=1", "model.layrs=2", "parallel.tensor=3")),
                *((decode, option, word) for option in ("--dtype", "--quantize", "--numerics")), *((decode, option, number) for option in ("--layers", "--hidden", "--heads", "--vocab", "--context", "--prompt", "--tokens")),
                (decode, "--heads", ("5",)),
                (("bench", "machine", "--output", x), "--ranks", ("", "x", "-1", "1.5", "1025")), (("bench", "machine", "--output", x), "--samples", number[:5]),
                (("bench", "collective"), "--ranks", (*number, "3")), (("bench", "collective"), "--elements", (*number, str(2**62 + 1)))):
            for value in values:
                with self.subTest(option=option, value=str(value)[:40]):
                    self.refused(*command, f"{option}={value}", say=[option] if value in word + number[:-2] else ())

    def test_grammars_that_cannot_be_followed(self):
        generate = ("generate", "--checkpoint", self.folder / "run", "--prompt", "the")
        many = {"anyOf": [{"properties": {"a": {"const": i}}, "required": ["a"]} for i in range(3000)]}
        ambiguous = self.put("ambiguous.json", json.dumps(many).encode())
        for more in ((), ("--json",), ("--ranks=2",)):
            with self.subTest(more=more):
                self.refused(*generate, f"--json-schema={ambiguous}", *more, say=["ambiguous.json", "in more than"])
        self.refused(*generate, f"--json-schema={ambiguous}", "--beams=2", say=["ambiguous.json", "in more than"])
        self.assertIn("in more than", run(*generate, f"--json-schema={ambiguous}", "--stream", code=2))

    def test_a_server_that_cannot_be(self):
        seconds, whole = ("", "x", "0", "-1", "nan", "inf", "1e7"), ("", "x", "0", "-1", "1.5", str(2**64))
        for option, values in (("--port", ("x", "-1", "65536", "")), ("--grpc-port", ("x", "-1", "65536", "", "on", "80.5")), ("--adapter", ("", "x", "=x", "x=", "a/b=c", "x=absent", f"x={self.text}", "fastertransformer=x", "run=x")), ("--host", ("nowhere", "300.1.1.1")), ("--max-batch", whole), ("--max-queue", ("x", "-1", "1.5")), ("--context", (*whole, "1000")),
                               ("--memory", (*whole, "1000")), ("--lookup", ("x", "-1", "65")), ("--draft-tokens", ("x", "0", "65", "4")), ("--draft", (self.folder / "absent",)), ("--max-pass-tokens", whole), ("--max-connections", whole), ("--pooling", ("", "max")), ("--api-key-file", (self.folder / "absent",)),
                               *((option, seconds) for option in ("--deadline-seconds", "--drain-seconds", "--header-seconds", "--stuck-seconds"))):
            for value in values:
                self.refused("serve", "--checkpoint", self.folder / "run", f"{option}={value}")
        self.refused("serve", say=["--checkpoint"])

    def test_generate_options_that_do_not_go_together(self):
        generate = ("generate", "--checkpoint", self.folder / "run", "--prompt", "the")
        for options, say in ((("--beams=2", "--stop=x"), ["--stop", "--beams"]), (("--beams=2", "--temperature=0.5"), ["--beams", "--temperature"]),
                             (("--beams=2", "--top-k=3"), ["--top-k"]), (("--beams=2", "--lookup=2"), ["--beams"]), (("--lookup=2", f"--draft={self.folder / 'run'}"), ["--lookup", "--draft"]),
                             (("--top-logprobs=2",), ["--top-logprobs", "--json"]), (("--prompt-logprobs",), ["--prompt-logprobs", "--json"]), (("--beams=2", "--best=2"), ["--best", "--json"]),
                             (("--best=2", "--json"), ["--best", "--beams"]), (("--length-penalty=1",), ["--length-penalty", "--beams"]), (("--early-stopping=never",), ["--early-stopping", "--beams"]),
                             (("--beams=1", "--length-penalty=2"), ["--length-penalty", "--beams"]), (("--beams=1", "--early-stopping=true"), ["--early-stopping", "--beams"]),
                             (("--draft-tokens=4",), ["--draft-tokens", "--draft"]), (("--compact-json",), ["--compact-json", "--json-schema"]), (("--stream", "--json"), ["--stream", "--json"]),
                             (("--bad-words=",), ["--bad-words"]), (("--bad-words= ",), ["bad word"]), (("--draft=absent",), ["absent"])):
            self.refused(*generate, *options, say=say)

    def test_decoding_beyond_the_context(self):
        for more in (("--prompt", 1025), ("--tokens", 961), ("--tokens", 481, "--profile")):
            self.refused("bench", "decode", *more, say=["beyond the context of 1024"])
        for more in (("--prompt", 1025), ("--tokens", 1024), ("--tokens", 512, "--profile")):
            self.refused("bench", "decode", "--family", "t5", *more, say=["beyond the context of 1024"])
        self.refused("bench", "decode", "--family", "bert", say=["an encoder does not"])

    @unittest.skipIf(2 * MEMORY >= 2**42, "this machine might have it")  # an arena may be twice the memory
    def test_what_few_machines_have_the_memory_for(self):
        self.refused("bench", "collective", "--ranks", 1, "--elements", 2**40, codes=(1,), say=["out of memory", 2**42])

    def test_unknown_options_name_the_nearest(self):
        for wrong, right in (("--checkpiont", "--checkpoint"), ("--promt", "--prompt"), ("--maxnewtokens", "--max-new-tokens"), ("--jason", "--json")):
            self.refused("generate", wrong, "x", say=[wrong, right])
        self.refused("pack", "--tokeniser", "x", say=["--tokenizer"])
        self.refused("trian", say=["trian", "train"])
        self.refused("evaluate", "scores", say=["scores", "score"])
        self.refused("train", self.recipe, "extra", say=["extra"])
        self.refused("train", self.recipe, "--ste", "a=1", say=["--set"])

    def test_arguments_of_any_shape(self):
        run_folder = self.folder / "run"
        self.refused("generate", "--checkpoint", run_folder, "--prompt", "cat " * 30000)
        self.refused(*["x"] * 5000)
        self.refused("generate", "--checkpoint", run_folder, say=["--prompt", "--messages"])
        self.refused("generate", "--checkpoint", run_folder, "--prompt", "x", "--messages", "x", say=["--prompt", "--messages"])
        self.refused("generate", "--checkpoint", run_folder, "--prompt")
        self.refused("generate", "--checkpoint", run_folder, "--checkpoint", run_folder, "--prompt", "x")
        result = subprocess.run([PROGRAM.encode(), b"generate", b"--checkpoint", os.fsencode(run_folder), b"--prompt", b"\xff"], capture_output=True)
        self.assertEqual((result.returncode, result.stdout, result.stderr.count(b"\n")), (2, b"", 1), result.stderr)

    def test_help_of_every_command(self):
        for command in COMMANDS:
            text = run(*command.split(), "--help")
            self.assertIn("Examples:", text, command)
            self.assertIn(f"megalith {command}", text, command)
        self.assertIn("Examples:", run("--help"))

    def test_json_is_json(self):
        run_folder, t = self.folder / "run", self.tokenizer
        for command in (("doctor",), ("plan", self.recipe), ("report", run_folder), ("generate", "--checkpoint", run_folder, "--prompt", "the \x07", "--max-new-tokens", 3),
                        ("evaluate", "score", "--checkpoint", run_folder, "--input", self.lines), ("evaluate", "perplexity", "--checkpoint", run_folder, "--input", self.text),
                        ("tokenizer", "decode", "--tokenizer", t, "--input", self.put("half.json", b"[255, 128, 200]")), ("bench", "collective", "--samples", 1)):
            for line in run(*command, "--json").splitlines():
                self.assertIsInstance(json.loads(line, parse_constant=lambda word: self.fail(f"{command}: {word}")), dict)

    def test_output_that_nobody_reads(self):
        for command in (("doctor",), ("plan", self.recipe, "--json"), ("tokenizer", "encode", "--tokenizer", self.tokenizer, "--input", self.folder / "text.txt")):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([PROGRAM, *map(str, command)], stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE)
            self.assertEqual((result.returncode, result.stderr.count(b"\n")), (1, 1), result.stderr)


if __name__ == "__main__":
    unittest.main()
