#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other people's clients, as they are, against our server, which gives what `generate` and `evaluate score` give.

openai         models, completions of text and of ids, with probabilities, streamed; chats; JSON of a schema, calls of
               tools, whole and streamed; errors as its own kinds
tritonclient   health, metadata, FasterTransformer's tensors over HTTP, as JSON and as binary data
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
import tritonclient.http

from comparison import Checks, run

PROMPTS = ["Once upon a time", "Lily and Ben went to the park.", "The little dog was", "One day, a big bear"]
NEW_TOKENS = 24
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}{% if tools %}{{ tools | tojson }}\n{% endif %}{% if add_generation_prompt %}assistant:{% endif %}"


@contextlib.contextmanager
def served(program, model):
    """host:port of a server; asked to end when this ends, which it must do with 0."""
    process = subprocess.Popen([program, "serve", "--checkpoint", model, "--port", "0", "--max-batch", "8", "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = process.stdout.readline()
        if not said:
            sys.exit(f"megalith serve: {process.stderr.read()}")
        yield json.loads(said)["http"], json.loads(said)["models"][0]
    finally:
        process.terminate()
        status = process.wait(timeout=60)
    if status != 0:
        sys.exit(f"megalith serve ended with {status} after SIGTERM")


class Own:
    """What the commands say of the same prompts."""

    def __init__(self, program, model, folder):
        self.program, self.model, self.folder = program, model, folder

    def text(self, prompt):
        return run(self.program, "generate", "--checkpoint", self.model, "--prompt", prompt, "--max-new-tokens", NEW_TOKENS, "--temperature",
                   0)[0]

    def scores(self, ids):
        lines = self.folder / "lines.jsonl"
        lines.write_text("".join(json.dumps({"ids": i}) + "\n" for i in ids))
        return [line["logprobs"] for line in run(self.program, "evaluate", "score", "--checkpoint", self.model, "--input", lines)]


def openai_client(checks, address, model, own, ids):
    client = openai.OpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0)
    checks.expect("openai: models", [m.id for m in client.models.list()] == [model] and client.models.retrieve(model).id == model)
    texts = [own.text(prompt) for prompt in PROMPTS]
    answer = client.completions.create(model=model, prompt=PROMPTS, max_tokens=NEW_TOKENS, temperature=0, logprobs=1)
    checks.expect("openai: texts of generate", [c.text for c in answer.choices] == [t["text"] for t in texts])
    checks.expect("openai: log-probabilities of generate", all(
        c.logprobs.token_logprobs[:len(t["logprobs"])] == t["logprobs"] for c, t in zip(answer.choices, texts)))
    answer = client.completions.create(model=model, prompt=ids, max_tokens=0, echo=True, logprobs=0)
    checks.expect("openai: prompts' log-probabilities of score",
                  [c.logprobs.token_logprobs for c in answer.choices] == [[None, *scores] for scores in own.scores(ids)])
    pieces = client.completions.create(model=model, prompt=PROMPTS[0], max_tokens=NEW_TOKENS, temperature=0, stream=True,
                                       stream_options={"include_usage": True})
    chunks = list(pieces)
    checks.expect("openai: a stream is the text", "".join(c.choices[0].text for c in chunks if c.choices) == texts[0]["text"])
    checks.expect("openai: usage behind a stream", chunks[-1].usage.completion_tokens == len(texts[0]["ids"]), chunks[-1].usage)
    seeded = [client.completions.create(model=model, prompt=PROMPTS[1], max_tokens=NEW_TOKENS, seed=7, n=3).choices for _ in range(2)]
    checks.expect("openai: a seed repeats texts", [c.text for c in seeded[0]] == [c.text for c in seeded[1]] and
                  len({c.text for c in seeded[0]}) > 1)
    messages = [{"role": "system", "content": "Tell a story."}, {"role": "user", "content": "Of a cat."}]
    written = client.chat.completions.create(model=model, messages=messages, max_completion_tokens=NEW_TOKENS, temperature=0, logprobs=True,
                                             top_logprobs=3)
    streamed = client.chat.completions.create(model=model, messages=messages, max_completion_tokens=NEW_TOKENS, temperature=0, stream=True)
    text = "".join(c.choices[0].delta.content or "" for c in streamed)
    checks.expect("openai: a chat, whole and streamed", text == written.choices[0].message.content and len(text) > 0)
    checks.expect("openai: alternatives of a chat", all(len(t.top_logprobs) == 3 for t in written.choices[0].logprobs.content))
    for what, kind, arguments in (("an unknown model", openai.NotFoundError, {"model": "other", "prompt": "a"}),
                                  ("a temperature of 9", openai.BadRequestError, {"model": model, "prompt": "a", "temperature": 9}),
                                  ("a prompt beyond the context", openai.BadRequestError, {"model": model, "prompt": [5] * 600})):
        try:
            client.completions.create(**arguments)
            checks.expect(f"openai: {what} is refused", False, "it was not")
        except openai.APIStatusError as fault:
            checks.expect(f"openai: {what} is refused", isinstance(fault, kind) and fault.body is not None, fault)


def openai_forms(checks, client, model):
    messages = [{"role": "user", "content": "Of a cat."}]
    town = {"type": "object", "properties": {"town": {"type": "string", "enum": ["Rome", "Bern"]}, "days": {"type": "integer"}}, "required": ["town", "days"],
            "additionalProperties": False}
    asked = {"model": model, "messages": messages, "max_completion_tokens": 120, "seed": 3}
    form = {"type": "json_schema", "json_schema": {"name": "town", "strict": True, "schema": town}}
    written = client.chat.completions.create(**asked, response_format=form).choices[0]
    checks.expect("openai: JSON of a schema", written.finish_reason == "stop" and json.loads(written.message.content)["town"] in ("Rome", "Bern"),
                  written.message.content)
    tools = [{"type": "function", "function": {"name": "weather", "parameters": town}}, {"type": "function", "function": {"name": "now"}}]
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        said = {**asked, "tools": tools, "tool_choice": choice}
        whole = client.chat.completions.create(**said).choices[0]
        calls = [(call.function.name, call.function.arguments) for call in whole.message.tool_calls]
        checks.expect(f"openai: calls of tools, {choice}", whole.finish_reason == "tool_calls" and len(calls) > 0 and all(
            json.loads(arguments) == {} if name == "now" else json.loads(arguments)["town"] in ("Rome", "Bern") for name, arguments in calls), calls)
        with client.chat.completions.stream(**said) as stream:  # the client's own way to put deltas together
            streamed = stream.get_final_completion().choices[0]
        checks.expect(f"openai: the same streamed, {choice}", streamed.finish_reason == "tool_calls" and
                      [(call.function.name, call.function.arguments) for call in streamed.message.tool_calls] == calls)
    completion = client.completions.create(model=model, prompt="Once", max_tokens=20, extra_body={"guided_choice": ["upon", "more"]})
    checks.expect("openai: one of some choices", completion.choices[0].text in ("upon", "more"), completion.choices[0].text)


def triton_client(checks, address, own, ids):
    client = tritonclient.http.InferenceServerClient(address)
    checks.expect("tritonclient: health", client.is_server_live() and client.is_server_ready() and client.is_model_ready("fastertransformer"))
    checks.expect("tritonclient: metadata", {i["name"] for i in client.get_model_metadata("fastertransformer")["inputs"]} >= {
        "input_ids", "input_lengths", "request_output_len"})
    prompt = ids[0]
    expected = run(own.program, "generate", "--checkpoint", own.model, "--prompt", PROMPTS[0], "--max-new-tokens", NEW_TOKENS, "--temperature",
                   0)[0]
    for binary in (False, True):
        def tensor(name, kind, values):
            given = tritonclient.http.InferInput(name, list(values.shape), kind)
            given.set_data_from_numpy(values, binary_data=binary)
            return given
        inputs = [tensor("input_ids", "UINT32", np.array([prompt], np.uint32)),
                  tensor("input_lengths", "UINT32", np.array([[len(prompt)]], np.uint32)),
                  tensor("request_output_len", "UINT32", np.array([[NEW_TOKENS]], np.uint32)),
                  tensor("runtime_top_k", "UINT32", np.array([[1]], np.uint32)), tensor("is_return_log_probs", "BOOL", np.array([[True]]))]
        outputs = [tritonclient.http.InferRequestedOutput(name, binary_data=binary) for name in ("output_ids", "sequence_length", "output_log_probs")]
        result = client.infer("fastertransformer", inputs, outputs=outputs)
        how = "binary" if binary else "JSON"
        length = int(result.as_numpy("sequence_length")[0, 0])
        written = result.as_numpy("output_ids")[0, 0, :length].tolist()
        new = len(expected["ids"])
        checks.expect(f"tritonclient: ids of generate, {how}", written[:len(prompt) + new] == prompt + expected["ids"])
        told = result.as_numpy("output_log_probs")[0, 0, :new]
        checks.expect(f"tritonclient: log-probabilities of generate, {how}", np.array_equal(told, np.array(expected["logprobs"], np.float32)))
    try:
        client.infer("fastertransformer", inputs[:1])
        checks.expect("tritonclient: tensors that are missing are refused", False)
    except tritonclient.utils.InferenceServerException as fault:
        checks.expect("tritonclient: tensors that are missing are refused", "input_lengths" in str(fault) or "request_output_len" in str(fault), fault)


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
        with served(a.megalith, model) as (address, name):
            openai_client(checks, address, name, own, ids)
            openai_forms(checks, openai.OpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0), name)
            triton_client(checks, address, own, ids)
            harness(checks, address, name, own, ids)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
