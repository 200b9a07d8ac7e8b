#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever file a person hands over: python3 input_test.py PROGRAM"""
import gzip
import json
import os
import resource
import shutil
import struct
import subprocess
import unittest

from program import ended, run, run_json
from refusals import HUGE, MEMORY, Refusals, hostile, tensors


class Input(Refusals):
    # -- paths ------------------------------------------------------------------------------------

    def file_options(self):
        """(command with %s where the file stands, codes)."""
        t, run_folder, x = self.tokenizer, self.folder / "run", self.folder / "x"
        yield ("tokenizer", "train", "--vocab-size", 300, "--output", x, "--input", "%s")
        yield ("tokenizer", "encode", "--tokenizer", "%s", "--input", self.text)
        yield ("tokenizer", "encode", "--tokenizer", t, "--input", "%s")
        yield ("tokenizer", "decode", "--tokenizer", "%s", "--input", self.ids)
        yield ("tokenizer", "decode", "--tokenizer", t, "--input", "%s")
        yield ("tokenizer", "chat", "--tokenizer", "%s", "--input", self.put("messages.json", b'[{"role": "user"}]'))
        yield ("tokenizer", "chat", "--tokenizer", t, "--input", "%s")
        yield ("pack", "--tokenizer", "%s", "--input", self.text, "--output", x)
        yield ("pack", "--tokenizer", t, "--input", "%s", "--output", x)
        yield ("train", "%s")
        yield ("train", self.recipe, "--set", f"run.out={x}", "--set", "data.train=%s")
        yield ("train", self.recipe, "--set", f"run.out={x}", "--set", "data.tokenizer=%s")
        yield ("plan", "%s")
        yield ("plan", self.recipe, "--set", "data.tokenizer=%s")
        yield ("generate", "--prompt", "x", "--checkpoint", "%s")
        yield ("generate", "--checkpoint", run_folder, "--messages", "%s")
        yield ("evaluate", "score", "--input", self.lines, "--checkpoint", "%s")
        yield ("evaluate", "score", "--checkpoint", run_folder, "--input", "%s")
        yield ("evaluate", "perplexity", "--input", self.text, "--checkpoint", "%s")
        yield ("evaluate", "perplexity", "--checkpoint", run_folder, "--input", "%s")
        yield ("convert", "--to", x, "--from", "%s")
        yield ("report", "%s")
        yield ("bench", "train", "%s")
        yield ("bench", "embed", "--input", self.lines, "--checkpoint", "%s")
        yield ("bench", "embed", "--checkpoint", run_folder, "--input", "%s")
        yield ("bench", "tokenizer", "--tokenizer", "%s", "--input", self.text)
        yield ("bench", "tokenizer", "--tokenizer", t, "--input", "%s")

    def test_paths(self):
        (self.folder / "loop").symlink_to("loop")
        (self.folder / "dangling").symlink_to("nowhere")
        (self.folder / "a folder").mkdir()
        for path in (self.folder / "absent", self.folder / "loop", self.folder / "dangling", self.folder / "a folder", "/" + "long/" * 1500,
                     self.folder / ("n" * 300), self.folder / "two\nlines \x1b[31m", self.folder / "übung/\U0001f642", self.text / "below", ""):
            for command in self.file_options():
                if path == "" and str(command[-1]).startswith("data.tokenizer="):
                    continue  # that is how a recipe says: none
                self.refused(*(str(word).replace("%s", str(path)) for word in command))

    def test_output_paths(self):
        t, text = self.tokenizer, self.text
        for path in ("", self.folder / "absent" / "x", self.text / "x", "/proc/nothing/x", "/" + "long/" * 1500, self.folder / ("n" * 300)):
            self.refused("tokenizer", "train", "--vocab-size", 300, "--input", self.folder / "text.txt", "--output", path)
            self.refused("pack", "--tokenizer", t, "--input", text, "--output", path)
            if path != self.folder / "absent" / "x":
                self.refused("convert", "--from", self.folder / "run", "--to", path)
                self.refused("train", self.recipe, "--set", "run.out=" + (str(path) or "''"))
        self.refused("tokenizer", "train", "--vocab-size", 300, "--input", self.folder / "text.txt", "--output", self.folder)
        self.refused("convert", "--from", self.folder / "run", "--to", self.text)
        self.refused("train", self.recipe, "--set", f"run.out={self.text}")

    # -- contents ---------------------------------------------------------------------------------

    def test_tokenizer_files(self):
        for _, path in self.each("tokenizer.json", self.tokenizer.read_bytes()):
            self.refused("tokenizer", "encode", "--tokenizer", path, "--input", self.text, say=[path.name])
            self.refused("pack", "--tokenizer", path, "--input", self.text, "--output", self.folder / "x", say=[path.name])
        whole = json.loads(self.tokenizer.read_text())
        model = whole["model"]
        for what in ({**whole, "model": {**model, "vocab": {**model["vocab"], "zz": 2**40}}}, {**whole, "model": {**model, "vocab": {**model["vocab"], "zz": -1}}},
                     {**whole, "model": {**model, "merges": [["no", "such"]]}}, {**whole, "model": {**model, "type": "WordPiece"}},
                     {**whole, "more": "NESTED"}, {**whole, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+"}, "behavior": "Isolated", "invert": False}}, [], 3, None):
            path = self.put("tokenizer-bad.json", json.dumps(what).replace('"NESTED"', "[" * 100_000 + "]" * 100_000).encode())
            self.refused("tokenizer", "encode", "--tokenizer", path, "--input", self.text, say=[path.name])
            path.unlink()
        self.enormous(("tokenizer", "encode", "--input", self.text, "--tokenizer"))

    def test_texts(self):
        x, t = self.folder / "x", self.tokenizer
        self.assertEqual(run_json("tokenizer", "encode", "--tokenizer", t, "--input", self.put("empty.txt", b""))["ids"], [])
        self.assertEqual(run_json("tokenizer", "encode", "--tokenizer", t, "--input", "/dev/null")["ids"], [])
        binary = self.put("binary.txt", b"ok\xff\xfe")
        surrogate = self.put("surrogate.txt", b"\xed\xa0\x80")
        for path in (binary, surrogate):
            self.refused("tokenizer", "encode", "--tokenizer", t, "--input", path, say=[path.name])
            self.refused("tokenizer", "train", "--vocab-size", 300, "--input", path, "--output", x, say=[path.name])
            self.refused("pack", "--tokenizer", t, "--input", path, "--output", x, say=[path.name])
            self.refused("evaluate", "perplexity", "--checkpoint", self.folder / "run", "--input", path, say=[path.name])
        self.refused("tokenizer", "train", "--vocab-size", 300, "--input", self.folder / "empty.txt", "--output", x)
        self.refused("pack", "--tokenizer", t, "--input", self.folder / "empty.txt", "--output", x)
        self.refused("evaluate", "perplexity", "--checkpoint", self.folder / "run", "--input", self.folder / "empty.txt")
        self.enormous(("tokenizer", "encode", "--tokenizer", t, "--input"))
        self.enormous(("tokenizer", "train", "--vocab-size", 300, "--output", x, "--input"))
        self.enormous(("evaluate", "perplexity", "--checkpoint", self.folder / "run", "--input"))
        self.enormous(("bench", "tokenizer", "--tokenizer", t, "--input"))

    def test_encodings(self):
        """A file is text in UTF-8, byte for byte; what is not is refused, what is comes back as it was."""
        x, t = self.folder / "x", self.tokenizer
        words = "the café sees the \U0001f642.\nthe dog.\n"
        for name, content in {"utf-16": words.encode("utf-16"), "utf-16-be": b"\xfe\xff" + words.encode("utf-16-be"), "utf-32": words.encode("utf-32"), "latin-1": "the café\n".encode("latin-1"),
                              "cut": words.encode()[:7] + b"\xc3", "cut-4": "the dog \U0001f642".encode()[:-1], "cesu-8": b"the \xed\xa0\xbd\xed\xb9\x82\n", "overlong": b"the \xc0\x80\n"}.items():
            path = self.put(f"{name}.txt", content)
            for unit in ("file", "line", "paragraph"):
                self.refused("pack", "--tokenizer", t, "--input", path, "--document", unit, "--output", x, say=[path.name, "UTF-8"])
            self.refused("tokenizer", "encode", "--tokenizer", t, "--input", path, say=["UTF-8"])
            line = self.put(f"{name}.jsonl", b'{"text": "' + content.replace(b"\n", b" ") + b'"}\n')
            self.refused("pack", "--tokenizer", t, "--input", line, "--output", x, say=[line.name])
        for name, content in {"bom": b"\xef\xbb\xbf" + words.encode(), "nul": b"the\0cat\0\n", "crlf": b"the cat\r\nthe dog\r\n", "controls": bytes(range(32)) + b"\x7f", "no-end": b"the cat",
                              "last": "the \U0010ffff \ufffe".encode()}.items():
            path, packed = self.put(f"{name}.txt", content), self.folder / f"packed-{name}"
            run("pack", "--tokenizer", t, "--input", path, "--document", "file", "--output", packed)
            stored = (self.folder / f"packed-{name}.bin").read_bytes()
            ids = list(struct.unpack(f"<{len(stored) // 2}H", stored))
            self.assertEqual(ids[:-1], run_json("tokenizer", "encode", "--tokenizer", t, "--input", path)["ids"], name)
            back = self.put("back.json", json.dumps(ids[:-1]).encode())
            self.assertEqual(run_json("tokenizer", "decode", "--tokenizer", t, "--input", back)["text"].encode(), content, name)

    def test_packed_inputs(self):
        x, t = self.folder / "x", self.tokenizer
        good = b'{"text": "the cat"}\n'
        for name, content in {
                "not.jsonl": b"the cat\n", "list.jsonl": b"[1]\n", "other.jsonl": b'{"txt": "a"}\n', "number.jsonl": b'{"text": 1}\n',
                "later.jsonl": good * 50000 + b'{"text": }\n', "nested.jsonl": b'{"text": ' + b"[" * 100000 + b"\n", "two.jsonl": b'{"text": "a"} {"text": "b"}\n',
                "surrogate.jsonl": b'{"text": "\\ud800"}\n', "overlong.jsonl": b'{"text": "\xc0\x80"}\n', "plain.jsonl.gz": good,
                "plain.txt.zst": b"the cat", "short.txt.gz": gzip.compress(b"the cat" * 1000)[:-12], "flipped.txt.gz": self.flipped(gzip.compress(b"the cat\n" * 1000)),
                "twice.jsonl": b'{"text": "a", "text": "b"}\n',
                "tail.txt.gz": gzip.compress(b"the cat\n") + b"tail", "claims.txt.zst": b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 62) + b"\x01\0\0",
                "window.txt.zst": b"\x28\xb5\x2f\xfd\x00\xff\x01\0\0"}.items():
            self.refused("pack", "--tokenizer", t, "--input", self.put(name, content), "--output", x, say=[name])
        self.refused("pack", "--tokenizer", t, "--input", self.put("blank.jsonl", b"\n \n\n"), "--output", x, say=["no documents"])
        # As other systems write them: with a mark at the beginning, with two characters at each end of a line.
        lines, packed = good + b'{"text": "a\\u0000dog"}\n', {}
        for name, content in {"plain": lines, "mark": b"\xef\xbb\xbf" + lines, "crlf": lines.replace(b"\n", b"\r\n")}.items():
            path = self.put(f"{name}.jsonl", content)
            run("pack", "--tokenizer", t, "--input", path, "--output", self.folder / f"packed-{name}")
            packed[name] = [(self.folder / f"packed-{name}.{part}").read_bytes() for part in ("idx", "bin")]
            packed[name].append(run("evaluate", "score", "--checkpoint", self.folder / "run", "--input", path))
            self.assertEqual(packed[name], packed["plain"], name)

    def test_zero_bytes(self):
        """A path would end at one: what a person wrote would be another place."""
        for key, value in (("run.out", self.folder / "x"), ("data.train", self.corpus), ("data.tokenizer", self.tokenizer)):
            self.refused("train", self.recipe, "--set", f'{key}="{value}\\0.other"', say=[key, "zero byte"])
        recipe = self.put("zero.yaml", self.recipe.read_bytes().replace(b"{threads: 1}", f'{{out: "{self.folder}/x\\u0000"}}'.encode()))
        self.refused("train", recipe, say=["zero.yaml", "zero byte"])
        # In a name inside a file it is one character of a name that is unknown.
        bad = self.folder / "zero-hf"
        shutil.copytree(self.folder / "hf", bad)
        (bad / "model.safetensors").unlink()
        (bad / "model.safetensors.index.json").write_text('{"weight_map": {"wte\\u0000.weight": "model.safetensors\\u0000.txt"}}')
        self.refused("generate", "--checkpoint", bad, "--prompt", "x", codes=(3,), say=["wte\\x00.weight", "plain"])
        shutil.rmtree(bad)

    def test_bombs(self):
        """What is small and unpacks to much, and what has no end: refused at its limit, not held in memory."""
        t, x = self.tokenizer, self.folder / "x"
        bomb = self.put("bomb.txt.gz", gzip.compress(bytes(1 << 28), 1))
        self.assertLess(bomb.stat().st_size, 2 << 20)
        members = self.put("members.txt.gz", gzip.compress(bytes(1 << 20)) * 200)
        block = b"\x28\xb5\x2f\xfd\0\x38" + (1 | 1 << 1 | (1 << 17) << 3).to_bytes(3, "little") + b"a"  # a frame: 128 KiB of one letter (RFC 8878)
        skip = b"\x50\x2a\x4d\x18\4\0\0\0skip"
        frames = self.put("frames.txt.zst", (skip + block) * 1200)
        blocks = self.put("blocks.txt.zst", block[:6] + (bytes([block[6] ^ 1]) + block[7:]) * 1200 + block[6:])
        for path in (frames, blocks):
            self.assertLess(path.stat().st_size, 1 << 15)
        for arguments in ((bomb,), (bomb, "--document", "line"), (members,), (frames,), (blocks, "--document", "line"), ("/dev/zero",), ("/dev/zero", "--document", "paragraph")):
            self.refused("pack", "--tokenizer", t, "--output", x, "--input", *arguments, say=["larger than"])
        sparse = self.folder / "sparse.txt"
        with open(sparse, "wb") as file:
            file.truncate(HUGE)
        self.refused("pack", "--tokenizer", t, "--output", x, "--input", sparse, say=["sparse.txt", "larger than 1073741824 bytes"])
        sparse = sparse.rename(self.folder / "sparse.jsonl")
        self.refused("pack", "--tokenizer", t, "--output", x, "--input", sparse, say=["sparse.jsonl:1", "larger than"])
        long = self.put("long.jsonl.gz", gzip.compress(b'{"text": "a"}\n{"text": "' + b"a" * (1 << 27), 1))
        self.refused("pack", "--tokenizer", t, "--output", x, "--input", long, say=["long.jsonl.gz:2", "larger than"])
        # Members and frames without number that hold nothing.
        for name, content in {"members.txt.gz": gzip.compress(b"") * 200_000, "frames.txt.zst": (skip + block[:6] + b"\1\0\0") * 200_000, "skip.txt.zst": skip * 200_000}.items():
            self.refused("pack", "--tokenizer", t, "--output", x, "--input", self.put(name, content), say=["no documents"])
        line = b'{"ids": [' + b"1," * (10 << 20) + b"1]}\n"
        self.refused("evaluate", "score", "--checkpoint", self.folder / "run", "--input", self.put("line.jsonl", b'{"ids": [1]}\n' + line), say=["line.jsonl:2"])

    def copy_of_run(self):
        bad = self.folder / "bad-run"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(self.folder / "run", bad)
        return bad, ("train", self.recipe, "--set", f"run.out={bad}", "--set", "train.steps=3")

    def test_logs_that_grew_without_end(self):
        for name in ("metrics.jsonl", "samples.jsonl", "events.out.tfevents.*", "run.json", "recipe.yaml"):
            bad, resume = self.copy_of_run()
            (path,) = bad.glob(name)
            os.truncate(path, HUGE)
            if not name.startswith("events"):
                self.refused("report", bad, codes=(3,), say=[name])
            run(*resume)
            self.assertLess(path.stat().st_size, 1 << 20)
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10, MEMORY)
        shutil.rmtree(bad)

    def test_pipes_in_folders_are_not_waited_for(self):
        def becomes_a_pipe(path):
            path.unlink(missing_ok=True)
            os.mkfifo(path)

        for name in ("config.json", "tokenizer.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json"):
            bad = self.folder / "bad-hf"
            shutil.copytree(self.folder / "hf", bad)
            if name.endswith("index.json"):
                (bad / "model.safetensors").unlink()
            becomes_a_pipe(bad / name)
            self.refused("generate", "--checkpoint", bad, "--prompt", "x", codes=(3,), say=[bad / name])
            shutil.rmtree(bad)
        for name in ("run.json", "metrics.jsonl", "samples.jsonl", "events.out.tfevents.*", "recipe.yaml"):
            bad, resume = self.copy_of_run()
            (path,) = bad.glob(name)
            becomes_a_pipe(path)
            if not name.startswith("events"):
                self.refused("report", bad, codes=(3,), say=[path])
            if name == "recipe.yaml":
                run(*resume)  # written whole, it replaces whatever is there
            else:
                self.refused(*resume, codes=(3,), say=[path])
        shutil.rmtree(bad)
        # Who names one as an input means it.
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        writer = subprocess.Popen(["sh", "-c", f'cat "{self.text}" > "{pipe}"'])
        self.assertEqual(run_json("tokenizer", "encode", "--tokenizer", self.tokenizer, "--input", pipe)["ids"],
                         run_json("tokenizer", "encode", "--tokenizer", self.tokenizer, "--input", self.text)["ids"])
        writer.wait()
        pipe.unlink()

    @staticmethod
    def flipped(content):
        return content[:len(content) // 2] + bytes([content[len(content) // 2] ^ 0x40]) + content[len(content) // 2 + 1:]

    def test_ids(self):
        for what, path in self.each("ids.json", self.ids.read_bytes()):
            self.refused("tokenizer", "decode", "--tokenizer", self.tokenizer, "--input", path, say=[path.name])
        for content in ("3", "{}", '{"ids": 3}', '{"ids": [1.5]}', "[-1]", "[99999999999999999999]", "[100000]", '["1"]', "[null]", '{"ids": [1], "ids": [2]}', "[1] [2]"):
            self.refused("tokenizer", "decode", "--tokenizer", self.tokenizer, "--input", self.put("bad-ids.json", content.encode()), say=["bad-ids.json"])
        self.enormous(("tokenizer", "decode", "--tokenizer", self.tokenizer, "--input"))

    def test_chats(self):
        model = self.folder / "chat"
        model.mkdir()
        shutil.copy(self.tokenizer, model / "tokenizer.json")
        messages = self.put("messages.json", b'{"messages": [{"role": "user", "content": "the c\\u00e4t"}], "tools": [{"name": "f"}]}')
        chat = ("tokenizer", "chat", "--tokenizer", model / "tokenizer.json", "--input")
        self.refused(*chat, messages, say=["there is no chat template"])
        template = model / "chat_template.jinja"
        template.write_text("{% for m in messages %}\n<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}\n"
                            "{% if add_generation_prompt %}<|assistant|>{% endif %}{{ tools|tojson if 0 }}")
        (model / "tokenizer_config.json").write_text('{"eos_token": {"content": "<|endoftext|>"}}')
        whole, shown = run_json(*chat, messages), "<|user|>the cät<|endoftext|>"
        self.assertEqual(whole["text"], shown + "<|assistant|>")
        self.assertEqual(run_json(*chat, messages, "--no-generation-prompt")["text"], shown)
        self.assertEqual(run("tokenizer", "chat", "--tokenizer", model, "--input", messages), shown + "<|assistant|>")
        self.assertEqual(whole["ids"], run_json("tokenizer", "encode", "--tokenizer", self.tokenizer, "--input", self.put("chat.txt", whole["text"].encode()))["ids"])
        for what, path in self.each("messages.json", messages.read_bytes()):
            self.refused(*chat, path, say=[path.name])
        self.enormous(chat)
        for content, say in (("{{ raise_exception('not so') }}", "not so"), ("a\n{% for %}", "chat_template.jinja:2:8"), ("{% for i in range(99999) %}" * 4 + "{% endfor %}" * 4, "steps"),
                             ("{{ 'a' * 99999999999 }}", "bytes"), ("{{ " + "not " * 50000 + "1 }}", "levels"), ("x" * ((1 << 20) + 1), "chat_template.jinja"), ("\x1b[2J{{", "has no end")):
            template.write_text(content)
            self.refused(*chat, messages, codes=(2, 3), say=[say])
        template.unlink()
        template.symlink_to("chat_template.jinja")
        self.refused(*chat, messages, codes=(2, 3), say=["chat_template.jinja"])

    def test_lines_to_score(self):
        score = ("evaluate", "score", "--checkpoint", self.folder / "run", "--input")
        good = '{"text": "the cat"}\n'
        for bad in ("", "x", "[]", "3", "{}", '{"text": 3}', '{"ids": "1"}', '{"ids": [1, -2]}', '{"ids": [1.0]}', '{"ids": [100000]}', '{"ids": [99999999999]}', '{"ids": []}',
                    '{"ids": [1], "ids": [2]}', '{"text": "' + "cat " * 5000 + '"}', '{"text": "\\ud800"}', '{"ids": ' + "[" * 100000):
            # The bad line is not the first: nothing may be printed for those before it.
            self.refused(*score, self.put("bad-lines.jsonl", (good * 3 + bad + "\n" + good).encode()), say=["bad-lines.jsonl:4"])
        self.refused(*score, self.put("bad-lines.jsonl", b'{"text": "\xff"}\n'), say=["bad-lines.jsonl:1"])
        self.enormous(score)

    def test_hugging_face_folders(self):
        there, bad = self.folder / "hf", self.folder / "bad-hf"

        def with_file(name, content, codes):
            shutil.copytree(there, bad, dirs_exist_ok=True)
            if content is None:
                (bad / name).unlink()
            else:
                (bad / name).write_bytes(content)
            self.refused("generate", "--checkpoint", bad, "--prompt", "x", codes=codes)

        config = json.loads((there / "config.json").read_text())
        for what, content in hostile((there / "config.json").read_bytes()):
            with_file("config.json", content, (2,))
        for change in ({"n_layer": 10**9}, {"n_layer": -1}, {"n_head": 0}, {"n_embd": 2**62}, {"vocab_size": "300"}, {"vocab_size": 2**63}, {"n_positions": 1.5}, {"model_type": "mamba"},
                       {"activation_function": "relu"}, {"n_inner": -4}, {"layer_norm_epsilon": "x"}, {"eos_token_id": "x"}, {"hidden_size": 1}, {"tie_word_embeddings": 1}, {"model_type": ["gpt2"]}):
            with_file("config.json", json.dumps({**config, **change}).encode(), (2,))
        with_file("config.json", b'{"model_type": "gpt2", "n_layer": 1, "n_layer": 2}', (2,))
        with_file("tokenizer.json", b"{}", (2,))
        shutil.rmtree(bad)
        weights = (there / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", weights[:8])[0]
        header = json.loads(weights[8:8 + size])
        first = next(name for name in header if name != "__metadata__")
        for what, content in hostile(weights):
            with_file("model.safetensors", content, (3,))
        body = weights[8 + size:]
        for change in ({first: {**header[first], "shape": [2**62, 4]}}, {first: {**header[first], "data_offsets": [0, 2**63 - 1]}}, {first: {**header[first], "data_offsets": [8, 4]}},
                       {first: {**header[first], "dtype": "F33"}}, {first: {**header[first], "shape": [-1]}}, {"extra": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}, {"__metadata__": {"a": 1}}):
            with_file("model.safetensors", tensors({**header, **change}, body), (3,))
        with_file("model.safetensors", struct.pack("<Q", 1 << 63) + weights[8:], (3,))
        with_file("model.safetensors", weights + b"PK\x03\x04", (3,))
        with_file("model.safetensors", None, (3,))
        shutil.rmtree(bad)
        for name, codes in (("config.json", (2,)), ("tokenizer.json", (2,)), ("generation_config.json", (2,)), ("model.safetensors", (3,)), ("model.safetensors.index.json", (3,))):
            shutil.copytree(there, bad)
            if name.endswith("index.json"):
                (bad / "model.safetensors").unlink()
            (bad / name).touch()
            os.truncate(bad / name, HUGE)
            self.refused("generate", "--checkpoint", bad, "--prompt", "x", codes=codes, say=[bad / name])
            shutil.rmtree(bad)

    def test_gguf_files(self):
        good = self.folder / "good.gguf"
        run("convert", "--from", self.folder / "run", "--to", good, "--format", "gguf", "--weights-only")
        whole = good.read_bytes()
        keys, count = whole.index(b"gpt2.block_count"), whole.index(b"token_embd.weight")
        def patched(at, content):
            return whole[:at] + content + whole[at + len(content):]
        huge = struct.pack("<Q", 2**62)
        for what, content in (*hostile(whole), ("no tensors", patched(8, bytes(8))), ("tensors", patched(8, huge)), ("keys", patched(16, huge)), ("a key", patched(24, huge)),
                              ("a value", patched(24 + 8 + 20 + 4, huge)), ("layers", patched(keys + 16 + 4, struct.pack("<I", 10**9))), ("a name", patched(count - 8, huge)),
                              ("a size", patched(count + 17 + 4, huge)), ("a type", patched(count + 17 + 20, b"\x63")), ("an offset", patched(count + 17 + 24, huge)), ("more", whole + bytes(4096))):
            path = self.put(f"hostile {what}.gguf", content)
            for command in (("evaluate", "score", "--input", self.lines, "--checkpoint", path), ("convert", "--to", self.folder / "x", "--from", path)):
                self.refused(*command, codes=(2, 3), say=[path.name])
            path.unlink()
        self.refused("generate", "--prompt", "x", "--checkpoint", good, say=["tokenizer", "good.gguf"])
        self.refused("convert", "--from", good, "--to", self.folder / "x.gguf", "--quantize", "q8_0", say=["--format gguf"])
        self.refused("convert", "--from", good, "--to", self.folder / "x.gguf", "--quantize-tensor", "*=q8_0", say=["--format gguf"])
        self.refused("convert", "--from", good, "--to", self.folder / "x.gguf", "--format", "gguf", "--check", self.text, say=["tokenizer"])
        self.refused("convert", "--from", good, "--to", self.folder / "x.gguf", "--weights-only", say=["--format gguf"])
        self.refused("convert", "--from", good, "--to", good, "--format", "gguf", say=["exists already"])
        os.truncate(good, HUGE)
        self.refused("evaluate", "score", "--input", self.lines, "--checkpoint", good, codes=(3,), say=["good.gguf"])

    def test_weights_that_can_execute_code_are_refused_by_name(self):
        there, bad = self.folder / "hf", self.folder / "pickled-hf"
        ran = self.folder / "ran"
        pickle = b"cposix\nsystem\n(S'touch " + os.fsencode(ran) + b"'\ntR."  # what a loader of such files would execute
        for name in ("pytorch_model.bin", "model.pt", "weights.pth", "last.ckpt"):
            shutil.copytree(there, bad)
            (bad / "model.safetensors").unlink()
            (bad / name).write_bytes(pickle)
            self.refused("generate", "--checkpoint", bad, "--prompt", "x", codes=(3,), say=[name, "safetensors"])
            self.refused("convert", "--from", bad, "--to", self.folder / "x", codes=(3,), say=[name])
            shutil.rmtree(bad)
        self.assertFalse(ran.exists())

    def test_links_that_lead_out(self):
        there, bad = self.folder / "hf", self.folder / "linked-hf"
        shutil.copytree(there, bad)
        shutil.move(bad / "model.safetensors", self.folder / "elsewhere.safetensors")
        (bad / "model.safetensors").symlink_to(self.folder / "elsewhere.safetensors")
        self.refused("generate", "--checkpoint", bad, "--prompt", "x", codes=(3,), say=["link"])
        (bad / "model.safetensors").unlink()
        # The files beside the weights are copied by a conversion: no way to read another's secrets.
        shutil.copy(self.folder / "elsewhere.safetensors", bad / "model.safetensors")
        (bad / "chat_template.jinja").symlink_to("/etc/hostname")
        self.refused("convert", "--from", bad, "--to", self.folder / "x", "--format", "megalith", codes=(3,), say=["chat_template.jinja", "link"])
        (bad / "model.safetensors").unlink()
        (bad / "chat_template.jinja").unlink()
        for name in ("../elsewhere.safetensors", "/etc/passwd", ".", "a/b"):
            (bad / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"wte.weight": name}}))
            self.refused("generate", "--checkpoint", bad, "--prompt", "x", codes=(3,), say=["plain"])
        shutil.rmtree(bad)

    def test_checkpoint_files(self):
        source = next((self.folder / "run" / "checkpoints").glob("step-*"))
        for name in ("COMMIT", "manifest.json", "recipe.yaml", "tokenizer.json", next(source.glob("*.safetensors")).name):
            for what, content in hostile((source / name).read_bytes()):
                bad = self.folder / "bad-step"
                shutil.copytree(source, bad)
                (bad / name).write_bytes(content)
                self.refused("generate", "--checkpoint", bad, "--prompt", "x", codes=(3,), say=[name])
                shutil.rmtree(bad)

    def test_run_folders_for_the_report(self):
        source = self.folder / "run"
        for name, codes in (("run.json", (3,)), ("metrics.jsonl", (3,)), ("recipe.yaml", (0, 3))):
            for what, content in hostile((source / name).read_bytes()):
                if name == "metrics.jsonl" and (b"\n" not in content or what in ("half", "one byte short")):
                    continue  # a torn last line is what a crash leaves
                if name == "recipe.yaml":
                    continue
                bad = self.folder / "bad-run"
                shutil.copytree(source, bad)
                (bad / name).write_bytes(content)
                (bad / "report.html").unlink(missing_ok=True)
                self.refused("report", bad, codes=codes, say=[name])
                self.assertFalse((bad / "report.html").exists())
                shutil.rmtree(bad)

    def test_run_folders_at_a_resume(self):
        """What a run reads of its own folder is refused by name, or not needed; the run is what it would have been."""
        def resume(folder, steps):
            return ended(self.command(folder, f"train.steps={steps}", "optimizer.schedule=constant", "train.sample_every=1",
                                      "train.sample_prompts=[the cat]", "train.sample_tokens=4", "checkpoint.every=2"))

        source, bad = self.folder / "to-resume", self.folder / "bad-resume"
        self.assertEqual(resume(source, 2).returncode, 0)
        self.assertEqual(resume(self.folder / "resumed", 4).returncode, 0)
        whole = self.state("resumed")
        (events,) = source.glob("events.*")
        for name, codes in (("run.json", (0,)), ("recipe.yaml", (0,)), ("metrics.jsonl", (3,)), ("samples.jsonl", (0, 3)), (events.name, (3,))):
            valid = (source / name).read_bytes()
            kinds = {what: content for what, content in hostile(valid) if what in ("empty", "binary", "nested objects", "half")}
            kinds["one byte"] = valid[:9] + b"\xff" + valid[10:]
            if name == "run.json":
                kinds |= {"list": b"[]", "wrong types": b'{"memory": 3, "accounts": [], "machine": "x", "status": {}}',
                          "no times": b'{"accounts": {"step": 2, "since": -1, "until": 1e300, "buckets": {"steps": "x"}}}'}
            for what, content in kinds.items():
                with self.subTest(name=name, what=what):
                    shutil.copytree(source, bad)
                    (bad / name).write_bytes(content)
                    result = resume(bad, 4)
                    self.assertIn(result.returncode, codes, result.stderr)
                    if result.returncode:
                        lines = [line for line in result.stderr.splitlines() if line.startswith("megalith: ")]
                        self.assertEqual(len(lines), 1, result.stderr)
                        self.assertIn(name, lines[0])
                        self.assertTrue((bad / "checkpoints" / "step-00000002" / "COMMIT").exists())
                        (bad / name).write_bytes(valid)
                        if what == "binary":  # the file put back, it goes on
                            self.assertEqual(resume(bad, 4).returncode, 0)
                    if result.returncode == 0 or what == "binary":
                        self.assertEqual(self.state(bad.name), whole)
                    shutil.rmtree(bad)


if __name__ == "__main__":
    unittest.main()
