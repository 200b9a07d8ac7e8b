# SPDX-License-Identifier: Apache-2.0
"""The openai package, as it is, against our server; called by clients_oracle.py."""
import json

import openai

from client_prompts import NEW_TOKENS, PROMPTS


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
