# SPDX-License-Identifier: Apache-2.0
"""What the tests of bad input share: files that no parser was made for, and the contract of a refusal: the right exit code, one
printable line on standard error, nothing on standard output, nothing half-written, within bounded time and memory."""
import json
import random
import resource
import struct
import subprocess

from program import PATIENCE, PROGRAM, RoadTest, run

MEMORY = 1 << 30  # resident bytes; reserved address space costs nothing
HUGE = 8 << 30


def tensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def hostile(valid):
    """(name, content): what any parser may be given, made from a valid file of its kind."""
    draw = random.Random(3)
    yield "empty", b""
    yield "zero", b"\0"
    yield "zeros", bytes(4096)
    yield "binary", draw.randbytes(4096)
    yield "nested", b"[" * 1_000_000
    yield "nested objects", b'{"a":' * 300_000
    yield "half", valid[:len(valid) // 2]
    yield "one byte short", valid[:-1] if valid[-1:] not in b"\n }" or valid[-1:] == b"}" else valid[:-2]
    yield "utf-16", valid[:2000].decode("latin-1").encode("utf-16")
    yield "not utf-8", valid[:1] + b"\xff\xfe" + valid[1:]
    yield "html", b"<!DOCTYPE html><html><body>Sign in</body></html>\n"
    yield "escapes", b"\x1b[2J\x07\x1b]0;owned\x07" + valid


class Refusing(RoadTest):
    """What is to be true of every refusal."""

    @classmethod
    def put(cls, name, content):
        path = cls.folder / name
        path.write_bytes(content)
        return path

    def refused(self, *arguments, codes=(2,), say=(), may_leave=()):
        """Runs the program; the message. Nothing may come into being but what `may_leave` names."""
        before = set(self.folder.iterdir())
        if arguments and arguments[0] == "train":
            arguments += ("--json",)  # without it a run says first what it is going to do
        with self.subTest(arguments=[str(a)[:80] for a in arguments]):
            result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, timeout=PATIENCE)
            message = result.stderr.decode()
            self.assertIn(result.returncode, codes, message[-500:])
            self.assertEqual(result.stdout, b"", "partial output")
            lines = [line for line in message.splitlines() if " warning " not in line and " info " not in line]
            self.assertEqual(len(lines), 1, message[-1000:])
            self.assertTrue(lines[0].startswith("megalith: "), message)
            self.assertLess(len(message), 20_000)
            self.assertTrue(all(c.isprintable() or c == "\n" for c in message), repr(message))
            for word in say:
                self.assertIn(str(word), message)
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10, MEMORY)
            self.assertEqual(set(self.folder.iterdir()) - before - set(may_leave), set(), "something was left")
            return message
        return ""

    def each(self, name, valid):
        """Paths of hostile files of this kind."""
        for what, content in hostile(valid):
            yield what, self.put(f"hostile-{name}", content)

    def enormous(self, command, name="enormous"):
        path = self.folder / name
        with open(path, "wb") as file:
            file.truncate(HUGE)  # sparse
        self.refused(*command, path)
        path.unlink()
        self.refused(*command, "/dev/zero")


class Refusals(Refusing):
    """A folder with a valid file of each kind."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tokenizer, cls.corpus = cls.folder / "tokenizer.json", cls.folder / "corpus"
        cls.train("run", "train.steps=2")
        run("convert", "--from", cls.folder / "run", "--to", cls.folder / "hf", "--format", "hf")
        cls.ids = cls.put("ids.json", b'{"ids": [1, 2, 3]}\n')
        cls.lines = cls.put("lines.jsonl", b'{"text": "the cat"}\n{"ids": [1, 2]}\n')
        cls.text = cls.put("short.txt", "the cat sees the dog.\n".encode())
