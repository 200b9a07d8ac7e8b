# SPDX-License-Identifier: Apache-2.0
"""Decoding and prompt processing of a GPT-2 or a Llama with made-up weights in llama.cpp (llama-cpp-python). Prints JSON
lines {"name", "value", "unit"} in tokens/s, one per sample."""
import argparse
import json
import os
import tempfile
import time

from llama_cpp import Llama
from llama_gguf import add_shape, write_model


def main():
    p = argparse.ArgumentParser()
    add_shape(p)
    for name, default in (("prompt", 64), ("tokens", 512), ("samples", 3)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--threads", type=int, required=True)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        write_model(path, a)
        model = Llama(path, n_ctx=a.context, n_threads=a.threads, n_threads_batch=a.threads, n_batch=a.context,
                      n_ubatch=a.context, logits_all=False, verbose=False)
    prompt = [1 + i % 1000 for i in range(a.prompt)]
    for sample in range(a.samples + 1):
        model.reset()
        begin = time.monotonic()
        model.eval(prompt)
        middle = time.monotonic()
        for _ in range(a.tokens):
            model.eval([1])
        end = time.monotonic()
        if sample == 0:
            continue  # warms up
        for name, value in (("prompt", a.prompt / (middle - begin)), ("decode", a.tokens / (end - middle))):
            print(json.dumps({"name": f"llama.cpp.{a.dtype}.{name}", "value": value, "unit": "tokens/s"}), flush=True)


if __name__ == "__main__":
    main()
