# SPDX-License-Identifier: Apache-2.0
"""A served model for tests: starts `megalith serve`, asks it, ends it."""
import contextlib
import http.client
import json
import signal
import socket
import subprocess
import time

from program import PATIENCE, PROGRAM


class Server:
    def __init__(self, checkpoint, *options, log=subprocess.DEVNULL):
        command = [PROGRAM, "serve", "--checkpoint", str(checkpoint), "--port", "0", "--json", *map(str, options)]
        if "--threads" not in command:
            command += ["--threads", "1"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.ready = json.loads(self.process.stdout.readline() or "null")
        if self.ready:
            host, _, port = self.ready["http"].rpartition(":")
            self.host, self.port, self.model = host, int(port), self.ready["models"][0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def end(self, signal_number=signal.SIGTERM):
        """The exit code."""
        self.process.send_signal(signal_number)
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode

    def connection(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)

    def ask(self, path, body=None, headers=None, method=None):
        """(status, headers, body)"""
        with contextlib.closing(self.connection()) as connection:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method or ("GET" if body is None else "POST"), path, data, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def json(self, path, body=None, status=200, **options):
        got, _, content = self.ask(path, body, **options)
        assert got == status, (path, got, content[:2000])
        return json.loads(content)

    def complete(self, prompt, **fields):
        return self.json("/v1/completions", {"model": self.model, "prompt": prompt, "max_tokens": 8, "temperature": 0, **fields})

    @contextlib.contextmanager
    def open_stream(self, **fields):
        """The response of a streamed completion, while it comes."""
        with contextlib.closing(self.connection()) as connection:
            body = {"model": self.model, "max_tokens": 8, "temperature": 0, "stream": True, **fields}
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            yield connection.getresponse()

    def stream(self, path, body):
        """All events."""
        status, headers, content = self.ask(path, body)
        assert status == 200, content
        assert headers["Content-Type"].startswith("text/event-stream"), headers
        events = content.decode().split("\n\n")
        assert events.pop() == "" and all(event.startswith("data: ") for event in events), content
        return [event[6:] if event == "data: [DONE]" else json.loads(event[6:]) for event in events]

    def raw(self, data, timeout=PATIENCE):
        """What the server says to these bytes until it closes; the status of the first answer (0: none)."""
        with socket.create_connection((self.host, self.port), timeout=timeout) as connection:
            connection.sendall(data)
            said = b""
            while piece := connection.recv(65536):
                said += piece
        return int(said.split(b" ")[1]) if said else 0

    def metrics(self):
        """By name, labels left out; of several the sum."""
        values = {}
        for line in self.ask("/metrics")[2].decode().splitlines():
            if not line.startswith("#"):
                name, value = line.split("{")[0], float(line.rsplit(" ", 1)[1])
                values[name] = values.get(name, 0) + value
        return values

    def wait_for(self, condition):
        """Until the metrics fulfil it."""
        deadline = time.monotonic() + PATIENCE
        while not condition(values := self.metrics()):
            assert time.monotonic() < deadline, values
            time.sleep(0.01)
        return values
