# SPDX-License-Identifier: Apache-2.0
"""Vectors of sentences by sentence-transformers, ONNX Runtime or OpenVINO, from texts on: tokens, model, mean of the rows, length
1. Prints one JSON line per sample: {"name", "value", "unit"} in texts/s.

Sentences go through a model in the order of their lengths, so that little is padded, in batches of `--batch`. The graph of ONNX
Runtime and OpenVINO is what torch.onnx exports; ONNX Runtime's has its attention and layer norms fused by the optimizer that
comes with it. Every rival's vectors are compared with those of transformers first."""
import argparse
import json
import pathlib
import time
import warnings

import numpy
import torch
import transformers
from tokenizers import Tokenizer


class Whole(torch.nn.Module):
    def __init__(self, folder, attention="sdpa"):
        super().__init__()
        self.model = transformers.AutoModel.from_pretrained(folder, attn_implementation=attention).eval()

    def forward(self, input_ids, attention_mask, token_type_ids):
        rows = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(rows.dtype)
        return torch.nn.functional.normalize((rows * weight).sum(1) / weight.sum(1), dim=-1)


INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def exported(a, attention):
    path, ids = a.graphs / f"{attention}.onnx", torch.randint(1, 1000, (2, 9))
    if path.exists():
        return path
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Whole(a.model, attention), (ids, torch.ones_like(ids), torch.zeros_like(ids)), str(path),
                          input_names=list(INPUTS), output_names=["embedding"], opset_version=17, dynamo=False,
                          dynamic_axes={name: {0: "batch", 1: "length"} for name in INPUTS})
    return path


def by_tokens(a, run):
    """Vectors of texts by `run`, which takes the three inputs of a padded batch."""
    tokenizer = Tokenizer.from_file(str(a.model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(512)

    def vectors(texts):
        ids = [e.ids for e in tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        out = None
        for begin in range(0, len(order), a.batch):
            rows = order[begin:begin + a.batch]
            padded, mask = (numpy.zeros((len(rows), len(ids[rows[0]])), dtype=numpy.int64) for _ in range(2))
            for row, i in enumerate(rows):
                padded[row, :len(ids[i])] = ids[i]
                mask[row, :len(ids[i])] = 1
            found = run(padded, mask, numpy.zeros_like(padded))
            out = numpy.empty((len(ids), found.shape[1]), dtype=numpy.float32) if out is None else out
            out[rows] = found
        return out
    return vectors


def sentence_transformers(a):
    from sentence_transformers import SentenceTransformer
    dtype = torch.bfloat16 if a.dtype == "bf16" else torch.float32
    model = SentenceTransformer(str(a.model), device="cpu", model_kwargs={"dtype": dtype, "attn_implementation": "sdpa"})
    model.max_seq_length = 512
    return lambda texts: model.encode(texts, batch_size=a.batch, normalize_embeddings=True, show_progress_bar=False)


def onnxruntime(a):
    import onnxruntime as ort
    from onnxruntime.transformers import optimizer
    if a.dtype != "f32":
        raise SystemExit("ONNX Runtime computes in f32 on a CPU")
    config = json.loads((a.model / "config.json").read_text())
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    fused = optimizer.optimize_model(str(exported(a, "eager")), "bert", heads, hidden, opt_level=0)
    if fused.get_fused_operator_statistics()["Attention"] != config["num_hidden_layers"]:
        raise SystemExit("ONNX Runtime's optimizer found no attention to fuse")
    fused.save_model_to_file(str(a.graphs / "fused.onnx"))
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = a.threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(str(a.graphs / "fused.onnx"), options, providers=["CPUExecutionProvider"])
    return by_tokens(a, lambda *inputs: session.run(None, dict(zip(INPUTS, inputs)))[0])


def openvino(a):
    import openvino as ov
    settings = {"INFERENCE_PRECISION_HINT": a.dtype, "INFERENCE_NUM_THREADS": a.threads, "NUM_STREAMS": 1,
                "PERFORMANCE_HINT": "LATENCY"}
    model = ov.Core().compile_model(ov.Core().read_model(str(exported(a, "sdpa"))), "CPU", settings)
    return by_tokens(a, lambda *inputs: model(list(inputs))[0])


PEERS = {f.__name__: f for f in (sentence_transformers, onnxruntime, openvino)}


def check(a, vectors, texts):
    """That it is the same work."""
    whole, tokenizer = Whole(a.model), Tokenizer.from_file(str(a.model / "tokenizer.json"))
    tokenizer.no_padding()
    for text, vector in zip(texts, vectors(texts)):
        ids = torch.tensor([tokenizer.encode(text).ids])
        with torch.no_grad():
            wanted = whole(ids, torch.ones_like(ids), torch.zeros_like(ids))[0]
        if float(wanted @ torch.as_tensor(vector).float()) < (0.9999 if a.dtype == "f32" else 0.99):
            raise SystemExit(f"another vector of {text!r}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("peer", choices=PEERS)
    p.add_argument("--model", type=pathlib.Path, required=True, help="a Hugging Face folder")
    p.add_argument("--input", type=pathlib.Path, required=True, help="JSON lines of {\"text\"}")
    p.add_argument("--graphs", type=pathlib.Path, required=True, help="a folder for exported graphs, which are taken from there again")
    p.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--samples", type=int, default=5)
    p.add_argument("--threads", type=int, required=True)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    texts = [json.loads(line)["text"] for line in a.input.read_text().splitlines()]
    vectors = PEERS[a.peer](a)
    check(a, vectors, texts[:20])
    vectors(texts)
    for _ in range(a.samples):
        begin = time.monotonic()
        vectors(texts)
        print(json.dumps({"name": f"{a.peer}.{a.dtype}.batch_{a.batch}", "value": len(texts) / (time.monotonic() - begin),
                          "unit": "texts/s"}), flush=True)


if __name__ == "__main__":
    main()
