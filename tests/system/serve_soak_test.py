#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`megalith serve` under all kinds of requests for half an hour: python3 serve_soak_test.py PROGRAM [SECONDS]

Clients ask, go away, read slowly and ask for more than there is room for. Texts are those of `generate` all the while, memory and
descriptors stay what they are after a tenth of the time, and in the end nothing is left."""
import contextlib
import json
import os
import pathlib
import random
import signal
import statistics
import sys
import threading
import time
import unittest

SECONDS = float(sys.argv.pop(2)) if len(sys.argv) > 2 and not sys.argv[2].startswith("-") else 1800.0
from serve_forms_test import PERSON, TOOLS, TOOLS_TEMPLATE, named  # noqa: E402
from serve_test import PROMPTS, ServeTest  # noqa: E402

CLIENTS = 12
MOST_GROWTH = 32 << 20
WAYS_TO_END = ("finished", "cancelled", "failed", "rejected")


def resident(pid):
    return next(int(line.split()[1]) << 10 for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))


class Soak(ServeTest):
    TEMPLATE = TOOLS_TEMPLATE
    OPTIONS = ("--max-batch", 6, "--max-queue", 10, "--lookup", 3)

    def setUp(self):
        self.end = time.monotonic() + SECONDS
        self.samples = []   # (share of the time, resident bytes, descriptors)
        self.answers = {}   # how often what was answered
        self.compared = 0
        self.faults = []
        self.lock = threading.Lock()

    def known_texts(self):
        """Requests whose texts `generate` has written."""
        schema = self.folder / "person.json"
        schema.write_text(json.dumps(PERSON))
        drawn = {"temperature": 0.9, "seed": 5}
        words = ("--temperature", 0.9, "--seed", 5)
        kinds = [({"temperature": 0}, ("--temperature", 0)), (drawn, words), ({**drawn, "response_format": named(PERSON)}, (*words, "--json-schema", schema)),
                 ({"use_beam_search": True, "n": 3}, ("--beams", 3))]
        return [({"prompt": prompt, "max_tokens": 24, **fields}, self.generated(prompt, "--max-new-tokens", 24, *options)["text"])
                for prompt in PROMPTS[:4] for fields, options in kinds]

    def body_of(self, draw):
        """(path, body) of a request of some kind."""
        model = {"model": self.server.model}
        texts = {**model, "prompt": draw.choice(PROMPTS), "max_tokens": draw.randint(1, 120), "seed": draw.randrange(10**6), "user": str(draw.randrange(4))}
        chat = {**model, "messages": [{"role": "user", "content": draw.choice(PROMPTS)}], "max_tokens": draw.randint(1, 60), "seed": 1}
        kinds = [
            ("/v1/completions", texts), ("/v1/completions", {**texts, "stream": True, "logprobs": 3}), ("/v1/completions", {**texts, "n": 3, "best_of": 4}),
            ("/v1/completions", {**texts, "prompt": ["a"] * draw.randint(2, 16)}),  # more than there are places, some
            ("/v1/completions", {**texts, "echo": True, "logprobs": 2}), ("/v1/completions", {**texts, "use_beam_search": True, "best_of": draw.randint(2, 6)}),
            ("/v1/completions", {**texts, "guided_regex": "[a-z ]{%d}" % draw.randint(1, 100)}), ("/v1/completions", {**texts, "guided_json": PERSON, "stream": True}),
            ("/v1/completions", {**texts, "guided_json": {"uniqueItems": True}}), ("/v1/completions", {**texts, "max_tokens": 10**6}),
            ("/v1/chat/completions", chat), ("/v1/chat/completions", {**chat, "stream": True, "tools": TOOLS, "tool_choice": "required"}),
            ("/v1/chat/completions", {**chat, "response_format": {"type": "json_object"}}), ("/v1/embeddings", {**model, "input": list(PROMPTS)}),
            ("/tokenize", {"prompt": "the cat " * draw.randint(1, 1000)}), ("/v2/models/fastertransformer/generate", {"text_input": "the", "max_tokens": 20}),
        ]
        return draw.choice(kinds)

    def ask_anything(self, draw):
        path, body = self.body_of(draw)
        content = json.dumps(body).encode() if draw.random() < 0.95 else b'{"model": "half'
        with contextlib.closing(self.server.connection()) as connection:
            connection.request("POST", path, content, {"Content-Type": "application/json"})
            if draw.random() < 0.2:
                time.sleep(draw.random() * 0.1)
                return "left"
            response = connection.getresponse()
            if draw.random() < 0.1:  # a slow reader, who then goes or does not
                for _ in range(draw.randint(1, 10)):
                    response.read(10)
                    time.sleep(0.05)
                if draw.random() < 0.5:
                    return "left half-way"
            response.read()
            return response.status

    def ask_known(self, draw, known):
        fields, expected = draw.choice(known)
        status, _, content = self.server.ask("/v1/completions", {"model": self.server.model, **fields})
        if status == 429:
            return status
        text = json.loads(content)["choices"][0]["text"] if status == 200 else content[:300]
        if text != expected:
            self.faults.append((fields, text, expected))
        with self.lock:
            self.compared += 1
        return status

    def client(self, number, known):
        draw = random.Random(number)
        while time.monotonic() < self.end and not self.faults:
            try:
                said = self.ask_known(draw, known) if draw.random() < 0.2 else self.ask_anything(draw)
            except Exception as error:  # a connection that the server ends, an answer that is none
                self.faults.append(repr(error))
                return
            with self.lock:
                self.answers[said] = self.answers.get(said, 0) + 1

    def watch(self):
        begin = time.monotonic()
        while (now := time.monotonic()) < self.end and not self.faults:
            pid = self.server.process.pid
            self.samples.append(((now - begin) / SECONDS, resident(pid), len(os.listdir(f"/proc/{pid}/fd"))))
            time.sleep(min(1.0, SECONDS / 200))

    def test_nothing_grows_and_nothing_is_lost(self):
        known = self.known_texts()
        quiet = len(os.listdir(f"/proc/{self.server.process.pid}/fd"))
        threads = [threading.Thread(target=self.client, args=(number, known)) for number in range(CLIENTS)] + [threading.Thread(target=self.watch)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.faults, [])
        values = self.server.wait_for(lambda values: values["megalith:requests_running"] + values["megalith:requests_waiting"] == 0 and values["megalith:connections"] == 1)
        print(f"{self.answers}, {self.compared} texts compared; {values['vllm:num_preemptions_total']:.0f} preemptions, {values['megalith:passes_total']:.0f} passes")
        self.assertGreater(self.compared, SECONDS / 10)
        for said in (200, 400, 429, "left", "left half-way"):
            self.assertGreater(self.answers.get(said, 0), 0, said)
        ended = {way: values[f"megalith:requests_{way}_total"] for way in WAYS_TO_END}
        self.assertEqual(values["megalith:requests_started_total"], sum(ended.values()), ended)
        self.assertGreater(min(ended["finished"], ended["cancelled"], ended["rejected"]), 0, ended)
        self.assertEqual((values["megalith:kv_blocks_in_use"], values["megalith:kv_cache_usage"]), (0, 0))
        self.assertLessEqual(len(os.listdir(f"/proc/{self.server.process.pid}/fd")), quiet + 1)
        self.check_memory()
        self.assertEqual(self.server.end(signal.SIGTERM), 0)

    def check_memory(self):
        """The last fifth against the second tenth: in the first, caches fill."""
        def median(first, last):
            return statistics.median(size for share, size, _ in self.samples if first <= share < last)
        early, late = median(0.1, 0.2), median(0.8, 1)
        print(f"{len(self.samples)} samples: {early / 2**20:.1f} MiB early, {late / 2**20:.1f} MiB late, at most {max(s[1] for s in self.samples) / 2**20:.1f} MiB and {max(s[2] for s in self.samples)} descriptors")
        self.assertLess(late - early, MOST_GROWTH)
        self.assertLessEqual(max(s[2] for s in self.samples), 40 + CLIENTS)


if __name__ == "__main__":
    unittest.main()
