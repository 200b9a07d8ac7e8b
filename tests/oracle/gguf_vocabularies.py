# SPDX-License-Identifier: Apache-2.0
"""Published tokenizers of every kind in the folder of a model, written into a GGUF file: what gguf and llama.cpp make of them."""
import json
import pathlib
import subprocess
import sys

import gguf
import transformers

from comparison import run
from decoder_folders import random_model
from gguf_files import SIZES

ROLES = {f"{role}_token": f"tokenizer.ggml.{key}_token_id" for role, key in (
    ("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("sep", "seperator"), ("pad", "padding"), ("cls", "cls"), ("mask", "mask"))}
TEMPLATE = "{{ messages[0].content }}"


def vocabularies(program, folder):
    """(name, tokenizer.json, tokenizer_config.json) of the published ones that are there."""
    data = pathlib.Path(__file__).parents[2] / "../shared/data"
    places = {"stories260K": "models/stories260K", "t5-small": "tokenizers/t5-small", "roberta-base": "tokenizers/roberta-base"}
    configs = {"stories260K": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
               "t5-small": {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
               "roberta-base": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>",
                                "pad_token": "<pad>", "cls_token": "<s>", "mask_token": "<mask>"}}
    for name, place in places.items():
        if (data / place / "tokenizer.json").exists():
            yield name, data / place / "tokenizer.json", configs[name]
    for file in sorted((data / "tokenizers").glob("ggml-vocab-*.gguf")):
        path = folder / f"{file.stem}.json"
        run(program, "tokenizer", "convert", "--tokenizer", file, "--output", path)
        fields, roles = gguf.GGUFReader(file).fields, {}
        tokens = fields["tokenizer.ggml.tokens"].contents()
        for role, key in ROLES.items():
            if key in fields:
                roles[role] = tokens[fields[key].contents()]
        yield file.stem.removeprefix("ggml-vocab-"), path, roles


def texts_to_cut():
    """llama.cpp's cases, and what has been trouble: white space of every kind, marks, digits, scripts without spaces."""
    cases = pathlib.Path(__file__).parents[2] / "../shared/data/tokenizers/ggml-vocab-gpt-2.gguf.inp"
    texts = cases.read_text().split("\n__ggml_vocab_test__\n") if cases.exists() else []
    return texts + ["", " ", "a  b\t\n\r\n  c ", "it's 12345 They'LL", "\u4e2d\u6587\u0e20\u0e32\u0e29\u0e32 \U0001f642", "x</s>y",
                    "\u00e9te\u0301 na\u00efve \ufb01"]


def compare_vocabulary(checks, name, program, tokenizer, roles, folder):
    """Written, and read by gguf and by llama.cpp."""
    folder.mkdir()
    whole = json.loads(tokenizer.read_text())
    spelled = {token["content"]: token["id"] for token in whole["added_tokens"]}
    vocabulary = whole["model"]["vocab"]
    pieces = {entry[0]: number for number, entry in enumerate(vocabulary)} if isinstance(vocabulary, list) else vocabulary
    size = max([*pieces.values(), *spelled.values()]) + 3
    config = transformers.AutoConfig.for_model("llama", vocab_size=size, num_hidden_layers=1, bos_token_id=1, eos_token_id=2, **SIZES)
    random_model(folder / "theirs", config)
    (folder / "theirs/tokenizer.json").write_text(tokenizer.read_text())
    (folder / "theirs/tokenizer_config.json").write_text(json.dumps(roles | {"chat_template": TEMPLATE}))
    file = folder / "model.gguf"
    run(program, "convert", "--from", folder / "theirs", "--to", file, "--format", "gguf")
    fields = gguf.GGUFReader(file).fields
    kind = fields["tokenizer.ggml.model"].contents()
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = [gguf.TokenType(number) for number in fields["tokenizer.ggml.token_type"].contents()]
    wrong = []
    for text, number in (pieces | spelled).items():
        if kind == "bert" and types[number] != gguf.TokenType.CONTROL:
            text = text[2:] if text.startswith("##") else "\u2581" + text
        if tokens[number] != text:
            wrong.append(f"{number} is {tokens[number]!r}, not {text!r}")
    wrong += [role for role, token in roles.items() if tokens[fields[ROLES[role]].contents()] != token]
    if kind == "gpt2":
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in whole["model"]["merges"]]
        wrong += [] if fields["tokenizer.ggml.merges"].contents() == merges else ["merges"]
    if fields["tokenizer.chat_template"].contents() != TEMPLATE or len(tokens) != size or len(types) != size:
        wrong.append("chat template, or number of tokens")
    checks.expect(f"{name}: gguf reads its tokenizer", not wrong, f"{kind}, {len(tokens)} tokens" + "; ".join(wrong[:3]))
    texts = texts_to_cut()
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    script = pathlib.Path(__file__).parent / "llama_cpp_ids.py"
    result = subprocess.run([sys.executable, script, file], input=json.dumps(texts), capture_output=True, text=True, check=False, timeout=300)
    if result.returncode != 0:
        checks.expect(f"{name}: llama.cpp opens it", False, f"exit {result.returncode}: {result.stderr[-200:]}")
        return
    theirs, ours, differ = json.loads(result.stdout.splitlines()[-1]), [], []
    for text in texts:
        (folder / "one.txt").write_text(text, newline="")
        ours.append(run(program, "tokenizer", "encode", "--tokenizer", tokenizer, "--input", folder / "one.txt")[0]["ids"])
    differ = [f"{text!r}: {a} not {b}" for text, a, b in zip(texts, theirs, ours) if a != b]
    checks.expect(f"{name}: llama.cpp makes the ids of the folder", not differ, f"{len(texts)} texts" + "; ".join(differ[:3])[:400])
