#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensor-core arithmetic of the card at hand, saved as bits: tiles through wgmma and mma.sync, torch's products, conversions.

    nvcc -O2 -std=c++17 -gencode=arch=compute_90a,code=sm_90a -shared -Xcompiler -fPIC -o libtiles.so tensor_core_tiles.cu
    tensor_cores.py FOLDER      writes numerics.npz and numerics.json; libtiles.so lies beside this file
    tensor_cores.py --golden numerics.npz    writes tests/golden/narrow/tensor_core.safetensors from it
"""
import ctypes
import json
import os
import pathlib
import re
import sys
import time

import numpy as np
import torch

from cases import codes, tiles, DISTRIBUTIONS

KINDS = [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e5m2", "e5m2"), ("bf16", "bf16"), ("f16", "f16"), ("tf32", "tf32")]
SIZE = {"e4m3": 1, "e5m2": 1, "bf16": 2, "f16": 2, "tf32": 4}
TORCH = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "bf16": torch.bfloat16, "f16": torch.float16}

def on_card(lib, kind, wg, A, B, C, swap=0):
    count, _, K = A.shape
    size = A.dtype.itemsize
    a, b = (torch.from_numpy(v.reshape(-1).view(np.uint8).copy()).cuda() for v in (A, B))
    c = torch.from_numpy(C.reshape(-1).copy()).cuda()
    d = torch.full_like(c, float("nan"))
    torch.cuda.synchronize()
    p = lambda t: ctypes.c_void_p(t.data_ptr())
    rc = lib.run_tiles(kind, wg, p(a), p(b), p(c), p(d), count, K * size, swap)
    assert rc == 0, f"run_tiles: CUDA error {rc}"
    return d.cpu().numpy().reshape(C.shape)

def one_code(fmt, e):
    """The code of 2^e (normal or subnormal), e4m3/e5m2/bf16/f16/tf32."""
    E, M, bias = {"e4m3": (4, 3, 7), "e5m2": (5, 2, 15), "bf16": (8, 7, 127), "f16": (5, 10, 15), "tf32": (8, 10, 127)}[fmt]
    if e + bias >= 1: code = (e + bias) << M
    else: code = 1 << (M + e + bias - 1)
    return code << 13 if fmt == "tf32" else code

def dtype_of(fmt): return {1: np.uint8, 2: np.uint16, 4: np.uint32}[SIZE[fmt]]

def sign_of(fmt): return {"e4m3": 0x80, "e5m2": 0x80, "bf16": 0x8000, "f16": 0x8000, "tf32": 0x80000000}[fmt]

def probes(fmt):
    """Rows of A (times ones) and accumulators that show one property each; K of two instructions of 32 bytes."""
    K = 64 // SIZE[fmt]
    out = []  # name, {position: (sign, exponent)}, c
    hi = 8 if fmt == "e4m3" else 10
    low = {"e4m3": -9, "e5m2": -16, "bf16": -60, "f16": -24, "tf32": -60}[fmt]
    for j in range(0, 34):
        if hi - j >= low:
            out.append((f"cancel_same j={j}", {0: (0, hi), 1: (1, hi), 2: (0, hi - j)}, 0.0))
            out.append((f"small_first j={j}", {0: (0, hi - j), 1: (0, hi), 2: (1, hi)}, 0.0))
            out.append((f"add_to_c j={j}", {0: (0, hi - j)}, float(2.0 ** hi)))
            out.append((f"sub_from_c j={j}", {0: (1, hi - j)}, float(2.0 ** hi)))
            out.append((f"c_cancels j={j}", {0: (0, hi - j), 1: (1, hi)}, float(2.0 ** hi)))
            out.append((f"minus_c j={j}", {0: (1, hi - j)}, -float(2.0 ** hi)))
            out.append((f"two_small j={j}", {0: (0, hi), 1: (0, hi - j), 2: (0, hi - j)}, 0.0))
            out.append((f"small_c j={j}", {0: (0, hi), 1: (1, hi)}, float(2.0 ** (hi - j))))
            out.append((f"odd_c j={j}", {0: (0, hi)}, float(2.0 ** (hi - j) * 1.99999988079071044921875)))
    for p in range(K):  # which positions share one sum: +big at 0, small at 1 step below what survives, -big at p
        for j in (8, 11, 12, 13, 14, 15, 16, 17) if fmt in ("e4m3", "e5m2") else (22, 23, 24, 25, 26, 27, 28):
            if hi - j < low: continue
            if p > 1: out.append((f"pair p={p} j={j}", {0: (0, hi), 1: (0, hi - j), p: (1, hi)}, 0.0))
            if 0 < p < K - 1: out.append((f"tail p={p} j={j}", {0: (0, hi), p: (1, hi), K - 1: (0, hi - j)}, 0.0))
    while len(out) % 64: out.append(("pad", {}, 0.0))
    A = np.zeros((len(out) // 64, 64, K), dtype_of(fmt))
    C = np.zeros((len(out) // 64, 64, 8), np.float32)
    for i, (_, row, c) in enumerate(out):
        for p, (s, e) in row.items(): A[i // 64, i % 64, p] = one_code(fmt, e) | (sign_of(fmt) if s else 0)
        C[i // 64, i % 64, :] = c
    B = np.full((len(out) // 64, 8, K), one_code(fmt, 0), dtype_of(fmt))
    return [o[0] for o in out], A, B, C

def main(out):
    t0 = time.time()
    here = os.path.dirname(os.path.abspath(__file__))
    lib = ctypes.CDLL(os.path.join(here, "libtiles.so"))
    save, notes = {}, {}
    # The operands' places in shared memory: small integers must come out exactly.
    rng = np.random.default_rng(1)
    Ai, Bi = rng.integers(-3, 4, (2, 64, 64)), rng.integers(-3, 4, (2, 8, 64))
    swap = None
    exact = np.einsum("tmk,tnk->tmn", Ai, Bi).astype(np.float32)
    as8 = lambda v: torch.from_numpy(v.astype(np.float32)).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    for s in (0, 1):
        got = on_card(lib, 0, 1, as8(Ai), as8(Bi), np.zeros((2, 64, 8), np.float32), s)
        if np.array_equal(got, exact): swap = s; break
    notes["mma_exact_integers"] = bool(np.array_equal(on_card(lib, 0, 0, as8(Ai), as8(Bi), np.zeros((2, 64, 8), np.float32)), exact))
    notes["wgmma_swap"] = swap
    print("swap", swap, notes, flush=True)
    for kind, (fa, fb) in enumerate(KINDS):
        for wg in ((1, 0) if swap is not None else (0,)):
            name = f"{fa}.{fb}.{'wgmma' if wg else 'mma'}"
            try:
                step = 32 // SIZE[fa]
                for dist in range(DISTRIBUTIONS):
                    for tag, count, K in (("one", 2, step), ("chain", 2, 16 * step)):
                        A, B, C = tiles(fa, fb, dist, 1000 * kind + 10 * dist + (tag == "chain"), count, K)
                        save[f"{name}.{tag}.{dist}"] = on_card(lib, kind, wg, A, B, C, swap or 0).view(np.uint32)
                if fa == fb:
                    names, A, B, C = probes(fa)
                    save[f"{name}.probes"] = on_card(lib, kind, wg, A, B, C, swap or 0)[:, :, 0].reshape(-1)
            except Exception as e:
                notes[f"{name}"] = repr(e)
    print("tiles", time.time() - t0, flush=True)
    np.savez_compressed(os.path.join(out, "numerics.npz"), **save)
    # torch's own products: 8-bit with and without fast accumulation, 16-bit, f32 results, and the kernels they ran
    from torch.profiler import profile, ProfilerActivity
    one = torch.ones((), device="cuda")
    def kernel_name(f):
        try:
            with profile(activities=[ProfilerActivity.CUDA]) as p:
                f(); torch.cuda.synchronize()
            return [e.key for e in p.key_averages()]
        except Exception as e: return repr(e)
    def operand(fmt, dist, seed, rows, K):
        c = codes(fmt, dist, seed, rows * K).reshape(rows, K)
        t = torch.from_numpy(c.view(np.int16) if c.dtype == np.uint16 else c.view(np.uint8)).cuda()
        return t.view(TORCH[fmt])
    seed = 100000
    for fa, fb in KINDS[:3] + KINDS[4:6]:
        for dist in (1, 2, 0):
            for rows, K in ((64, 32), (64, 64), (64, 128), (64, 192), (64, 256), (64, 512), (64, 1024), (64, 4096), (256, 512), (1024, 512), (1024, 2048), (2048, 256)):
                if rows >= 1024 and dist == 0: continue
                seed += 2
                a, b = operand(fa, dist, seed, rows, K), operand(fb, dist, seed + 1, rows, K)
                take = slice(None, None, rows // 64)
                for fast in ((1, 0) if SIZE[fa] == 1 else (0,)):
                    name = f"torch.{fa}.{fb}.dist{dist}.rows{rows}.K{K}.fast{fast}.seed{seed}"
                    try:
                        if SIZE[fa] == 1: f = lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=bool(fast))
                        else: f = lambda: torch.mm(a, b.t(), out_dtype=torch.float32)
                        r = f()
                        save[name] = r[take, take].contiguous().cpu().numpy().view(np.uint32)
                        if dist == 1 and (rows, K) in ((64, 128), (64, 4096), (1024, 2048)): notes[name] = kernel_name(f)
                        if dist == 1 and rows == 64 and K == 128 and SIZE[fa] == 1:
                            sa, sb = torch.tensor(0.3, device="cuda"), torch.tensor(0.7, device="cuda")
                            save[name + ".scaled"] = torch._scaled_mm(a, b.t(), scale_a=sa, scale_b=sb, out_dtype=torch.float32, use_fast_accum=bool(fast)).cpu().numpy().view(np.uint32)
                            save[name + ".bf16"] = torch._scaled_mm(a, b.t(), scale_a=sa, scale_b=sb, out_dtype=torch.bfloat16, use_fast_accum=bool(fast)).view(torch.int16).cpu().numpy()
                    except Exception as e:
                        notes[name] = repr(e)[:300]
    print("torch", time.time() - t0, flush=True)
    np.savez_compressed(os.path.join(out, "numerics.npz"), **save)
    # The hardware's conversions over all f32 against torch's: differences counted, first few kept.
    try:
        n = 1 << 26
        got = [torch.empty(n, dtype=torch.uint8, device="cuda") for _ in range(4)]
        diff = {k: [0, []] for k in ("e4m3_saturating_finite", "e4m3_saturating_inf", "e4m3", "e5m2_saturating_finite", "e5m2_saturating_inf", "e5m2", "e4m3_nan", "e5m2_nan")}
        for first in range(0, 1 << 32, n):
            assert lib.run_convert(ctypes.c_uint32(first), ctypes.c_uint32(n), *[ctypes.c_void_p(g.data_ptr()) for g in got]) == 0
            low = torch.arange(n, device="cuda", dtype=torch.int64) + first
            x = torch.where(low >= 1 << 31, low - (1 << 32), low).to(torch.int32).view(torch.float32)
            nan = x.isnan(); inf = x.isinf()
            for name, sat, plain, t, top in (("e4m3", got[0], got[1], torch.float8_e4m3fn, 448.0), ("e5m2", got[2], got[3], torch.float8_e5m2, 57344.0)):
                tq = x.to(t).view(torch.uint8)
                tc = x.clamp(-top, top).to(t).view(torch.uint8)
                for key, bad in ((name, (tq != plain) & ~nan), (name + "_saturating_finite", (tc != sat) & ~nan & ~inf), (name + "_saturating_inf", (tc != sat) & inf), (name + "_nan", ((tq != plain) | (tq != sat)) & nan)):
                    k = int(bad.sum())
                    diff[key][0] += k
                    if k and len(diff[key][1]) < 6:
                        i = int(bad.nonzero()[0]); diff[key][1].append([hex(first + i), int(sat[i]), int(plain[i]), int(tq[i]), int(tc[i])])
        notes["conversions"] = diff
    except Exception as e: notes["conversions"] = repr(e)
    print("conversions", time.time() - t0, flush=True)
    json.dump(notes, open(os.path.join(out, "numerics.json"), "w"), indent=1)

def write_golden(path):
    """64 sums of each case, and the diagonals of some of torch's products, whose rows tests/golden/tensor_core_test.cpp lists."""
    import safetensors.numpy
    got, kept, row = np.load(path), {}, np.arange(64)
    for fa, fb in KINDS:
        for dist in range(DISTRIBUTIONS):
            for tag in ("one", "chain"):
                kept[f"{fa}.{fb}.{tag}.{dist}"] = got[f"{fa}.{fb}.wgmma.{tag}.{dist}"][0][row, row % 8].view(np.float32)
    for name in got.files:
        found = re.match(r"torch\.(\w+)\.(\w+)\.dist1\.rows64\.K(192|1024|4096)\.fast(\d)\.seed(\d+)$", name)
        if not found or (SIZE[found[1]] == 2 and found[3] == "4096"):  # that one was split along its sum
            continue
        fast = found[4] == "1" or SIZE[found[1]] == 2
        kept[f"cublas.{found[1]}.{found[2]}.{found[3]}.{'fast' if fast else 'exact'}"] = got[name][row, row].view(np.float32)
    for name in got.files:  # times the scales 0.3 and 0.7, and rounded to bf16
        found = re.match(r"torch\.(\w+)\.(\w+)\.dist1\.rows64\.K128\.fast(\d)\.seed(\d+)\.(scaled|bf16)$", name)
        if found:
            bits = got[name][:16].view(np.uint16).astype(np.uint32) << 16 if found[5] == "bf16" else got[name][:16]
            kept[f"cublas.{found[1]}.{found[2]}.128.{'fast' if found[3] == '1' else 'exact'}.{found[5]}"] = bits.view(np.float32)
    golden = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/narrow/tensor_core.safetensors"
    golden.write_bytes(safetensors.numpy.save({k: np.ascontiguousarray(v) for k, v in kept.items()}, metadata={
        "cards": "NVIDIA H100 80GB HBM3, NVIDIA H200", "made_by": "bench/gpu/tensor_cores.py"}))


if __name__ == "__main__":
    write_golden(sys.argv[2]) if sys.argv[1] == "--golden" else main(sys.argv[1])
