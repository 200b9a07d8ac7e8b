# SPDX-License-Identifier: Apache-2.0
"""Requests to a server with OpenAI's completions, so many at once, each of tokens of its own and streamed. Standard library
alone: the same client for every server. Prints JSON lines {"name", "value", "unit"}:

output           tokens written by all, over the time from the first request to the last token
first_token      from a request to its first piece of text, medians and the 99th percentile
between_tokens   from one piece to the next
"""
import argparse
import http.client
import json
import random
import statistics
import threading
import time
import urllib.parse


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Client(threading.Thread):
    """Takes requests from a list that all clients share, and notes when each piece came."""

    def __init__(self, a, left, lock):
        super().__init__()
        self.a, self.left, self.lock = a, left, lock
        self.first, self.between, self.texts, self.tokens, self.fault = [], [], {}, 0, None

    def run(self):
        try:
            url = urllib.parse.urlsplit(self.a.url)
            connection = http.client.HTTPConnection(url.hostname, url.port, timeout=600)
            while True:
                with self.lock:
                    if not self.left:
                        return
                    request = self.left.pop()
                self.ask(connection, *request)
        except Exception as fault:  # told by main: a thread's own would only be printed
            self.fault = fault

    def send(self, connection, body):
        """A server may have closed a connection that was kept: then once more on a new one."""
        for is_kept in (connection.sock is not None, False):
            try:
                connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
                return connection.getresponse()
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                connection.close()
                if not is_kept:
                    raise

    def ask(self, connection, number, prompt):
        models = self.a.model.split(",")
        body = {"model": models[number % len(models)], "prompt": prompt, "max_tokens": self.a.tokens, "temperature": 0, "stream": True,
                "ignore_eos": True, "stream_options": {"include_usage": True}, "cache_prompt": self.a.shared > 0}
        begin = last = time.monotonic()
        response = self.send(connection, json.dumps(body))
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {response.read()[:300]}")
        is_first = True
        for line in response:
            if not line.startswith(b"data: "):
                continue
            now = time.monotonic()
            if line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[6:])
            if event.get("usage"):
                self.tokens += event["usage"]["completion_tokens"]
            if not event["choices"]:
                continue
            self.texts[number] = self.texts.get(number, "") + event["choices"][0]["text"]
            (self.first if is_first else self.between).append(now - (begin if is_first else last))
            is_first, last = False, now


def prompts_of(a):
    draw = random.Random(a.seed)
    shared = [draw.randrange(a.first_id, a.vocab) for _ in range(a.shared)]
    return [shared + [draw.randrange(a.first_id, a.vocab) for _ in range(draw.randint(a.shortest, a.longest))] for _ in range(a.requests)]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--url", required=True)
    p.add_argument("--model", required=True, help="or several with commas, which requests take in turn")
    p.add_argument("--label", required=True, help="of the server, before every name")
    p.add_argument("--at-once", type=int, required=True)
    p.add_argument("--requests", type=int, required=True)
    p.add_argument("--shortest", type=int, default=64)
    p.add_argument("--longest", type=int, default=512)
    p.add_argument("--shared", type=int, default=0, help="tokens that all prompts begin with")
    p.add_argument("--tokens", type=int, default=128)
    p.add_argument("--vocab", type=int, required=True)
    p.add_argument("--first-id", type=int, default=100, help="tokens before it are special in many vocabularies")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--texts", help="a file for what was written, by request")
    a = p.parse_args()
    left, lock = list(enumerate(prompts_of(a))), threading.Lock()
    clients = [Client(a, left, lock) for _ in range(a.at_once)]
    begin = time.monotonic()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    seconds = time.monotonic() - begin
    for client in clients:
        if client.fault:
            raise client.fault
    first, between = ([v for c in clients for v in values(c)] for values in (lambda c: c.first, lambda c: c.between))
    figures = {"output": (sum(c.tokens for c in clients) / seconds, "tokens/s"),
               "first_token": (1e3 * statistics.median(first), "ms"), "first_token_99": (1e3 * percentile(first, 0.99), "ms"),
               "between_tokens": (1e3 * statistics.median(between), "ms"), "between_tokens_99": (1e3 * percentile(between, 0.99), "ms")}
    if a.texts:
        with open(a.texts, "w") as file:
            json.dump({number: text for client in clients for number, text in client.texts.items()}, file, sort_keys=True)
    for name, (value, unit) in figures.items():
        print(json.dumps({"name": f"{a.label}.{name}", "value": value, "unit": unit}), flush=True)


if __name__ == "__main__":
    main()
