#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ids of texts by llama.cpp (xllamacpp), special tokens around them; in a process of its own, which it ends when a file is bad.

    llama_cpp_ids.py FILE.gguf < [text, ...] > [[ids], ...]
"""
import json
import sys
import urllib.request

import xllamacpp


def main():
    parameters = xllamacpp.CommonParams()
    parameters.model.path = sys.argv[1]
    parameters.n_ctx, parameters.n_parallel, parameters.warmup = 256, 1, False
    parameters.cpuparams.n_threads = 1
    parameters.port = 0
    server = xllamacpp.Server(parameters)
    address = server.listening_address
    lists = []
    for text in json.load(sys.stdin):
        body = json.dumps({"content": text, "add_special": True, "parse_special": True}).encode()
        request = urllib.request.Request(f"{address}/tokenize", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            lists.append(json.load(answer)["tokens"])
    print(json.dumps(lists))
    return 0


if __name__ == "__main__":
    sys.exit(main())
