#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rates.json of rates.py as a table of medians: recipes/clusters/measured/NAME.yaml.

    table.py rates.json NAME DATE
"""
import collections
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "recipes/clusters/measured"
WIDTH = 126


def flow(rows, indent):
    """Rows as YAML lists, as many a line as fit."""
    lines, line = [], ""
    for row in rows:
        text = "[" + ", ".join(f"{v:g}" if isinstance(v, float) else str(v).lower() if isinstance(v, bool) else str(v)
                               for v in row) + "]"
        if line and len(indent) + len(line) + len(text) + 2 > WIDTH:
            lines.append(indent + line + ",")
            line = ""
        line += (", " if line else "") + text
    return "[\n" + "\n".join(lines + [indent + line]) + "]"


def short(microseconds):
    return float(f"{microseconds:.4g}")


def main():
    source, name, date = sys.argv[1:]
    r = json.loads(pathlib.Path(source).read_text())
    software, card = r["software"], r["card"]
    out = ["# SPDX-License-Identifier: Apache-2.0",
           f"# {card['name']}, measured {date} by bench/gpu/rates.py: medians in microseconds. How, and what moves them:",
           "# bench/results/h100_2026-11-26.md.",
           f"device: {{name: {card['name']}, memory: {software['memory']}, multiprocessors: {software['multiprocessors']}, "
           f"l2: {software['l2']}, power_watts: {card['power_limit_w']:g}, driver: {card['driver']}, torch: {software['torch']}, "
           f"cuda: '{software['cuda']}', cudnn: {software['cudnn']}}}",
           "# y[T, N] = x[T, K] w[N, K]^T (forward), dx[T, K] = dy[T, N] w[N, K] (dgrad), dw[N, K] = dy[T, N]^T x[T, K] (wgrad):",
           "# [T, N, K, microseconds]. e4m3: one scale a tensor, bf16 results, fast accumulation; e4m3_exact: without it.",
           "products:"]
    kinds = collections.defaultdict(list)
    for dtype, kind, T, N, K, median, *_ in r["products"]:
        kinds[dtype, kind].append([T, N, K, short(median)])
    for (dtype, kind), rows in kinds.items():
        out.append(f"  {dtype}_{kind}: {flow(rows, '    ')}")
    out.append("# bf16: [batch, sequence, heads, head size, forward, backward]")
    out.append("attention:")
    kinds = collections.defaultdict(list)
    for backend, causal, B, S, heads, D, f, _, _, b, *_ in r["attention"]:
        kinds[f"{backend}_{'causal' if causal else 'full'}"].append([B, S, heads, D, short(f), short(b)])
    out += [f"  {kind}: {flow(rows, '    ')}" for kind, rows in kinds.items()]
    out.append("# [elements or bytes by dimension, bytes moved at least, microseconds]; bf16 but where the name says else")
    out.append("memory:")
    kinds = collections.defaultdict(list)
    for op, shape, moved, median, *_ in r["memory"]:
        kinds[op].append([*shape, moved, short(median)])
    out += [f"  {op}: {flow(rows, '    ')}" for op, rows in kinds.items()]
    out.append("latency: {" + ", ".join(f"{k}: {short(v[0]):g}" for k, v in r["latency_us"].items()) + "}")
    out.append("# [bytes, microseconds]")
    out.append("host_copies:")
    kinds = collections.defaultdict(list)
    for way, memory, n, median, *_ in r["host_copies"]:
        kinds[f"{way}_{memory}"].append([n, short(median)])
    out += [f"  {kind}: {flow(rows, '    ')}" for kind, rows in kinds.items()]
    out.append("# One GPT layer of a rank of t, in bf16, all-reduces left out: [hidden, heads, sequence, batch, t, forward, forward and")
    out.append("# backward, bytes of parameters, bytes kept for backward, peak bytes beside parameters]")
    out.append("layers:")
    kinds = collections.defaultdict(list)
    for how, h, a, S, B, t, f, _, _, fb, _, _, weights, kept, peak, _ in r["layers"]:
        kinds[how].append([h, a, S, B, t, short(f), short(fb), weights, kept, peak])
    out += [f"  {how}: {flow(rows, '    ')}" for how, rows in kinds.items()]
    out.append("# Products of 8192 cubed (copies of 1 GiB) for seconds on end: microseconds each in the last second.")
    out.append("sustained: {" + ", ".join(f"{k}: {short(sorted(v[-5:])[2]):g}" for k, _, v in r["sustained"]) + "}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.yaml").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
