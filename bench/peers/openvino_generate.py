# SPDX-License-Identifier: Apache-2.0
"""OpenVINO GenAI on a GGUF file: a prompt and its greedy continuation, or many at once by its continuous batching.
Prints JSON lines {"name", "value", "unit"}, one per sample.

--at-once 0   one after the other: prompt and decode in tokens/s, from the pipeline's own clock
--at-once N   N requests in one call, prompts of --shortest to --longest tokens: tokens written by all over the whole time
"""
import argparse
import json
import random
import time

import numpy as np
import openvino
import openvino_genai


def inputs_of(prompts):
    """As the pipeline takes ids: rows padded on the left, with a mask."""
    longest = max(map(len, prompts))
    ids, mask = (np.zeros((len(prompts), longest), dtype=np.int64) for _ in range(2))
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt):], mask[row, longest - len(prompt):] = prompt, 1
    return openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(mask))


def config_of(tokens):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample = tokens, True, False
    return config


def tell(label, name, value):
    print(json.dumps({"name": f"{label}.{name}", "value": value, "unit": "tokens/s"}), flush=True)


def one_at_a_time(pipeline, a):
    config = config_of(a.tokens)
    for sample in range(a.samples + 1):
        # Each another, because the pipeline keeps the prompts that it has read.
        prompt = [1 + (i + 101 * sample) % 1000 for i in range(a.prompt)]
        metrics = pipeline.generate(inputs_of([prompt]), config).perf_metrics
        if sample == 0:
            continue  # warms up
        tell(a.label, "prompt", 1e3 * a.prompt / metrics.get_ttft().mean)
        tell(a.label, "decode", 1e3 / metrics.get_tpot().mean)


def many_at_once(pipeline, a):
    configs = [config_of(a.tokens)] * a.requests
    for sample in range(a.samples + 1):
        draw = random.Random(sample)
        prompts = [[draw.randrange(100, a.vocab) for _ in range(draw.randint(a.shortest, a.longest))] for _ in range(a.requests)]
        tensors = [openvino.Tensor(np.array([p], dtype=np.int64)) for p in prompts]
        begin = time.monotonic()
        results = pipeline.generate(tensors, configs)
        seconds = time.monotonic() - begin
        if sample > 0:
            tell(a.label, "output", sum(len(r.m_generation_ids[0]) for r in results) / seconds)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", required=True)
    p.add_argument("--label", default="openvino")
    for name, default in (("at-once", 0), ("requests", 1), ("prompt", 64), ("shortest", 64), ("longest", 512), ("tokens", 128), ("vocab", 49152),
                          ("samples", 5)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--threads", type=int, required=True)
    a = p.parse_args()
    settings = {"INFERENCE_NUM_THREADS": a.threads, "PERFORMANCE_HINT": "LATENCY"}
    if a.at_once == 0:
        one_at_a_time(openvino_genai.LLMPipeline(a.model, "CPU", **settings), a)
    else:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.max_num_seqs, scheduler.cache_size, scheduler.enable_prefix_caching = a.at_once, 2, False
        many_at_once(openvino_genai.ContinuousBatchingPipeline(a.model, scheduler, "CPU", settings), a)


if __name__ == "__main__":
    main()
