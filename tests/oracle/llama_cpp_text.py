#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Greedy text of llama.cpp (xllamacpp) after prompts of ids; in a process of its own, which it ends when a file is bad.

    llama_cpp_text.py FILE.gguf TOKENS < [[ids], ...] > [text, ...]
"""
import json
import sys

import xllamacpp


def main():
    file, tokens = sys.argv[1], int(sys.argv[2])
    parameters = xllamacpp.CommonParams()
    parameters.model.path = file
    parameters.n_ctx, parameters.n_parallel, parameters.warmup = 256, 1, False
    parameters.cpuparams.n_threads = 1
    server = xllamacpp.Server(parameters)
    texts = []
    for ids in json.load(sys.stdin):
        answer = server.handle_completions({"prompt": ids, "n_predict": tokens, "temperature": 0, "cache_prompt": False})
        answer = json.loads(answer) if isinstance(answer, (bytes, str)) else answer
        texts.append(answer["choices"][0]["text"])
    print(json.dumps(texts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
