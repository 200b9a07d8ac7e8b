#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What llama.cpp (xllamacpp) thinks of the tokens of a text; in a process of its own, which it ends when a file is bad.

    llama_cpp_probabilities.py FILE.gguf MOST < [ids] > {"logprobs": [[i, log p(ids[i] | ids[:i])], ...]}

The server tells the MOST likely tokens of each position; null where the text's is not among them. Keys and values are kept
in f32.
"""
import json
import sys

import xllamacpp


def main():
    file, most = sys.argv[1], int(sys.argv[2])
    parameters = xllamacpp.CommonParams()
    parameters.model.path = file
    parameters.n_ctx, parameters.n_parallel, parameters.warmup = 2048, 1, False
    parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    parameters.cpuparams.n_threads = 2
    server = xllamacpp.Server(parameters)
    ids, found = json.load(sys.stdin), []
    for i in range(1, len(ids)):
        answer = server.handle_completions({"prompt": ids[:i], "n_predict": 1, "temperature": 0, "logprobs": most, "cache_prompt": True})
        answer = json.loads(answer) if isinstance(answer, (bytes, str)) else answer
        likely = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        found.append([i, next((each["logprob"] for each in likely if each["id"] == ids[i]), None)])
    print(json.dumps({"logprobs": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
