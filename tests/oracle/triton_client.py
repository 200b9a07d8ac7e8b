# SPDX-License-Identifier: Apache-2.0
"""The tritonclient package, as it is, against our server over HTTP and gRPC; called by clients_oracle.py."""
import queue

import numpy as np
import tritonclient.grpc
import tritonclient.http

from client_prompts import NEW_TOKENS, PROMPTS
from comparison import run


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


def triton_adapters(checks, http_address, grpc_address, model, adapter, ids):
    """The adapter is loaded at the start; unloaded, asked for and loaded again by either client, seen by both."""
    over_http, over_grpc = tritonclient.http.InferenceServerClient(http_address), tritonclient.grpc.InferenceServerClient(grpc_address)
    rows = [ids[0]]

    def written(name):
        return outputs_of(over_grpc.infer(name, triton_inputs(tritonclient.grpc, rows, NEW_TOKENS)))
    plain, tuned = written(model), written(adapter)
    checks.expect("tritonclient: an adapter's text is its own", not np.array_equal(plain["output_log_probs"], tuned["output_log_probs"]))
    for what, one, other in (("HTTP", over_http, over_grpc), ("gRPC", over_grpc, over_http)):
        one.unload_model(adapter)
        checks.expect(f"tritonclient: unloaded over {what}", not other.is_model_ready(adapter) and other.is_model_ready(model))
        try:
            written(adapter)
            checks.expect(f"tritonclient: an adapter unloaded over {what} is asked for in vain", False, "it was not")
        except tritonclient.utils.InferenceServerException as fault:
            checks.expect(f"tritonclient: an adapter unloaded over {what} is asked for in vain", "NOT_FOUND" in str(fault.status()), fault)
        one.load_model(adapter)
        states = {m["name"]: m["state"] for m in over_http.get_model_repository_index()}
        checks.expect(f"tritonclient: loaded over {what}", other.is_model_ready(adapter) and states == {model: "READY", adapter: "READY"}, states)
        checks.expect(f"tritonclient: loaded over {what} it writes what it wrote", are_equal(written(adapter), tuned))
    for what, client in (("HTTP", over_http), ("gRPC", over_grpc)):
        try:
            client.load_model("other")
            checks.expect(f"tritonclient: an unknown adapter is refused over {what}", False, "it was not")
        except tritonclient.utils.InferenceServerException as fault:
            checks.expect(f"tritonclient: an unknown adapter is refused over {what}", "other" in str(fault), fault)
