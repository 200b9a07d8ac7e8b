#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other people's clients, as they are, against our server, which gives what `generate` and `evaluate score` give.

openai         models, completions of text and of ids, with probabilities, streamed; chats; JSON of a schema, calls of
               tools, whole and streamed; errors as its own kinds
tritonclient   health, metadata, FasterTransformer's tensors over HTTP, as JSON and as binary data, and over gRPC, streamed too;
               an adapter of peft's unloaded and loaded over each
lm-eval        local-completions: log-likelihoods, whether they are greedy, text until a stop

    clients_oracle.py --megalith build/release/megalith --model ../shared/data/models/stories260K
"""
import argparse
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import openai
import peft
import transformers

from client_prompts import NEW_TOKENS, PROMPTS, Own
from comparison import Checks, run
from openai_client import openai_client, openai_forms
from triton_client import triton_adapters, triton_client, triton_grpc_client

TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}{% if tools %}{{ tools | tojson }}\n{% endif %}{% if add_generation_prompt %}assistant:{% endif %}"


@contextlib.contextmanager
def served(program, model, *options):
    """What a server says when it is ready; asked to end when this ends, which it must do with 0."""
    process = subprocess.Popen([program, "serve", "--checkpoint", model, "--port", "0", "--grpc-port", "0", "--max-batch", "8", "--json", *options],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = process.stdout.readline()
        if not said:
            sys.exit(f"megalith serve: {process.stderr.read()}")
        yield json.loads(said)
    finally:
        process.terminate()
        status = process.wait(timeout=60)
    if status != 0:
        sys.exit(f"megalith serve ended with {status} after SIGTERM")


def harness(checks, address, model, own, ids):
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    api = LocalCompletionsAPI(model=model, base_url=f"http://{address}/v1/completions", tokenizer_backend="remote", num_concurrent=2,
                              max_length=512, max_retries=1, batch_size=2)
    pairs = [(" ".join(p.split()[:2]), " " + " ".join(p.split()[2:])) for p in PROMPTS]
    requests = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(pairs)]
    told = api.loglikelihood(requests)
    encoded = [api._encode_pair(*pair) for pair in pairs]
    scores = own.scores([context + rest for context, rest in encoded])
    expected = [sum(s[len(context) - 1:]) for (context, _), s in zip(encoded, scores)]
    checks.expect("lm-eval: log-likelihoods of score", [t[0] for t in told] == expected or np.allclose([t[0] for t in told], expected, rtol=1e-15),
                  f"{[t[0] for t in told]} {expected}")
    # As text: its tokenizer leaves out the token that a text begins with.
    api = LocalCompletionsAPI(model=model, base_url=f"http://{address}/v1/completions", tokenizer_backend="remote", max_length=512,
                              max_retries=1, tokenized_requests=False)
    texts = api.generate_until([Instance("generate_until", {}, (p, {"until": ["."], "max_gen_toks": NEW_TOKENS, "temperature": 0}), i)
                                for i, p in enumerate(PROMPTS)])
    checks.expect("lm-eval: text until a stop", texts == [own.text(p)["text"].split(".")[0] for p in PROMPTS], texts)


def write_adapter(model, folder):
    """Random numbers on all of the model's products."""
    plain = transformers.AutoModelForCausalLM.from_pretrained(model)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    peft.get_peft_model(plain, config).save_pretrained(folder)
    return folder


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--megalith", required=True)
    p.add_argument("--model", required=True, type=pathlib.Path, help="a small trained model's folder")
    a = p.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = folder / "model"
        shutil.copytree(a.model, model)
        settings = json.loads((model / "tokenizer_config.json").read_text()) if (model / "tokenizer_config.json").exists() else {}
        (model / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": TEMPLATE}))
        own = Own(a.megalith, model, folder)
        ids = []
        for prompt in PROMPTS:
            (folder / "prompt.txt").write_text(prompt)
            ids.append(run(a.megalith, "tokenizer", "encode", "--tokenizer", model / "tokenizer.json", "--input", folder / "prompt.txt")[0]["ids"])
        with served(a.megalith, model) as ready:
            address, name = ready["http"], ready["models"][0]
            openai_client(checks, address, name, own, ids)
            openai_forms(checks, openai.OpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0), name)
            triton_client(checks, address, own, ids)
            triton_grpc_client(checks, ready["grpc"], address, name, own, ids)
            harness(checks, address, name, own, ids)
        with served(a.megalith, model, "--adapter", f"law={write_adapter(model, folder / 'adapter')}") as ready:
            triton_adapters(checks, ready["http"], ready["grpc"], ready["models"][0], "law", ids)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
