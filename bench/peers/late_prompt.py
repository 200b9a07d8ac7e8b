# SPDX-License-Identifier: Apache-2.0
"""Streams that a server writes while a long prompt arrives: the gaps between their tokens. Standard library alone.
Prints JSON lines {"name", "value", "unit"}, names with --label before them, one set a round:

alone     median gap of the streams before the prompt came: a pass with one token of each
reading   median gap from the prompt's arrival to its own first token: a pass with a piece of the prompt beside them
longest   the longest gap in that time
ratio     longest over reading
"""
import argparse
import http.client
import json
import random
import statistics
import threading
import time
import urllib.parse


def stream(url, model, prompt, tokens, on_token):
    """One request; on_token() at each piece of its text."""
    where = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=600)
    body = {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True, "ignore_eos": True, "cache_prompt": False}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"status {response.status}: {response.read()[:300]}")
    for line in response:
        if line.startswith(b"data: {") and json.loads(line[6:])["choices"]:
            if not on_token():
                break
    connection.close()


class Writer(threading.Thread):
    """A stream that goes on until it is told to end, and notes when each token came."""

    def __init__(self, a, prompt):
        super().__init__()
        self.a, self.prompt, self.times, self.ends, self.fault = a, prompt, [], False, None

    def run(self):
        try:
            stream(self.a.url, self.a.model, self.prompt, self.a.tokens, self.came)
        except Exception as fault:  # told by main
            self.fault = fault

    def came(self):
        self.times.append(time.monotonic())
        return not self.ends


def gaps(writers, begin, end):
    """Of tokens that came between the two times, from the one before."""
    return [b - a for w in writers for a, b in zip(w.times, w.times[1:]) if begin < b <= end]


def measured(a, seed):
    draw = random.Random(seed)

    def prompt(length):
        return [draw.randrange(100, a.vocab) for _ in range(length)]

    writers = [Writer(a, prompt(64)) for _ in range(a.streams)]
    for writer in writers:
        writer.start()
    while not all(len(w.times) >= a.before or w.fault for w in writers):
        time.sleep(0.01)
    begin = time.monotonic()
    warm = max((w.times[a.before // 2] for w in writers if not w.fault), default=begin)
    first = []
    stream(a.url, a.model, prompt(a.prompt), 1, lambda: first.append(time.monotonic()) or True)
    time.sleep(0.2)  # the token that came with the prompt's own
    for writer in writers:
        writer.ends = True
    for writer in writers:
        writer.join()
        if writer.fault:
            raise writer.fault
    return gaps(writers, warm, begin), gaps(writers, begin, first[0])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--url", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--label", required=True)
    p.add_argument("--vocab", type=int, required=True)
    for name, default in (("streams", 8), ("prompt", 2048), ("before", 24), ("tokens", 512), ("rounds", 6)):
        p.add_argument(f"--{name}", type=int, default=default)
    a = p.parse_args()
    for seed in range(a.rounds):
        before, reading = measured(a, seed)
        if seed == 0 and a.rounds > 1:
            continue  # warms up
        alone, beside, longest = 1e3 * statistics.median(before), 1e3 * statistics.median(reading), 1e3 * max(reading)
        for name, value, unit in (("alone", alone, "ms"), ("reading", beside, "ms"), ("longest", longest, "ms"), ("ratio", longest / beside, "x")):
            print(json.dumps({"name": f"{a.label}.{name}", "value": value, "unit": unit}), flush=True)


if __name__ == "__main__":
    main()
