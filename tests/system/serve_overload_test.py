#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`megalith serve` under ten times the requests it can answer: python3 serve_overload_test.py PROGRAM [SECONDS]

Requests arrive at a fixed rate whatever becomes of those before, among readers that hardly read and clients that go away. What is
admitted is answered in time, the rest is told 429 at once, and when the storm is over nothing of it is left."""
import contextlib
import http.client
import itertools
import json
import os
import signal
import sys
import threading
import time
import unittest

SECONDS = float(sys.argv.pop(2)) if len(sys.argv) > 2 and not sys.argv[2].startswith("-") else 60.0
from serve_soak_test import MOST_GROWTH, WAYS_TO_END, resident  # noqa: E402
from serve_test import ServeTest  # noqa: E402

BATCH, QUEUE = 2, 6
TIMES = 10          # more than it can answer
CLIENTS = 48        # those that wait for an answer hold at most BATCH + QUEUE of them
DISCONNECTS = 100
SLOW_READERS = 4
RECOVERY = 5.0      # seconds


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class Overload(ServeTest):
    OPTIONS = ("--max-batch", BATCH, "--max-queue", QUEUE, "--max-pass-tokens", 64)

    def setUp(self):
        self.answers, self.faults, self.lock = {}, [], threading.Lock()

    def body(self, server, number, **fields):
        return {"model": server.model, "prompt": "the cat " * 20, "max_tokens": 120, "ignore_eos": True, "logprobs": 5, "seed": number,
                "user": str(number % 5), **fields}

    def capacity(self):
        """Requests a second when as many ask as there is room for."""
        end, done = time.monotonic() + 5, itertools.count()

        def client(number):
            while time.monotonic() < end:
                self.server.json("/v1/completions", self.body(self.server, number))
                next(done)
        self.in_threads([lambda n=n: client(n) for n in range(BATCH)])
        return next(done) / 5

    def in_threads(self, works):
        def guarded(work):
            try:
                work()
            except Exception as error:  # a connection that the server ends, an answer that is none
                self.faults.append(repr(error))
        threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def arrivals(self, server, tickets, begin, rate):
        """Takes the next arrival when it is due; connections are kept, as clients' pools keep them."""
        connection = server.connection()
        for number in iter(lambda: next(tickets), None):
            due = begin + number / rate
            if due >= begin + SECONDS or self.faults:
                break
            time.sleep(max(0.0, due - time.monotonic()))
            sent = time.monotonic()
            connection.request("POST", "/v1/completions", json.dumps(self.body(server, number)), {"Content-Type": "application/json"})
            response = connection.getresponse()
            retry = response.headers["Retry-After"]
            response.read()
            with self.lock:
                self.answers.setdefault(response.status, []).append(time.monotonic() - sent)
            if response.status == 429 and retry is None:
                self.faults.append("a 429 without Retry-After")
        connection.close()

    def slow_reader(self, server, end):
        """Asks for a stream, and reads a few bytes of it a second."""
        while time.monotonic() < end:
            with contextlib.suppress(http.client.HTTPException, ConnectionError), server.open_stream(**self.body(server, 0)) as response:
                while time.monotonic() < end and response.read(16):
                    time.sleep(0.25)
            time.sleep(0.05)

    def disconnects(self, server):
        for number in range(DISCONNECTS):
            with contextlib.closing(server.connection()) as connection:
                connection.request("POST", "/v1/completions", json.dumps(self.body(server, number, stream=number % 2 == 0)))
                time.sleep(SECONDS / DISCONNECTS / 2)

    def storm(self, server, rate):
        begin = time.monotonic()
        tickets = itertools.count()
        clients = [lambda: self.arrivals(server, tickets, begin, rate)] * CLIENTS
        self.in_threads([*clients, *[lambda: self.slow_reader(server, begin + SECONDS)] * SLOW_READERS, lambda: self.disconnects(server)])
        return time.monotonic()

    def test_the_storm_passes(self):
        capacity = self.capacity()
        limit = max(1.0, 4 * (BATCH + QUEUE) / capacity)
        with self.serve(*self.OPTIONS, "--deadline-seconds", limit) as server:
            server.json("/v1/completions", self.body(server, 0))
            pid = server.process.pid
            quiet, before = len(os.listdir(f"/proc/{pid}/fd")), resident(pid)
            over = self.storm(server, TIMES * capacity)
            self.assertEqual(self.faults, [])
            values = server.wait_for(lambda values: values["megalith:requests_running"] + values["megalith:requests_waiting"] == 0
                                     and values["megalith:connections"] == 1)
            begin = time.monotonic()
            server.json("/v1/completions", self.body(server, 0))
            recovery, again = time.monotonic() - over, time.monotonic() - begin
            grown, descriptors = resident(pid) - before, len(os.listdir(f"/proc/{pid}/fd"))
            admitted, turned_away = self.answers[200], self.answers[429]
            arrived = sum(map(len, self.answers.values())) / SECONDS
            print(f"{capacity:.1f} requests/s are its work, {arrived:.1f} came ({arrived / capacity:.1f}x): { {s: len(t) for s, t in sorted(self.answers.items())} }; "
                  f"admitted: half within {percentile(admitted, .5):.2f} s, 99 of 100 within {percentile(admitted, .99):.2f} s of {limit:.2f} s; turned away "
                  f"within {1e3 * percentile(turned_away, .5):.1f} ms and {1e3 * percentile(turned_away, .99):.1f} ms; quiet again after {recovery:.2f} s "
                  f"(a request then takes {again:.2f} s); {grown / 2**20:.1f} MiB more resident, {descriptors - quiet} descriptors")
            self.assertLessEqual(set(self.answers), {200, 429})
            self.assertGreater(arrived, 0.9 * TIMES * capacity)
            self.assertLess(percentile(admitted, 0.99), limit)
            self.assertGreater(len(admitted) / SECONDS, capacity / 4)  # a storm does not keep it from its work
            self.assertLess(recovery, RECOVERY)
            self.assertLess(grown, MOST_GROWTH)
            self.assertLessEqual(descriptors, quiet + 1)
            ended = {way: values[f"megalith:requests_{way}_total"] for way in WAYS_TO_END}
            self.assertEqual(values["megalith:requests_started_total"], sum(ended.values()), ended)
            self.assertEqual(values["megalith:kv_blocks_in_use"], 0)
            self.assertEqual(server.end(signal.SIGTERM), 0)


if __name__ == "__main__":
    unittest.main()
