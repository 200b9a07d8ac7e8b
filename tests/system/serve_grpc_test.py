#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`megalith serve`, asked over gRPC: python3 serve_grpc_test.py PROGRAM CLIENT

CLIENT is grpc_client.cpp, one call of the tests' own client; tests/oracle asks with tritonclient."""
import concurrent.futures
import json
import pathlib
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

CLIENT = str(pathlib.Path(sys.argv.pop(2)).resolve()) if len(sys.argv) > 2 else ""
from adapter_folder import write_adapter  # noqa: E402
from program import PATIENCE, PROGRAM, ended, run_json  # noqa: E402  (takes its own argument away)
from serve_test import PROMPTS, ServeTest  # noqa: E402
from server import Server  # noqa: E402

OK, CANCELLED, INVALID, LATE, NOT_FOUND, EXHAUSTED, UNIMPLEMENTED, UNAVAILABLE, UNAUTHENTICATED = 0, 1, 3, 4, 5, 8, 12, 14, 16


def single(number):
    """As 32 bits have it."""
    return struct.unpack("<f", struct.pack("<f", number))[0]


def tensor(name, data, datatype="UINT32", shape=None):
    return {"name": name, "shape": shape or [1, len(data)], "datatype": datatype, "data": data}


def asked(ids, new_tokens, *more, **fields):
    return {"inputs": [tensor("input_ids", ids), tensor("input_lengths", [len(ids)]), tensor("request_output_len", [new_tokens]), *more], **fields}


class Call:
    """A call that is under way."""

    def __init__(self, address, method, *requests, key="", seconds=0, most=-1):
        self.process = subprocess.Popen([CLIENT, address, method, key, str(seconds), str(most)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write("".join(json.dumps(request) + "\n" for request in requests))
        self.process.stdin.flush()
        if requests or method not in ("ModelStreamInfer",):
            self.process.stdin.close()

    def answer(self):
        return json.loads(self.process.stdout.readline() or "null")

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=PATIENCE)
        self.process.stdin.close()
        self.process.stdout.close()

    def end(self):
        """(answers, status)"""
        lines = [json.loads(line) for line in self.process.stdout.read().splitlines()]
        self.process.stdout.close()
        self.process.wait(timeout=PATIENCE)
        return lines[:-1], lines[-1]


class GrpcTest(ServeTest):
    @classmethod
    def serve(cls, *options, **more):
        return super().serve("--grpc-port", 0, *options, **more)

    def call(self, method, *requests, server=None, **options):
        server = server or self.server
        requests = [{"model": server.model, **request} for request in requests] or [{}]
        return Call(server.ready["grpc"], method, *requests, **options)

    def ask(self, method, *requests, code=OK, **options):
        """The answers, which end with this status."""
        answers, status = self.call(method, *requests, **options).end()
        self.assertEqual(status["code"], code, status)
        return answers if code == OK else status["message"]

    def ids(self, prompt):
        return self.server.json("/tokenize", {"prompt": prompt})["tokens"]


class Texts(GrpcTest):
    OPTIONS = ("--max-batch", 4, "--max-queue", 100)

    def test_texts_are_those_of_generate_and_of_http(self):
        sampled = [tensor("runtime_top_k", [20]), tensor("runtime_top_p", [0.9], "FP32"), tensor("temperature", [0.8], "FP32"), tensor("random_seed", [3], "UINT64")]
        beams = [tensor("beam_width", [3])]
        cases = [(prompt, more, raw) for prompt in PROMPTS for more in ([], sampled, beams) for raw in (False, True)]
        requests = {prompt: self.ids(prompt) for prompt in PROMPTS}

        def over_grpc(case):
            prompt, more, raw = case
            return self.ask("ModelInfer", asked(requests[prompt], 12, *more, raw=raw, id="x"))[0]

        def over_http(case):
            prompt, more, _ = case
            return self.server.json("/v2/models/fastertransformer/infer", asked(requests[prompt], 12, *more))["outputs"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            told = list(pool.map(over_grpc, cases))
            expected = list(pool.map(over_http, cases))
        for (prompt, more, raw), ours, theirs in zip(cases, told, expected):
            with self.subTest(prompt=prompt, more=[one["name"] for one in more], raw=raw):
                self.assertEqual((ours["model"], ours["id"]), (self.server.model, "x"))
                for output in theirs:
                    single_or_same = single if output["datatype"] == "FP32" else int
                    self.assertEqual(ours["outputs"][output["name"]], {"shape": output["shape"], "data": [single_or_same(x) for x in output["data"]]})
                if not more:
                    alone = self.generated(prompt, "--max-new-tokens", 12, "--temperature", 0)
                    new = len(alone["ids"])
                    self.assertEqual(ours["outputs"]["output_ids"]["data"][:len(requests[prompt]) + new], requests[prompt] + alone["ids"])
                    self.assertEqual(ours["outputs"]["output_log_probs"]["data"][:new], [single(x) for x in alone["logprobs"]])

    def test_streams_say_the_same(self):
        requests = [asked(self.ids(prompt), 10, id=prompt, raw=raw) for prompt in PROMPTS for raw in (False, True)]
        answers = self.ask("ModelStreamInfer", *requests)
        for request in requests[::2]:
            whole = self.ask("ModelInfer", request)[0]
            mine = [answer for answer in answers if answer["id"] == request["id"]]
            last = [answer for answer in mine if answer["parameters"]["triton_final_response"]]
            tokens = [answer for answer in mine if not answer["parameters"]["triton_final_response"]]
            self.assertEqual([answer["outputs"] for answer in last], [whole["outputs"]] * 2)
            prompt = len(request["inputs"][0]["data"])
            new = whole["outputs"]["sequence_length"]["data"][0] - prompt
            self.assertEqual(len(tokens), 2 * new)
            for name, expected in (("output_ids", whole["outputs"]["output_ids"]["data"][prompt:prompt + new]), ("output_log_probs", whole["outputs"]["output_log_probs"]["data"][:new]),
                                   ("sequence_length", list(range(prompt + 1, prompt + new + 1)))):
                told = [answer["outputs"][name]["data"][0] for answer in tokens]
                self.assertEqual(sorted(told), sorted(expected * 2), name)
            if new:
                self.assertIn(whole["outputs"]["cum_log_probs"]["data"][0], [answer["outputs"]["cum_log_probs"]["data"][0] for answer in tokens])

    def test_a_search_streams_its_end_alone(self):
        request = asked(self.ids("the cat"), 10, tensor("beam_width", [3]), raw=True)
        answers = self.ask("ModelStreamInfer", request)
        self.assertEqual([answer["parameters"] for answer in answers], [{"triton_final_response": True}])
        self.assertEqual(answers[0]["outputs"], self.ask("ModelInfer", request)[0]["outputs"])

    def test_rows_of_a_batch_are_told_apart(self):
        rows = [self.ids("the cat"), self.ids("the dog")]
        length = max(map(len, rows))
        request = {"inputs": [tensor("input_ids", [i for row in rows for i in row + [0] * (length - len(row))], shape=[2, length]), tensor("input_lengths", [len(row) for row in rows], shape=[2, 1]),
                              tensor("request_output_len", [5, 5], shape=[2, 1])]}
        *tokens, last = self.ask("ModelStreamInfer", request)
        for row, ids in enumerate(rows):
            mine = [answer["outputs"]["output_ids"]["data"][0] for answer in tokens if answer["parameters"].get("sequence_index", 0) == row]
            total, width = last["outputs"]["sequence_length"]["data"][row], last["outputs"]["output_ids"]["shape"][2]
            self.assertEqual(last["outputs"]["output_ids"]["data"][row * width:row * width + total], ids + mine)

    def test_questions(self):
        for method in ("ServerLive", "ServerReady", "ModelReady"):
            self.assertEqual(self.ask(method, {}), [{"true": True}])
        self.assertEqual(self.ask("Check", {"model": ""}), [{"status": 1}])
        self.assertEqual(self.ask("ServerMetadata", {}), [{"name": "megalith", "version": self.server.json("/version")["version"]}])
        over_http = self.server.json(f"/v2/models/{self.server.model}")
        self.assertEqual(self.ask("ModelMetadata", {}), [{"name": self.server.model, "inputs": [one["name"] for one in over_http["inputs"]]}])
        self.assertEqual(self.ask("RepositoryIndex", {"model": ""}), [{self.server.model: "READY"}])

    def test_errors_have_their_codes(self):
        good = asked(self.ids("the cat"), 4)
        wrong = [({**good, "model": "other"}, NOT_FOUND, "other"), ({"inputs": []}, INVALID, "inputs"), ({"inputs": good["inputs"][:1]}, INVALID, "request_output_len"),
                 ({**good, "outputs": ["logits"]}, INVALID, "logits"), (asked([10**6], 4), INVALID, "vocabulary"), (asked(self.ids("the cat"), 4000), INVALID, "context"),
                 ({"inputs": [*good["inputs"], tensor("beam_width", [65])]}, INVALID, "beam_width")]
        for request, code, word in wrong:
            self.assertIn(word, self.ask("ModelInfer", request, code=code))
        answers = self.ask("ModelStreamInfer", *[request for request, _, _ in wrong], good)
        errors = [answer["error"] for answer in answers if "error" in answer]
        self.assertEqual([word in error for error, (_, _, word) in zip(errors, wrong)], [True] * len(wrong))
        self.assertEqual(answers[-1]["outputs"], self.ask("ModelInfer", good)[0]["outputs"])
        self.ask("ModelReady", {"model": "other"}, code=NOT_FOUND)
        self.ask("ModelStatistics", {}, code=UNIMPLEMENTED)

    def test_metrics_count_what_was_done_as_over_http(self):
        names = ["vllm:prompt_tokens_total", "vllm:generation_tokens_total", "megalith:requests_started_total", "megalith:requests_finished_total", "vllm:request_success_total",
                 "vllm:time_to_first_token_seconds_count", "vllm:e2e_request_latency_seconds_count", "vllm:request_prompt_tokens_sum", "vllm:request_generation_tokens_sum", "megalith:requests_bad_total"]
        request = asked(self.ids("the cat"), 7)
        grown = []
        for ask in (lambda: self.ask("ModelInfer", request), lambda: self.ask("ModelStreamInfer", request), lambda: self.server.json(f"/v2/models/{self.server.model}/infer", request)):
            before = self.server.metrics()
            ask()
            after = self.server.metrics()
            grown.append([after[name] - before.get(name, 0) for name in names])
        self.assertEqual(grown[0], grown[2])
        self.assertEqual(grown[1], grown[2])
        self.assertGreater(grown[0][0], 0)


class Adapters(GrpcTest):
    """They come and go over gRPC as over HTTP."""

    @classmethod
    def serve(cls, *options, **more):
        cls.one, cls.two = (write_adapter(cls.folder / f"adapter-{seed}", seed) for seed in (1, 2))
        return super().serve("--adapter", f"one={cls.one}", "--adapter", f"two={cls.two}", *options, **more)

    def states(self):
        over_grpc = self.ask("RepositoryIndex", {"model": ""})[0]
        over_http = {entry["name"]: entry["state"] for entry in self.server.json("/v2/repository/index", {}, method="POST")}
        self.assertEqual(over_grpc, over_http)
        return over_grpc

    def test_they_come_and_go(self):
        ids = self.ids("the cat")
        request = {**asked(ids, 12), "model": "one"}
        with_one = self.generated("the cat", "--max-new-tokens", 12, "--temperature", 0, "--adapter", self.one)
        with_two = self.generated("the cat", "--max-new-tokens", 12, "--temperature", 0, "--adapter", self.two)

        def written(request):
            answer = self.ask("ModelInfer", request)[0]
            return answer["model"], answer["outputs"]["output_log_probs"]["data"]

        def expected(name, alone):
            return name, [single(x) for x in alone["logprobs"]] + [0] * (12 - len(alone["ids"]))
        self.assertEqual(written(request), expected("one", with_one))
        self.assertEqual(self.states(), {"model": "READY", "one": "READY", "two": "READY"})
        for method, answer in (("ModelReady", {"true": True}), ("ModelConfig", {"name": "one"})):
            self.assertEqual(self.ask(method, {"model": "one"}), [answer])
        self.assertEqual(self.ask("ModelMetadata", {"model": "one"})[0]["name"], "one")
        self.assertEqual(self.ask("RepositoryModelUnload", {"model": "one"}), [{}])
        self.assertEqual(self.states(), {"model": "READY", "one": "UNAVAILABLE", "two": "READY"})
        self.assertEqual(self.ask("ModelReady", {"model": "one"}), [{"true": False}])
        self.assertIn("not loaded", self.ask("ModelInfer", request, code=NOT_FOUND))
        self.assertIn("not loaded", self.ask("RepositoryModelUnload", {"model": "one"}, code=INVALID))
        self.assertEqual(written({**request, "model": "two"}), expected("two", with_two))
        write_adapter(self.one, 2)  # other weights under the name
        try:
            self.assertEqual(self.ask("RepositoryModelLoad", {"model": "one"}), [{}])
            self.assertEqual(written(request), expected("one", with_two))
        finally:
            write_adapter(self.one, 1)
        self.ask("RepositoryModelLoad", {"model": "three"}, code=NOT_FOUND)
        self.assertEqual(self.ask("RepositoryModelLoad", {}), [{}])  # the model itself
        self.assertIn("stays", self.ask("RepositoryModelUnload", {}, code=INVALID))


class Limits(GrpcTest):
    """Servers of their own."""
    ONE_BY_ONE = ("--max-batch", 1, "--max-queue", 20)

    def long(self, rows=16, new_tokens=240):
        """Texts that do not end by themselves, one after the other: seconds, even on a fast machine."""
        ids = self.ids("the")
        return {"inputs": [tensor("input_ids", ids * rows, shape=[rows, len(ids)]), tensor("request_output_len", [new_tokens] * rows, shape=[rows, 1]),
                           tensor("end_id", [2**31 - 1] * rows, shape=[rows, 1])]}

    def test_a_full_queue_and_a_client_that_goes(self):
        half = self.long()  # of the places that there are
        with self.serve("--max-batch", 1, "--max-queue", 31) as server:
            calls = []
            for method in ("ModelStreamInfer", "ModelInfer"):
                calls.append(self.call(method, half, server=server))
                server.wait_for(lambda values: values["megalith:requests_started_total"] >= len(calls))
            _, status = self.call("ModelInfer", half, server=server).end()
            for call in calls:
                call.kill()
            self.assertEqual(status["code"], EXHAUSTED)
            self.assertIn("full", status["message"])
            values = server.wait_for(lambda values: values["megalith:requests_running"] + values["megalith:requests_waiting"] == 0 and values["megalith:grpc_calls"] == 0)
            self.assertGreaterEqual(values["megalith:requests_cancelled_total"], 1)
            self.assertEqual(values["megalith:kv_blocks_in_use"], 0)
            self.assertEqual(values["megalith:requests_started_total"], sum(values[f"megalith:requests_{word}_total"] for word in ("finished", "cancelled", "failed", "rejected")))

    def test_a_call_that_is_cancelled_and_one_whose_deadline_is_over(self):
        long = self.long()
        with self.serve(*self.ONE_BY_ONE) as server:
            answers, status = self.call("ModelStreamInfer", long, server=server, most=3).end()
            self.assertEqual((len(answers), status["code"]), (3, CANCELLED))
            self.ask("ModelInfer", {**long, "parameters": {"timeout": 1}}, server=server, code=LATE)
            self.ask("ModelInfer", long, server=server, seconds=0.02, code=LATE)
            values = server.wait_for(lambda values: values["megalith:requests_running"] + values["megalith:requests_waiting"] == 0)
            self.assertLess(values["vllm:generation_tokens_total"], 3 * 16 * 240)
            self.assertEqual(values["megalith:kv_blocks_in_use"], 0)
        with self.serve("--deadline-seconds", 0.001, *self.ONE_BY_ONE) as server:
            self.ask("ModelInfer", long, server=server, code=LATE)

    def test_sigterm_lets_those_that_run_finish(self):
        long = self.long()
        with self.serve("--drain-seconds", 60, *self.ONE_BY_ONE) as server:
            call = self.call("ModelStreamInfer", long, server=server)
            first = call.answer()
            server.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + PATIENCE
            while self.ask("ServerReady", {}, server=server) != [{"true": False}]:
                self.assertLess(time.monotonic(), deadline)
            self.ask("ModelInfer", long, server=server, code=UNAVAILABLE)
            self.assertEqual(self.ask("Check", {"model": ""}, server=server), [{"status": 2}])
            answers, status = call.end()
            self.assertEqual((status["code"], len([first, *answers])), (OK, 16 * 240 + 1))
            server.process.communicate(timeout=PATIENCE)
            self.assertEqual(server.process.returncode, 0)

    def test_sigterm_ends_what_takes_too_long(self):
        with self.serve("--drain-seconds", 0.001, *self.ONE_BY_ONE) as server:
            idle = Call(server.ready["grpc"], "ModelStreamInfer", most=1)
            server.wait_for(lambda values: values["megalith:grpc_calls"] == 1)
            call = self.call("ModelStreamInfer", self.long(), server=server)
            call.answer()
            self.assertEqual(server.end(), 0)
            answers, status = call.end()
            self.assertIn("shutting down", answers[-1]["error"])
            self.assertIn(status["code"], (OK, UNAVAILABLE))
            idle.kill()

    def test_keys(self):
        keys = self.folder / "keys.txt"
        keys.write_text("secret-1\nsecret-2\n")
        request = asked(self.ids("the cat"), 2)
        with self.serve("--api-key-file", keys) as server:
            server.model = self.server.model
            for key, code in (("", UNAUTHENTICATED), ("secret-", UNAUTHENTICATED), ("secret-2", OK)):
                for method in ("ModelInfer", "ModelStreamInfer", "ModelMetadata"):
                    _, status = self.call(method, request, server=server, key=key).end()
                    self.assertEqual(status["code"], code, (method, key))
            for method in ("ServerLive", "ServerReady", "Check"):
                self.ask(method, {"model": ""}, server=server)

    def test_clients_take_turns(self):
        """One that asks for much does not hold up another, over whatever it asks."""
        keys = self.folder / "turns.txt"
        keys.write_text("greedy\nmodest\n")
        request = self.long(rows=8)
        with self.serve("--api-key-file", keys, "--max-batch", 1, "--max-queue", 50) as server:
            many = [self.call("ModelInfer", request, server=server, key="greedy") for _ in range(6)]
            deadline = time.monotonic() + PATIENCE
            headers = {"Authorization": "Bearer modest"}
            while b"requests_started_total{model_name=\"model\",engine=\"0\"} 6" not in server.ask("/metrics", headers=headers)[2]:
                self.assertLess(time.monotonic(), deadline)
            self.ask("ModelInfer", asked(self.ids("the"), 1), server=server, key="modest")
            still = sum(call.process.poll() is None for call in many)
            for call in many:
                self.assertEqual(call.end()[1]["code"], OK)
        self.assertGreaterEqual(still, 3)

    def test_ranks_serve_the_same(self):
        request = asked(self.ids("the cat"), 20)
        expected = self.ask("ModelInfer", request)[0]["outputs"]
        with self.serve("--ranks", 2, "--threads", 2) as server:
            self.assertEqual(self.ask("ModelInfer", request, server=server)[0]["outputs"], expected)
            self.assertEqual(self.ask("ModelStreamInfer", request, server=server)[-1]["outputs"], expected)
            self.assertEqual(server.end(), 0)

    def test_few_descriptors(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        process = subprocess.Popen([PROGRAM, "serve", "--checkpoint", str(self.model), "--port", "0", "--grpc-port", "0", "--json", "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=limit)
        try:
            address = json.loads(process.stdout.readline())["grpc"]
            host, _, port = address.rpartition(":")
            held = [socket.create_connection((host, int(port))) for _ in range(100)]
            for connection in held:
                connection.close()
            time.sleep(0.5)
            self.assertEqual(Call(address, "ServerLive", {}).end(), ([{"true": True}], {"code": OK, "message": ""}))
        finally:
            process.kill()
            process.communicate()

    def test_ports(self):
        host, _, port = self.server.ready["grpc"].rpartition(":")
        self.assertEqual(host, "127.0.0.1")
        taken = ended([PROGRAM, "serve", "--checkpoint", str(self.model), "--port", "0", "--grpc-port", port])
        self.assertEqual(taken.returncode, 1)
        self.assertIn("--grpc-port", taken.stderr)
        self.assertEqual(taken.stderr.count("\n"), 1, taken.stderr)
        with Server(self.model, "--grpc-port", "off") as server:
            self.assertIsNone(server.ready["grpc"])
            self.assertEqual(server.end(), 0)

    def test_a_default_port_that_is_taken_is_a_warning(self):
        with tempfile.TemporaryFile("w+") as log, socket.socket() as other:
            try:
                other.bind(("127.0.0.1", 8001))
                other.listen()
            except OSError:
                pass  # somebody else has it, which is as good
            with Server(self.model, log=log) as server:
                self.assertIsNone(server.ready["grpc"])
                self.assertEqual(server.json("/version")["version"], self.server.json("/version")["version"])
                self.assertEqual(server.end(), 0)
            log.seek(0)
            self.assertIn("no gRPC: cannot listen on 127.0.0.1:8001", log.read())

    def test_without_the_plugin(self):
        """HTTP alone, unless gRPC was asked for."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "megalith"
            shutil.copy(PROGRAM, program)
            asked_for = ended([program, "serve", "--checkpoint", str(self.model), "--port", "0", "--grpc-port", "0"])
            self.assertEqual(asked_for.returncode, 1)
            for word in ("--grpc-port", "libmegalith_grpc.so", "libgrpc++-dev"):
                self.assertIn(word, asked_for.stderr)
            self.assertEqual(asked_for.stderr.count("\n"), 1, asked_for.stderr)
            process = subprocess.Popen([program, "serve", "--checkpoint", str(self.model), "--port", "0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertIsNone(json.loads(process.stdout.readline())["grpc"])
            process.terminate()
            _, said = process.communicate(timeout=PATIENCE)
            self.assertEqual((process.returncode, "gRPC" in said), (0, False), said)
            missing = json.loads(ended([program, "doctor", "--json"]).stdout)["missing"]
            self.assertTrue(any("libgrpc++-dev" in one for one in missing), missing)
        self.assertFalse(any("grpc" in one for one in run_json("doctor")["missing"]))


if __name__ == "__main__":
    unittest.main()
