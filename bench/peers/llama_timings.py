# SPDX-License-Identifier: Apache-2.0
"""llama.cpp of today (xllamacpp) on a GGUF file: a prompt and its greedy continuation, by its server's own clock, so without HTTP.
Prints JSON lines {"name", "value", "unit"} in tokens/s, one per sample."""
import argparse
import json

import xllamacpp


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--model", required=True)
    p.add_argument("--label", default="llama.cpp")
    for name, default in (("context", 1024), ("prompt", 64), ("tokens", 128), ("samples", 5)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--threads", type=int, required=True)
    a = p.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = a.model
    params.n_parallel, params.n_ctx = 1, a.context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = a.threads
    params.n_batch = params.n_ubatch = a.context
    server = xllamacpp.Server(params)
    request = {"prompt": [1 + i % 1000 for i in range(a.prompt)], "n_predict": a.tokens, "temperature": 0, "ignore_eos": True,
               "cache_prompt": False}
    for sample in range(a.samples + 1):
        told = server.handle_completions(request)
        timings = told["timings"]
        if sample == 0:
            continue  # warms up
        for name, key in (("prompt", "prompt_per_second"), ("decode", "predicted_per_second")):
            print(json.dumps({"name": f"{a.label}.{name}", "value": timings[key], "unit": "tokens/s"}), flush=True)


if __name__ == "__main__":
    main()
