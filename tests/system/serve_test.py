#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`megalith serve`, asked over HTTP: python3 serve_test.py PROGRAM"""
import concurrent.futures
import contextlib
import json
import os
import random
import resource
import signal
import socket
import subprocess
import time
import unittest

from program import PATIENCE, PROGRAM, RoadTest, run, run_json, wait_for
from server import Server

PROMPTS = ("the cat", "the dog sees", "a", "the man finds the", "bird " * 20, "the fish eats the cat.\nthe")
TEMPLATE = ("{% for m in messages %}{{ m.content }}.\n{% endfor %}{% if tools %}{{ tools | tojson }}\n{% endif %}"
            "{% if add_generation_prompt %}the{% endif %}")


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False


class ServeTest(RoadTest):
    """A small trained model as a folder with a chat template, served once for all tests of a class."""
    OPTIONS = ()
    TEMPLATE = TEMPLATE

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train("run", "model.context=256", "train.sequence_length=64", "train.steps=100", "train.validate_every=0", "model.dropout=0")
        cls.model = cls.folder / "model"
        run("convert", "--from", cls.folder / "run", "--to", cls.model, "--format", "hf")
        (cls.model / "chat_template.jinja").write_text(cls.TEMPLATE)
        cls.server = cls.serve(*cls.OPTIONS)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        super().tearDownClass()

    @classmethod
    def serve(cls, *options, **more):
        return Server(cls.model, *options, **more)

    @classmethod
    def generated(cls, prompt, *options):
        return run_json("generate", "--checkpoint", cls.model, "--prompt", prompt, "--threads", 1, *options)

    def refused(self, path, body, status=400, **options):
        got, _, content = self.server.ask(path, body, **options)
        self.assertEqual(got, status, content[:300])
        self.assertEqual(self.server.ask("/v2/health/live")[0], 200)
        return json.loads(content)["error"]


class Texts(ServeTest):
    OPTIONS = ("--max-batch", 4, "--max-queue", 100)

    def test_texts_are_those_of_generate_whatever_else_is_served(self):
        asked = [(prompt, options) for prompt in PROMPTS for options in ({}, {"temperature": 0.9, "seed": 7}, {"temperature": 0.8, "top_p": 0.9, "top_k": 20, "seed": 3, "frequency_penalty": 0.5})]
        words = {"seed": "--seed", "temperature": "--temperature", "top_p": "--top-p", "top_k": "--top-k", "frequency_penalty": "--frequency-penalty"}
        expected = [self.generated(prompt, "--max-new-tokens", 24, *[word for name, value in {"temperature": 0, **options}.items() for word in (words[name], value)]) for prompt, options in asked]
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            answers = list(pool.map(lambda one: self.server.complete(one[0], **{"max_tokens": 24, "logprobs": 0, **one[1]}), asked))
        for (prompt, options), alone, answer in zip(asked, expected, answers):
            with self.subTest(prompt=prompt, options=options):
                choice = answer["choices"][0]
                self.assertEqual(choice["text"], alone["text"])
                self.assertEqual(choice["finish_reason"], alone["finish_reason"])
                self.assertEqual(choice["logprobs"]["token_logprobs"], alone["logprobs"])
                self.assertEqual(answer["usage"]["completion_tokens"], len(alone["ids"]))

    def test_streams_say_the_same(self):
        body = {"model": self.server.model, "prompt": "the cat", "max_tokens": 20, "temperature": 0.9, "seed": 5, "n": 2, "logprobs": 2, "stream": True, "stream_options": {"include_usage": True}}
        events = self.server.stream("/v1/completions", body)
        self.assertEqual(events.pop(), "[DONE]")
        usage = events.pop()
        del body["stream"], body["stream_options"]
        whole = self.server.json("/v1/completions", body)
        self.assertEqual((usage["choices"], usage["usage"]), ([], whole["usage"]))
        for choice in whole["choices"]:
            pieces = [event["choices"][0] for event in events if event["choices"][0]["index"] == choice["index"]]
            self.assertEqual("".join(piece["text"] for piece in pieces), choice["text"])
            self.assertEqual([piece["finish_reason"] for piece in pieces if piece["finish_reason"]], [choice["finish_reason"]])
            for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
                self.assertEqual([value for piece in pieces if piece["logprobs"] for value in piece["logprobs"][name]], choice["logprobs"][name])

    def test_a_prompt_echoed_has_the_log_probabilities_of_score(self):
        lines = self.folder / "lines.jsonl"
        lines.write_text("".join(json.dumps({"text": prompt}) + "\n" for prompt in PROMPTS))
        scored = [json.loads(line) for line in run("evaluate", "score", "--checkpoint", self.model, "--input", lines, "--threads", 1, "--json").splitlines()]
        answer = self.server.complete(list(PROMPTS), max_tokens=1, echo=True, logprobs=1)
        by_ids = self.server.complete([line["ids"] for line in scored], max_tokens=1, echo=True, logprobs=1)
        alone = self.server.complete(list(PROMPTS), max_tokens=0, echo=True, logprobs=1)
        for choice, ids, only, line in zip(answer["choices"], by_ids["choices"], alone["choices"], scored):
            logprobs = choice["logprobs"]
            self.assertEqual(len(logprobs["token_logprobs"]), len(line["ids"]) + 1)
            self.assertEqual(logprobs["token_logprobs"][:-1], [None, *line["logprobs"]])
            self.assertEqual(ids["logprobs"]["token_logprobs"], logprobs["token_logprobs"])
            self.assertEqual(only["logprobs"]["token_logprobs"], logprobs["token_logprobs"][:-1])
            for value, top in list(zip(logprobs["token_logprobs"], logprobs["top_logprobs"]))[1:]:
                self.assertIn(value, top.values())

    def test_chats_go_through_the_template(self):
        messages = [{"role": "user", "content": "the cat"}]
        text = "the cat.\nthe"
        expected = self.server.json("/v1/completions", {"model": self.server.model, "prompt": text, "max_tokens": 12, "temperature": 0, "add_special_tokens": False})["choices"][0]["text"]
        body = {"model": self.server.model, "messages": messages, "max_completion_tokens": 12, "temperature": 0, "logprobs": True, "top_logprobs": 2}
        answer = self.server.json("/v1/chat/completions", body)
        self.assertEqual(answer["choices"][0]["message"], {"role": "assistant", "content": expected, "refusal": None})
        tokens = answer["choices"][0]["logprobs"]["content"]
        self.assertEqual(bytes(byte for token in tokens for byte in token["bytes"]).decode(errors="replace"), expected)
        events = self.server.stream("/v1/chat/completions", {**body, "stream": True})
        self.assertEqual(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual("".join(event["choices"][0]["delta"].get("content", "") for event in events[:-1]), expected)
        tools = [{"type": "function", "function": {"name": "look"}}]
        longer = self.server.json("/v1/chat/completions", {**body, "tools": tools})
        self.assertGreater(longer["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens"])
        run_messages = self.folder / "messages.json"
        run_messages.write_text(json.dumps(messages))
        same = run_json("generate", "--checkpoint", self.model, "--messages", run_messages, "--max-new-tokens", 12, "--temperature", 0, "--threads", 1)
        self.assertEqual(same["text"], expected)

    def test_stop_texts(self):
        asked = {"model": self.server.model, "prompt": "the cat", "max_tokens": 40, "temperature": 1, "seed": 3, "ignore_eos": True}
        whole = self.server.json("/v1/completions", asked)["choices"][0]["text"]
        stop = whole[len(whole) // 2:][:3]
        answer = self.server.json("/v1/completions", {**asked, "stop": [stop, "zzz"]})["choices"][0]
        self.assertEqual((answer["text"], answer["finish_reason"]), (whole[:whole.index(stop)], "stop"))
        events = self.server.stream("/v1/completions", {**asked, "stop": stop, "stream": True})
        self.assertEqual("".join(event["choices"][0]["text"] for event in events[:-1]), answer["text"])

    def test_fastertransformers_tensors(self):
        ids = self.server.json("/tokenize", {"prompt": "the cat"})["tokens"]
        alone = self.generated("the cat", "--max-new-tokens", 6, "--temperature", 0)
        def tensor(name, data, datatype="UINT32"):
            return {"name": name, "shape": [1, len(data)], "datatype": datatype, "data": data}
        for model in (self.server.model, "fastertransformer"):
            answer = self.server.json(f"/v2/models/{model}/infer", {"id": "7", "inputs": [tensor("input_ids", ids), tensor("input_lengths", [len(ids)]), tensor("request_output_len", [6])]})
            outputs = {output["name"]: output for output in answer["outputs"]}
            self.assertEqual((answer["id"], answer["model_name"]), ("7", model))
            self.assertEqual(outputs["output_ids"]["data"][:len(ids) + len(alone["ids"])], ids + alone["ids"])
            self.assertEqual(outputs["sequence_length"]["data"], [len(ids) + len(alone["ids"])])
        text = self.server.json(f"/v2/models/{self.server.model}/generate", {"text_input": "the cat", "parameters": {"max_tokens": 6, "temperature": 0}})
        self.assertEqual(text["text_output"], alone["text"])
        self.assertIn("input_ids", [one["name"] for one in self.server.json(f"/v2/models/{self.server.model}")["inputs"]])

    def test_tokens_go_both_ways(self):
        tokens = self.server.json("/tokenize", {"prompt": "the cat", "add_special_tokens": False})
        self.assertEqual(self.server.json("/detokenize", {"tokens": tokens["tokens"]})["prompt"], "the cat")
        self.assertEqual(tokens["max_model_len"], 256)
        info = self.server.json("/tokenizer_info")
        self.assertEqual((info["eos_token"], info["chat_template"]), ("<|endoftext|>", TEMPLATE))

    def test_vectors_of_texts_are_those_of_evaluate(self):
        lines = self.folder / "embed.jsonl"
        lines.write_text('{"text": "the cat"}\n')
        expected = json.loads(run("evaluate", "embed", "--checkpoint", self.model, "--input", lines, "--normalize", "--threads", 1, "--json"))["embedding"]
        answer = self.server.json("/v1/embeddings", {"model": self.server.model, "input": ["the cat", "the dog"]})
        self.assertEqual(answer["data"][0]["embedding"], expected)

    def test_errors_are_objects_with_param_and_code(self):
        error = self.refused("/v1/completions", {"model": self.server.model, "prompt": "a" * 2000})
        self.assertEqual((error["code"], error["type"]), ("context_length_exceeded", "invalid_request_error"))
        error = self.refused("/v1/completions", {"model": self.server.model, "prompt": "a", "n": 10**9})
        self.assertEqual(error["param"], "n")
        self.assertEqual(self.refused("/v1/completions", {"model": "other", "prompt": "a"}, 404)["code"], "model_not_found")
        self.refused("/v1/completions", b"{" * 1000)
        self.refused("/v1/completions", b'{"model": "\xff"}')
        self.refused("/v1/completions", b"[" * 250_000)
        self.refused("/v1/completions", b'{"a": 1, "a": 2}')
        self.refused("/v1/completions", {"model": self.server.model, "prompt": "a", "logit_bias": {str(i): 1 for i in range(301)}})
        self.refused("/v1/completions", b" " * (8 * 2**20 + 1), 413)
        self.assertIsInstance(self.refused("/v2/models/fastertransformer/infer", {"inputs": []}), str)
        self.refused("/v2/models/..%2f..%2fetc/infer", {"inputs": []}, 404)
        self.assertEqual(self.server.ask("/../../etc/passwd")[0], 404)

    def test_metrics_count_what_was_done(self):
        before = self.server.metrics()
        answer = self.server.complete("the cat", n=2, temperature=1)
        self.refused("/v1/completions", {"model": self.server.model})
        after = self.server.wait_for(lambda values: values["megalith:requests_running"] == 0)
        def grown(name):
            return after[name] - before.get(name, 0)
        self.assertEqual(grown("megalith:requests_started_total"), 1)
        self.assertEqual(grown("megalith:requests_finished_total"), 1)
        self.assertEqual(grown("vllm:generation_tokens_total"), answer["usage"]["completion_tokens"])
        self.assertEqual(grown("vllm:request_success_total"), 2)
        for name in ("request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds", "request_inference_time_seconds"):
            self.assertEqual(grown(f"vllm:{name}_count"), 2)
            self.assertGreater(grown(f"vllm:{name}_sum"), 0)
        whole, parts = grown("vllm:request_inference_time_seconds_sum"), [grown(f"vllm:request_{part}_time_seconds_sum") for part in ("prefill", "decode")]
        self.assertAlmostEqual(whole, sum(parts), places=5)
        self.assertLess(whole + grown("vllm:request_queue_time_seconds_sum"), 2 * grown("vllm:e2e_request_latency_seconds_sum"))
        self.assertEqual(grown("vllm:iteration_tokens_total_count"), grown("megalith:passes_total"))
        self.assertEqual(grown("vllm:prefix_cache_queries_total"), 2 * answer["usage"]["prompt_tokens"])
        self.assertEqual(after["megalith:kv_cache_usage"], 0)

    def test_the_page_is_one_file(self):
        status, headers, page = self.server.ask("/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertNotIn(b"http://", page)
        self.assertNotIn(b"https://", page)


class Protocol(ServeTest):
    """Malformed and hostile HTTP."""
    OPTIONS = ("--header-seconds", 1, "--max-connections", 40)

    def head(self, *lines, target="/v1/completions"):
        return b"\r\n".join((f"POST {target} HTTP/1.1".encode(), b"Host: a", *lines, b"", b""))

    def test_what_two_servers_could_read_differently_is_refused_and_closed(self):
        body = b'{"model": "x"}'
        length = b"Content-Length: %d" % len(body)
        smuggled = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
        for lines in ((length, b"Transfer-Encoding: chunked"), (b"Transfer-Encoding: chunked", length), (length, b"Content-Length: 5"), (length, length), (b"Transfer-Encoding: chunked, chunked",),
                      (b"Transfer-Encoding: xchunked",), (b"Transfer-Encoding : chunked",), (b"Content-Length: -1",), (b"Content-Length: 1e3",), (b"Content-Length: 99999999999999999999",), (b"no colon",),
                      (b"x: \0",), (b"Expect: a miracle", length), (b"Content-Encoding: gzip", length), (b"Host: b", length)):
            with self.subTest(lines=lines):
                with socket.create_connection((self.server.host, self.server.port), timeout=PATIENCE) as connection:
                    connection.sendall(self.head(*lines) + body + smuggled)
                    said = b""
                    while piece := connection.recv(65536):
                        said += piece
                self.assertEqual(said.count(b"HTTP/1.1 "), 1, said)  # and nothing behind it is answered
                self.assertEqual(said[9:10], b"4")
                json.loads(said.split(b"\r\n\r\n", 1)[1])["error"]["message"]
                self.assertEqual(self.server.ask("/health")[0], 200)

    def test_framing(self):
        for data, status in ((b"\r\n\r\n", 400), (b"GET /\r\n\r\n", 400), (b"GET / HTTP/2.0\r\n\r\n", 505), (b"\x16\x03\x01" + bytes(50) + b"\r\n\r\n", 400), (b"GET / HTTP/1.1\r\n\r\n", 400),
                             (b"GET /" + b"x" * 65536 + b" HTTP/1.1\r\n\r\n", 431), (b"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
                             (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"x: y\r\n" * 10000 + b"\r\n", 431), (self.head(b"Transfer-Encoding: chunked") + b"-2\r\n", 400),
                             (self.head(b"Transfer-Encoding: chunked") + b"1\r\nx\r\n" * 70000, 413), (self.head(b"Content-Length: 9000000"), 413)):
            with self.subTest(data=data[:40]):
                try:
                    self.assertEqual(self.server.raw(data), status)
                except ConnectionError:
                    pass  # it closed before all was sent
                self.assertEqual(self.server.ask("/health")[0], 200)

    def test_slow_headers_are_closed(self):
        with socket.create_connection((self.server.host, self.server.port), timeout=PATIENCE) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost:")
            begin = time.monotonic()
            self.assertTrue(connection.recv(1000).startswith(b"HTTP/1.1 408"))
            while connection.recv(1000):
                pass
            self.assertGreater(time.monotonic() - begin, 0.5)
        with socket.create_connection((self.server.host, self.server.port), timeout=PATIENCE) as connection:
            self.assertEqual(connection.recv(1000), b"")  # one that says nothing at all

    def test_requests_one_behind_the_other(self):
        request = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n"
        with socket.create_connection((self.server.host, self.server.port), timeout=PATIENCE) as connection:
            connection.sendall((request + b"\r\n") * 99 + request + b"Connection: close\r\n\r\n")
            said = b""
            while piece := connection.recv(65536):
                said += piece
        self.assertEqual(said.count(b"HTTP/1.1 200"), 100)

    def test_memory_is_what_was_planned(self):
        """Weights, 64 MiB for the program, and blocks, when sixteen texts of the whole context had been written at once."""
        memory = self.server.ready["memory"]
        self.assertGreater(memory["block_bytes"], 0)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            texts = list(pool.map(lambda n: self.server.complete(f"{n} cats", max_tokens=240, seed=n, temperature=1, ignore_eos=True), range(16)))
        self.assertTrue(all(text["usage"]["completion_tokens"] == 240 for text in texts))
        with open(f"/proc/{self.server.process.pid}/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) << 10
        self.assertLessEqual(peak, memory["model_bytes"] + memory["block_bytes"])

    def test_a_client_that_waits_is_told_to_go_on(self):
        body = json.dumps({"model": self.server.model, "prompt": "a", "max_tokens": 1}).encode()
        with socket.create_connection((self.server.host, self.server.port), timeout=PATIENCE) as connection:
            connection.sendall(self.head(b"Expect: 100-continue", b"Connection: close", b"Content-Length: %d" % len(body)))
            self.assertEqual(connection.recv(1000), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(body)
            self.assertTrue(connection.recv(1000).startswith(b"HTTP/1.1 200"))

    def test_bad_requests_leave_nothing_behind(self):
        def resident():
            with open(f"/proc/{self.server.process.pid}/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        def descriptors():
            return len(os.listdir(f"/proc/{self.server.process.pid}/fd"))
        bad = (self.head(b"Content-Length: 4", b"Content-Length: 5"), self.head(b"Transfer-Encoding: chunked") + b"zz\r\n", b"x" * 40000,
               self.head(b"Connection: close", b"Content-Length: 100000") + b"[" * 100000)
        def all_of_them():
            for data in bad:
                try:
                    self.server.raw(data)
                except ConnectionError:
                    pass
        for _ in range(5):
            all_of_them()
        before, open_before = resident(), descriptors()
        for _ in range(50):
            all_of_them()
        self.assertLess(resident() - before, 32 << 10)
        self.assertLessEqual(descriptors(), open_before + 4)

    def test_more_connections_than_there_is_room_for(self):
        held = [socket.create_connection((self.server.host, self.server.port), timeout=PATIENCE) for _ in range(45)]
        said = [connection.recv(100) for connection in held[-3:]]
        for connection in held:
            connection.close()
        self.assertTrue(all(answer.startswith(b"HTTP/1.1 503") for answer in said), said)
        time.sleep(0.2)
        self.assertEqual(self.server.ask("/health")[0], 200)


class Limits(ServeTest):
    """Servers of their own."""
    OPTIONS = ()
    LONG = {"max_tokens": 240, "ignore_eos": True}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.slow = ("--max-batch", 1, "--max-queue", 1, "--max-pass-tokens", 16)

    def fill(self, server):
        """Streams that hold every place: one that runs, and one that waits."""
        streams = []
        for _ in range(2):
            connection = server.connection()
            body = {"model": server.model, "prompt": "the", "temperature": 1, "stream": True, **self.LONG}
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            streams.append(connection)
            server.wait_for(lambda values, n=len(streams): values["megalith:requests_started_total"] >= n)
        return streams

    def test_a_full_queue_is_429_and_a_client_that_goes_makes_room(self):
        with self.serve(*self.slow) as server:
            for attempt in range(5):  # the first may have ended before the third comes
                streams = self.fill(server)
                status, headers, body = server.ask("/v1/completions", {"model": server.model, "prompt": "a"})
                for connection in streams:
                    connection.close()  # its response is not read
                if status == 429:
                    break
            self.assertEqual((status, headers["Retry-After"], json.loads(body)["error"]["code"]), (429, "1", "queue_full"))
            values = server.wait_for(lambda values: values["megalith:requests_running"] + values["megalith:requests_waiting"] == 0)
            self.assertGreaterEqual(values["megalith:requests_cancelled_total"], 1)
            self.assertEqual(values["megalith:kv_blocks_in_use"], 0)
            self.assertEqual(server.complete("the cat")["object"], "text_completion")
            values = server.metrics()
            ended = sum(values[f"megalith:requests_{word}_total"] for word in ("finished", "cancelled", "failed", "rejected"))
            self.assertEqual(values["megalith:requests_started_total"], ended)

    def test_deadlines(self):
        with self.serve("--deadline-seconds", 0.001) as server:
            status, _, body = server.ask("/v1/completions", {"model": server.model, "prompt": ["the"] * 64, **self.LONG})
            self.assertEqual((status, json.loads(body)["error"]["code"]), (504, "deadline_exceeded"))

    def test_sigterm_lets_those_that_run_finish(self):
        with self.serve("--drain-seconds", 60) as server:
            with server.open_stream(prompt="the", temperature=1, seed=1, **self.LONG) as response:
                first = response.readline()
                server.process.send_signal(signal.SIGTERM)
                deadline = time.monotonic() + PATIENCE
                while server.ask("/health")[0] != 503:
                    self.assertLess(time.monotonic(), deadline)
                status, headers, _ = server.ask("/v1/completions", {"model": server.model, "prompt": "a"})
                rest = first + response.read()
            self.assertEqual(status, 503)
            self.assertTrue(rest.endswith(b"data: [DONE]\n\n"))
            self.assertNotIn(b'"error"', rest)
            server.process.communicate(timeout=PATIENCE)
            self.assertEqual(server.process.returncode, 0)

    def test_sigterm_ends_what_takes_too_long(self):
        with self.serve("--drain-seconds", 0.001) as server:
            with server.open_stream(prompt="the", temperature=1, **self.LONG) as response:
                response.readline()
                self.assertEqual(server.end(), 0)
                rest = response.read()
            self.assertTrue(rest.endswith(b"data: [DONE]\n\n"), rest[-300:])

    def test_sigterm_while_it_loads(self):
        """From when it listens on; so soon after that it is most likely not open."""
        for _ in range(5):
            with socket.socket() as place:
                place.bind(("127.0.0.1", 0))
                port = place.getsockname()[1]
            process = subprocess.Popen([PROGRAM, "serve", "--checkpoint", str(self.model), "--port", str(port), "--grpc-port", "off", "--json"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertTrue(wait_for(lambda: accepts(port), process), process.returncode)
            process.terminate()
            _, said = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0, said)

    def test_sigterm_of_an_idle_server(self):
        with self.serve() as server:
            kept = server.connection()
            kept.request("GET", "/health")
            kept.getresponse().read()
            self.assertEqual(server.end(), 0)

    def test_keys(self):
        keys = self.folder / "keys.txt"
        keys.write_text("# ours\nsecret-1\nsecret-2\n")
        with self.serve("--api-key-file", keys) as server:
            for path in ("/v1/models", "/metrics", "/tokenizer_info", "/v2"):
                self.assertEqual(server.ask(path)[0], 401)
                self.assertEqual(server.ask(path, headers={"Authorization": "Bearer secret-"})[0], 401)
                self.assertEqual(server.ask(path, headers={"Authorization": "Bearer secret-2"})[0], 200)
            self.assertEqual(server.ask("/v1/completions", {"model": "x"})[0], 401)
            for path in ("/", "/health", "/v2/health/live", "/v2/health/ready"):
                self.assertEqual(server.ask(path)[0], 200)
        self.assertIn("keys.txt", run("serve", "--checkpoint", self.model, "--api-key-file", self.folder / "absent-keys.txt", code=2))

    def test_ranks_serve_the_same(self):
        expected = self.server.complete("the cat", max_tokens=20, logprobs=3)["choices"]
        with self.serve("--ranks", 2, "--threads", 2) as server:
            self.assertEqual(server.complete("the cat", max_tokens=20, logprobs=3)["choices"], expected)
            self.assertEqual(server.end(), 0)

    def test_what_does_not_fit_is_refused_with_the_numbers(self):
        message = run("serve", "--checkpoint", self.model, "--memory", 64 << 20, "--port", 0, code=2)
        for word in ("--memory", "--context", "MiB", "256 tokens"):
            self.assertIn(word, message)
        self.assertIn("--context 257", run("serve", "--checkpoint", self.model, "--context", 257, code=2))
        self.assertIn("--host", run("serve", "--checkpoint", self.model, "--host", "not an address", code=2))
        with self.serve("--context", 40) as server:
            self.assertEqual(server.json("/v1/models")["data"][0]["max_model_len"], 40)
            self.assertEqual(server.ask("/v1/completions", {"model": server.model, "prompt": "the cat", "max_tokens": 39})[0], 400)
            taken = subprocess.run([PROGRAM, "serve", "--checkpoint", str(self.model), "--port", str(server.port)], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(taken.returncode, 1)
            self.assertIn("--port", taken.stderr)

    def test_clients_that_come_and_go(self):
        """Every request that was understood ends in one of four ways, and nothing of it stays."""
        with self.serve("--max-batch", 4, "--max-queue", 4) as server:
            end = time.monotonic() + 3

            def client(number):
                draw = random.Random(number)
                while time.monotonic() < end:
                    kind = draw.random()
                    with contextlib.closing(server.connection()) as connection:
                        body = {"model": server.model, "prompt": "the cat", "max_tokens": draw.randint(1, 150), "ignore_eos": True, "stream": kind < 0.6, "user": str(number)}
                        connection.request("POST", "/v1/completions", b'{"bad' if kind < 0.1 else json.dumps(body))
                        if kind > 0.35:  # the others go without an answer
                            response = connection.getresponse()
                            response.read(50 if kind < 0.5 else None)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(client, range(8)))
            values = server.wait_for(lambda values: values["megalith:requests_running"] + values["megalith:requests_waiting"] == 0 and values["megalith:connections"] == 1)
            ended = sum(values[f"megalith:requests_{word}_total"] for word in ("finished", "cancelled", "failed", "rejected"))
            self.assertEqual(values["megalith:requests_started_total"], ended)
            self.assertGreater(values["megalith:requests_cancelled_total"], 0)
            self.assertEqual(values["megalith:kv_blocks_in_use"], 0)
            self.assertEqual(server.end(), 0)

    def test_few_descriptors(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        process = subprocess.Popen([PROGRAM, "serve", "--checkpoint", str(self.model), "--port", "0", "--json", "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=limit)
        try:
            host, _, port = json.loads(process.stdout.readline())["http"].rpartition(":")
            held = [socket.create_connection((host, int(port))) for _ in range(100)]
            for connection in held:
                connection.close()
            time.sleep(0.5)
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
                self.assertTrue(connection.recv(1000).startswith(b"HTTP/1.1 200"))
        finally:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    unittest.main()
