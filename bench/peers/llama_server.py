# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's server (xllamacpp) on a free port: prints its address when it is ready, ends with its standard input."""
import argparse
import json
import sys

import xllamacpp


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--model", required=True)
    p.add_argument("--at-once", type=int, required=True)
    p.add_argument("--context", type=int, required=True, help="of each request")
    p.add_argument("--threads", type=int, required=True)
    a = p.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = a.model
    params.n_parallel, params.n_ctx = a.at_once, a.at_once * a.context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = a.threads
    params.n_batch, params.n_ubatch, params.cont_batching = 2048, 512, True
    server = xllamacpp.Server(params)
    print(json.dumps({"http": server.listening_address}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
