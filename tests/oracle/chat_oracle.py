#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `megalith tokenizer chat` with `apply_chat_template` of transformers.

Templates:  every template of chat_templates/, those that published GGUF files hold (--gguf-dir), and published *.jinja files of a
            folder (--templates), over every conversation of chat_cases.py, with and without the generation prompt: the text and the
            ids must be equal, and what one refuses the other must refuse
Pieces:     the expressions and statements of chat_cases.py, likewise
Generated:  random templates (chat_generator.py) of the seeds from --seed on, likewise
Refused:    what megalith does not support is refused with a message that says so

    chat_oracle.py --megalith build/release/megalith
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import chat_cases
import chat_generator
from comparison import Checks

TEMPLATES = sorted((pathlib.Path(__file__).parent / "chat_templates").glob("*.jinja"))
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def make_tokenizer(folder):
    """Bytes and a few special tokens: enough to see where they are found."""
    folder.mkdir()
    alphabet = {symbol: number for number, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **SPECIAL}))


def published(folder):
    """(name, template) of each GGUF file with a chat template: a key, its type (8: a text), its length, its bytes."""
    key = b"tokenizer.chat_template"
    for path in sorted(folder.glob("*.gguf")):
        content = path.read_bytes()
        found = content.find(key + struct.pack("<I", 8))
        if found >= 0:
            begin = found + len(key) + 4
            length, = struct.unpack_from("<Q", content, begin)
            yield path.stem, content[begin + 8:begin + 8 + length].decode()


class Pair:
    """The program and its peer on one folder."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        make_tokenizer(folder)
        self.peer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)

    def theirs(self, template, conversation, prompt):
        """(text, ids), or the message of what was raised."""
        try:
            common = {"chat_template": template, "tools": conversation.get("tools"), "documents": conversation.get("documents"), "add_generation_prompt": prompt,
                      **conversation.get("chat_template_kwargs", {})}
            text = self.peer.apply_chat_template(conversation["messages"], tokenize=False, **common)
            return text, self.peer.encode(text, add_special_tokens=False)
        except Exception as error:  # whatever a template may raise
            return f"{type(error).__name__}: {error}"

    def ours(self, template, conversation, prompt):
        messages = self.folder / "messages.json"
        (self.folder / "chat_template.jinja").write_bytes(template.encode())
        messages.write_text(json.dumps(conversation, ensure_ascii=False))
        flags = [] if prompt else ["--no-generation-prompt"]
        done = subprocess.run([self.program, "tokenizer", "chat", "--tokenizer", self.folder, "--input", messages, "--json", *flags], capture_output=True)
        if done.returncode == 2:
            return done.stderr.decode().strip()
        if done.returncode != 0:
            return f"exit {done.returncode}: {done.stderr.decode()}", None
        answer = json.loads(done.stdout)
        return answer["text"], answer["ids"]


def differs(ours, theirs):
    """What is different; nothing if both gave the same, or both refused."""
    if isinstance(ours, str) and isinstance(theirs, str):
        # A template's own words must arrive.
        if theirs.startswith("TemplateError: ") and theirs.removeprefix("TemplateError: ") not in ours:
            return f"{ours!r} without {theirs!r}"
        return None
    return None if ours == theirs else f"{str(ours)[:400]} against {str(theirs)[:400]}"


NOT_SUPPORTED = ("support", "cannot be printed", "beyond 64 bits", "too large")


def is_excused(ours, theirs):
    """Of a generated template: ours says what it does not support, or Jinja prints an address or refuses what would never run."""
    if isinstance(ours, str):
        return any(words in ours for words in NOT_SUPPORTED)
    return theirs.startswith(("TemplateAssertionError: No filter", "TemplateAssertionError: No test")) if isinstance(theirs, str) else " at 0x" in theirs[0]


def compare(pair, checks, name, cases, excused=lambda ours, theirs: False):
    """cases: (what, template, conversation, prompt); one line for all, and one for each that differs."""
    rendered = refused = wrong = 0
    for what, *rest in cases:
        our, their = pair.ours(*rest), pair.theirs(*rest)
        difference = differs(our, their)
        if difference and excused(our, their):
            refused += 1
        elif difference:
            wrong += 1
            checks.expect(f"{name}: {what}", False, difference)
        elif isinstance(our, str):
            refused += 1
        else:
            rendered += 1
    checks.expect(name, wrong == 0, f"{rendered} equal, {refused} refused, {wrong} different")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megalith", required=True, help="the program")
    parser.add_argument("--gguf-dir", type=pathlib.Path, default=pathlib.Path("absent"), help="a folder of published GGUF files")
    parser.add_argument("--templates", type=pathlib.Path, default=pathlib.Path("absent"), help="a folder of published *.jinja files")
    parser.add_argument("--seed", type=int, default=0, help="of the first generated template")
    parser.add_argument("--generated", type=int, default=800, help="how many of each kind")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(arguments.megalith, pathlib.Path(folder) / "model")
        for template, source in [*((path.stem, path.read_bytes().decode()) for path in TEMPLATES), *published(arguments.gguf_dir),
                                 *((f"--templates {path.name}", path.read_bytes().decode()) for path in sorted(arguments.templates.glob("*.jinja")))]:
            compare(pair, checks, template, [(f"{name}{'' if prompt else ', no prompt'}", source, conversation, prompt)
                                              for name, conversation in chat_cases.CONVERSATIONS.items() for prompt in (True, False)])
        given = {"messages": [{"role": "user", "content": "Hi"}], "chat_template_kwargs": chat_cases.VARIABLES}
        expressions = [piece.strip() for line in chat_cases.EXPRESSIONS.strip().splitlines() for piece in line.split(" | ")]
        compare(pair, checks, "expressions", [(piece, "{{ " + piece + " }}", given, True) for piece in expressions])
        compare(pair, checks, "statements", [(piece, piece, given, True) for piece in chat_cases.STATEMENTS])
        seeds, sources = range(arguments.seed, arguments.seed + arguments.generated), [path.read_bytes().decode() for path in TEMPLATES]
        drawn = {**given, "chat_template_kwargs": chat_generator.VARIABLES}
        compare(pair, checks, "generated", [(f"seed {seed}", chat_generator.written(seed), drawn, True) for seed in seeds], is_excused)
        conversations = list(chat_cases.CONVERSATIONS.values())
        compare(pair, checks, "words moved", [(f"seed {seed}", chat_generator.moved(seed, sources), conversations[seed % len(conversations)], True) for seed in seeds], is_excused)
        for piece in chat_cases.REFUSED:
            answer = pair.ours(piece, given, True)
            good = isinstance(answer, str) and any(words in answer for words in NOT_SUPPORTED)
            if not good:
                checks.expect(f"refused by name: {piece}", False, str(answer)[:300])
        checks.expect("refused by name", True, f"{len(chat_cases.REFUSED)} pieces")
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
