#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other people's clients, as they are, against our server, which gives what `generate` and `evaluate score` give.

openai         models, completions of text and of ids, with probabilities, streamed; chats; JSON of a schema, calls of
               tools, whole and streamed; errors as its own kinds
tritonclient   health, metadata, FasterTransformer's tensors over HTTP, as JSON and as binary data, and over gRPC, streamed too
lm-eval        local-completions: log-likelihoods, whether they are greedy, text until a stop

    clients_oracle.py --megalith build/release/megalith --model ../shared/data/models/stories260K
"""
import argparse
import contextlib
import json
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import openai
import tritonclient.grpc
import tritonclient.http

from comparison import Checks, run

PROMPTS = ["Once upon a time", "Lily and Ben went to the park.", "The little dog was", "One day, a big bear"]
NEW_TOKENS = 24
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}{% if tools %}{{ tools | tojson }}\n{% endif %}{% if add_generation_prompt %}assistant:{% endif %}"


@contextlib.contextmanager
def served(program, model):
    """What a server says when it is ready; asked to end when this ends, which it must do with 0."""
    process = subprocess.Popen([program, "serve", "--checkpoint", model, "--port", "0", "--grpc-port", "0", "--max-batch", "8", "--json"],
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
    town = {"type": "object", "properties": {"town": {"type": "string", "enum": ["Rome", "Bern"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["town", "days"],
            "additionalProperties": False}
    asked = {"model": model, "messages": messages, "max_completion_tokens": 200, "seed": 2}
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


def triton_inputs(library, rows, new_tokens, **seeds):
    """FasterTransformer's tensors of prompts as ids, for one of tritonclient's libraries."""
    width = max(map(len, rows))
    values = [("input_ids", "UINT32", [row + [0] * (width - len(row)) for row in rows]), ("input_lengths", "UINT32", [[len(row)] for row in rows]),
              ("request_output_len", "UINT32", [[new_tokens]] * len(rows))]
    if seeds:
        values += [("runtime_top_k", "UINT32", [[20]] * len(rows)), ("temperature", "FP32", [[0.8]] * len(rows)), ("random_seed", "UINT64", [[seeds["seed"]]] * len(rows))]
    inputs = []
    for name, kind, data in values:
        array = np.array(data, tritonclient.utils.triton_to_np_dtype(kind))
        inputs.append(library.InferInput(name, list(array.shape), kind))
        inputs[-1].set_data_from_numpy(array)
    return inputs


def outputs_of(result):
    return {name: result.as_numpy(name) for name in ("output_ids", "sequence_length", "response_input_lengths", "cum_log_probs", "output_log_probs")}


def are_equal(one, other):
    return all(one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name]) for name in one)


def streamed(client, requests):
    """The responses to requests of one stream, and errors, by the requests' ids; ends when each has had its last."""
    came = queue.Queue()
    client.start_stream(callback=lambda result, error: came.put((result, error)))
    for number, (model, inputs) in enumerate(requests):
        client.async_stream_infer(model, inputs, request_id=str(number), enable_empty_final_response=True)
    responses, errors, left = {}, [], len(requests)
    while left:
        result, error = came.get(timeout=120)
        if error is not None:
            errors.append(str(error))
            left -= 1
            continue
        response = result.get_response()
        responses.setdefault(response.id, []).append(result)
        left -= response.parameters["triton_final_response"].bool_param
    client.stop_stream()
    return responses, errors


def triton_grpc_client(checks, address, http_address, model, own, ids):
    client = tritonclient.grpc.InferenceServerClient(address)
    over_http = tritonclient.http.InferenceServerClient(http_address)
    checks.expect("tritonclient gRPC: health", client.is_server_live() and client.is_server_ready() and client.is_model_ready(model))
    checks.expect("tritonclient gRPC: metadata of HTTP", client.get_model_metadata(model, as_json=True)["inputs"] == [
        {**tensor, "shape": [str(size) for size in tensor["shape"]]} for tensor in over_http.get_model_metadata(model)["inputs"]])
    config = client.get_model_config(model).config
    checks.expect("tritonclient gRPC: configuration", config.model_transaction_policy.decoupled and config.max_batch_size == 64 and
                  {i.name for i in config.input if not i.optional} == {"input_ids", "request_output_len"})
    checks.expect("tritonclient gRPC: repository", [(m.name, m.state) for m in client.get_model_repository_index().models] == [(model, "READY")])
    client.load_model(model)
    cases = [(rows, seeds) for rows in ([ids[0]], ids) for seeds in ({}, {"seed": 7})]
    for rows, seeds in cases:
        ours = outputs_of(client.infer(model, triton_inputs(tritonclient.grpc, rows, NEW_TOKENS, **seeds)))
        theirs = outputs_of(over_http.infer(model, triton_inputs(tritonclient.http, rows, NEW_TOKENS, **seeds)))
        checks.expect(f"tritonclient gRPC: {len(rows)} rows, {'sampled' if seeds else 'greedy'}: HTTP's, to the bit", are_equal(ours, theirs))
        if not seeds:
            for row, prompt in enumerate(PROMPTS[:len(rows)]):
                text = own.text(prompt)
                begin, new = len(rows[row]), len(text["ids"])
                checks.expect(f"tritonclient gRPC: row {row} of {len(rows)}: ids and log-probabilities of generate",
                              ours["output_ids"][row, 0, begin:begin + new].tolist() == text["ids"] and
                              np.array_equal(ours["output_log_probs"][row, 0, :new], np.array(text["logprobs"], np.float32)))
    responses, errors = streamed(client, [(model, triton_inputs(tritonclient.grpc, rows, NEW_TOKENS, **seeds)) for rows, seeds in cases])
    checks.expect("tritonclient gRPC: a stream of requests without errors", errors == [], errors or "")
    for number, (rows, seeds) in enumerate(cases):
        *tokens, last = responses[str(number)]
        whole = outputs_of(client.infer(model, triton_inputs(tritonclient.grpc, rows, NEW_TOKENS, **seeds)))
        checks.expect(f"tritonclient gRPC: request {number} of a stream ends with the whole", are_equal(outputs_of(last), whole))
        written = [[] for _ in rows]
        for token in tokens:
            written[token.get_response().parameters["sequence_index"].int64_param].append((token.as_numpy("output_ids").item(), token.as_numpy("output_log_probs").item()))
        checks.expect(f"tritonclient gRPC: request {number} of a stream has a response for each token", all(
            [i for i, _ in written[row]] == whole["output_ids"][row, 0, len(ids):whole["sequence_length"][row, 0]].tolist() and
            [x for _, x in written[row]] == whole["output_log_probs"][row, 0, :len(written[row])].tolist() for row, ids in enumerate(rows)))
    _, errors = streamed(client, [("other", triton_inputs(tritonclient.grpc, [ids[0]], 2)), (model, triton_inputs(tritonclient.grpc, [ids[0]], 2))])
    checks.expect("tritonclient gRPC: an error leaves the stream open", len(errors) == 1 and "no model 'other'" in errors[0], errors)
    good = triton_inputs(tritonclient.grpc, [ids[0]], 400)
    for what, code, arguments in (("an unknown model", "NOT_FOUND", ("other", good)), ("tensors that are missing", "INVALID_ARGUMENT", (model, good[:1])),
                                  ("a text beyond the context", "INVALID_ARGUMENT", (model, triton_inputs(tritonclient.grpc, [ids[0]], 4000))),
                                  ("a deadline of a millisecond", "DEADLINE_EXCEEDED", (model, good, 0.001)), ("compression", "UNIMPLEMENTED", (model, good, None, "gzip"))):
        try:
            client.infer(*arguments[:2], client_timeout=arguments[2] if len(arguments) > 2 else None, compression_algorithm=arguments[3] if len(arguments) > 3 else None)
            checks.expect(f"tritonclient gRPC: refused: {what}", False, "it was not")
        except tritonclient.utils.InferenceServerException as fault:
            checks.expect(f"tritonclient gRPC: refused: {what}", code in str(fault.status()), fault)
    came = queue.Queue()
    client.async_infer(model, good, lambda result, error: came.put(error)).cancel()
    fault = came.get(timeout=120)
    checks.expect("tritonclient gRPC: a call is cancelled", fault is not None and "CANCELLED" in str(fault.status()), fault)


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
        with served(a.megalith, model) as ready:
            address, name = ready["http"], ready["models"][0]
            openai_client(checks, address, name, own, ids)
            openai_forms(checks, openai.OpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0), name)
            triton_client(checks, address, own, ids)
            triton_grpc_client(checks, ready["grpc"], address, name, own, ids)
            harness(checks, address, name, own, ids)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
