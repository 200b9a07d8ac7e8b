#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rates of the card at hand for a cost model of transformer layers: products, attention, memory, launches, copies, layers.

    rates.py FOLDER      writes rates.json (times in microseconds: median, least, most); libtiles.so lies beside this file
Without a GPU it runs every part on tiny sizes, to check itself. RATES_SECONDS (230): parts that would end later are left
out and said so.
"""
import ctypes
import json
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend

from card import DEV, R, SMALL, START, WATCH, left, measure, save, stage, sync, us

H = (1024, 2048, 4096, 6144, 8192, 12288, 16384)
TOKENS = (512, 1024, 2048, 4096, 8192, 16384)
def shapes(hs=H, tokens=TOKENS, tps=(1, 2, 4, 8)):
    seen = {}
    for h in hs:
        for T in tokens:
            for t in tps:
                for N, K in ((3 * h // t, h), (h, h // t), (4 * h // t, h), (h, 4 * h // t)): seen[(T, N, K)] = 1
    return list(seen)

ELEMENTS = 1 << (22 if SMALL else 30)
def pool(dtype):
    x = torch.empty(ELEMENTS, dtype=torch.bfloat16 if dtype != torch.float32 else dtype, device=DEV)
    for i in range(0, ELEMENTS, 1 << 26): x[i:i + (1 << 26)].normal_()
    return x if dtype in (torch.bfloat16, torch.float32) else x.to(dtype)

def window(flat, rows, cols, i):
    """A matrix of random numbers at a place that moves with i, so that no repetition finds its operands in the cache."""
    n = rows * cols
    assert n <= flat.numel(), (rows, cols)
    places = max(1, min(64, (flat.numel() - n) // max(n, 1 << 20) + 1))
    return flat.narrow(0, (i % places) * ((flat.numel() - n) // places // 256 * 256), n).view(rows, cols)

def products(name, dtype, todo, kind="forward", fast=True):
    rows = R.setdefault("products", [])
    flat = pool(dtype)
    one = torch.ones((), device=DEV)
    for T, N, K in todo:
        if left() < 20: R["errors"][f"products {name} {kind}"] = "out of time"; break
        try:
            if dtype == torch.float8_e4m3fn:
                f = lambda i: torch._scaled_mm(window(flat, T, K, i), window(flat, N, K, i + 7).t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast)
            else:
                od = dtype
                if kind == "forward":    # y[T,N] = x[T,K] w[N,K]^T
                    o = torch.empty(T, N, dtype=od, device=DEV); f = lambda i: torch.mm(window(flat, T, K, i), window(flat, N, K, i + 7).t(), out=o)
                elif kind == "dgrad":    # dx[T,K] = dy[T,N] w[N,K]
                    o = torch.empty(T, K, dtype=od, device=DEV); f = lambda i: torch.mm(window(flat, T, N, i), window(flat, N, K, i + 7), out=o)
                else:                    # dw[N,K] = dy[T,N]^T x[T,K]
                    o = torch.empty(N, K, dtype=od, device=DEV); f = lambda i: torch.mm(window(flat, T, N, i).t(), window(flat, T, K, i + 7), out=o)
            rows.append([name, kind, T, N, K, *us(measure(f))])
        except Exception as e: R["errors"][f"{name} {kind} {T} {N} {K}"] = repr(e)[:200]
    del flat
    if not SMALL: torch.cuda.empty_cache()

def memory():
    rows = R.setdefault("memory", [])
    def add(op, shape, moved, f):
        try: rows.append([op, shape, moved, *us(measure(f))])
        except Exception as e: R["errors"][f"{op} {shape}"] = repr(e)[:200]
    for mib in ((1,) if SMALL else (1, 4, 16, 64, 256, 1024, 4096)):
        n = mib << 20
        sets = max(1, min(16, 512 // mib))
        xs = [torch.randint(0, 255, (n,), dtype=torch.uint8, device=DEV) for _ in range(sets)]
        ys = [torch.empty_like(x) for x in xs]
        add("copy", [n], 2 * n, lambda i: ys[i % sets].copy_(xs[i % sets]))
        zs = [x.view(torch.int32).bitwise_and(0x3FFFFFFF).view(torch.float32) for x in xs]
        add("sum_f32", [n // 4], n, lambda i: torch.sum(zs[i % sets]))
        add("zero", [n], n, lambda i: ys[i % sets].zero_())
        del xs, ys, zs
    for T, h in (((64, 64),) if SMALL else ((2048, 1024), (4096, 4096), (8192, 8192), (16384, 12288))):
        n = T * h
        sets = max(1, min(8, (1 << 28) // n))
        bf = dict(dtype=torch.bfloat16, device=DEV)
        xs = [torch.randn(T, h, **bf, requires_grad=True) for _ in range(sets)]
        w, b = torch.ones(h, **bf, requires_grad=True), torch.zeros(h, **bf, requires_grad=True)
        dy = torch.randn(T, h, **bf)
        x = lambda i: xs[i % sets].detach()
        add("layer_norm", [T, h], 4 * n, lambda i: F.layer_norm(x(i), (h,), w.detach(), b.detach()))
        y = [F.layer_norm(v, (h,), w, b) for v in xs]
        add("layer_norm_backward", [T, h], 6 * n, lambda i: torch.autograd.grad(y[i % sets], (xs[i % sets], w, b), dy, retain_graph=True))
        add("rms_norm", [T, h], 4 * n, lambda i: F.rms_norm(x(i), (h,), w.detach()))
        add("gelu", [T, h], 4 * n, lambda i: F.gelu(x(i), approximate="tanh"))
        y = [F.gelu(v, approximate="tanh") for v in xs]
        add("gelu_backward", [T, h], 6 * n, lambda i: torch.autograd.grad(y[i % sets], xs[i % sets], dy, retain_graph=True))
        add("dropout", [T, h], 5 * n, lambda i: torch.native_dropout(x(i), 0.1, True))
        add("add", [T, h], 6 * n, lambda i: x(i) + dy)
        add("bias", [T, h], 4 * n, lambda i: x(i) + b.detach())
        add("bias_gradient", [T, h], 2 * n, lambda i: x(i).sum(0))
        add("to_f32", [T, h], 6 * n, lambda i: x(i).float())
        add("to_e4m3", [T, h], 3 * n, lambda i: x(i).to(torch.float8_e4m3fn))
        add("amax", [T, h], 2 * n, lambda i: torch.linalg.vector_norm(x(i), float("inf")))
        add("transpose_bf16", [T, h], 4 * n, lambda i: x(i).t().contiguous())
        e4 = [x(i).to(torch.float8_e4m3fn).view(torch.uint8) for i in range(sets)]
        add("transpose_e4m3", [T, h], 2 * n, lambda i: e4[i % sets].t().contiguous())
        del xs, y, dy, e4
    for n in ((1 << 12,) if SMALL else (1 << 20, 1 << 24, 1 << 27, 1 << 29)):
        p = torch.nn.Parameter(torch.randn(n, device=DEV)); p.grad = torch.randn(n, device=DEV)
        opt = torch.optim.AdamW([p], lr=1e-4, fused=True)
        add("adamw_f32", [n], 28 * n, lambda i: opt.step())
        del p, opt
    V = 64 if SMALL else 50304
    for T in ((64,) if SMALL else (2048, 8192)):
        z = torch.randn(T, V, dtype=torch.bfloat16, device=DEV, requires_grad=True); ids = torch.randint(0, V, (T,), device=DEV)
        add("cross_entropy_bf16", [T, V], 2 * T * V, lambda i: F.cross_entropy(z.detach(), ids))
        loss = F.cross_entropy(z, ids)
        add("cross_entropy_backward_bf16", [T, V], 4 * T * V, lambda i: torch.autograd.grad(loss, z, retain_graph=True))
        table = torch.randn(V, 64 if SMALL else 4096, dtype=torch.bfloat16, device=DEV)
        add("embedding", [T, table.shape[1]], 4 * T * table.shape[1], lambda i: F.embedding(ids, table))
    if not SMALL: torch.cuda.empty_cache()

def attention():
    rows = R.setdefault("attention", [])
    backends = {"math": SDPBackend.MATH} if SMALL else {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    for heads, D in ((16, 128), (32, 64)):
        for S in ((64,) if SMALL else (512, 1024, 2048, 4096, 8192, 16384, 32768)):
            B = 1 if SMALL else max(1, 8192 // S)
            q, k, v = (torch.randn(B, S, heads, D, dtype=torch.bfloat16, device=DEV, requires_grad=True).transpose(1, 2) for _ in range(3))
            for v_ in (q, k, v): v_.retain_grad()
            for name, backend in backends.items():
                if left() < 20: R["errors"]["attention"] = "out of time"; return
                for causal in ((True, False) if S in (2048, 8192) else (True,)):
                    try:
                        with sdpa_kernel(backend):
                            g = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                            with torch.no_grad(): fwd = us(measure(lambda i: g()))
                            y = g(); dy = torch.randn_like(y)
                            bwd = us(measure(lambda i: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)))
                        rows.append([name, causal, B, S, heads, D, *fwd, *bwd])
                    except Exception as e: R["errors"][f"attention {name} {S} {D}"] = repr(e)[:200]

def latency():
    L = R.setdefault("latency_us", {})
    def med(f, n=7):
        got = sorted(f() for _ in range(n))
        return us([got[n // 2], got[0], got[-1]])
    x = torch.zeros(16, device=DEV)
    def host(f, n=1000):
        sync(); t = time.perf_counter()
        for _ in range(n): f()
        sync(); return (time.perf_counter() - t) / n
    L["torch_add_eager"] = med(lambda: host(lambda: x.add_(1)))
    L["torch_add_waited"] = med(lambda: host(lambda: (x.add_(1), sync()), 200))
    a = torch.zeros(16, 16, dtype=torch.bfloat16, device=DEV); o = torch.zeros_like(a)
    L["torch_mm_eager"] = med(lambda: host(lambda: torch.mm(a, a, out=o)))
    if SMALL: return
    lib = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtiles.so"))
    lib.launch_seconds.restype = ctypes.c_double
    L["launch"] = med(lambda: lib.launch_seconds(2000, 0) / 2000)
    L["launch_waited"] = med(lambda: lib.launch_seconds(500, 1) / 500)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(500): x.add_(1)
    L["graph_node"] = med(lambda: host(g.replay, 10) / 500)
    rows = R.setdefault("host_copies", [])
    for n in (4096, 65536, 1 << 20, 1 << 24, 1 << 28, 1 << 30):
        d = torch.empty(n, dtype=torch.uint8, device=DEV)
        for pinned in (True, False):
            if not pinned and n > 1 << 28: continue
            h = torch.zeros(n, dtype=torch.uint8, pin_memory=pinned)
            for way, f in (("to_device", lambda: d.copy_(h, non_blocking=pinned)), ("to_host", lambda: h.copy_(d, non_blocking=pinned))):
                f(); sync()
                rows.append([way, "pinned" if pinned else "pageable", n, *med(lambda: host(f, 1))])

class Layer(nn.Module):
    """One GPT layer of rank 0 among t tensor-parallel ranks, the all-reduces left out."""
    def __init__(self, h, a, t):
        super().__init__()
        self.a, self.d, self.w = a // t, h // a, h // t
        kw = dict(dtype=torch.bfloat16, device=DEV)
        self.n1, self.n2 = nn.LayerNorm(h, **kw), nn.LayerNorm(h, **kw)
        self.qkv, self.proj = nn.Linear(h, 3 * self.w, **kw), nn.Linear(self.w, h, **kw)
        self.fc1, self.fc2 = nn.Linear(h, 4 * self.w, **kw), nn.Linear(4 * self.w, h, **kw)
    def forward(self, x):
        B, S, h = x.shape
        q, k, v = self.qkv(self.n1(x)).view(B, S, 3, self.a, self.d).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, S, self.w)
        x = x + self.proj(y)
        return x + self.fc2(F.gelu(self.fc1(self.n2(x)), approximate="tanh"))

def layers(compiled):
    rows = R.setdefault("layers", [])
    sizes = [(64, 2, 64, 1, 1)] if SMALL else [(2048, 16, 2048, 4, 1), (4096, 32, 2048, 4, 1), (8192, 64, 2048, 4, 1), (12288, 96, 2048, 4, 8), (6144, 64, 2048, 4, 8)]
    if compiled: sizes = sizes[1:2] + sizes[3:4] if not SMALL else []
    for h, a, S, B, t in sizes:
        if left() < (60 if compiled else 20): R["errors"][f"layer {h} compiled={compiled}"] = "out of time"; return
        try:
            layer = Layer(h, a, t)
            run = torch.compile(layer, dynamic=False) if compiled else layer
            x = torch.randn(B, S, h, dtype=torch.bfloat16, device=DEV, requires_grad=True); dy = torch.randn(B, S, h, dtype=torch.bfloat16, device=DEV)
            def both(i):
                x.grad = None
                for p in layer.parameters(): p.grad = None
                run(x).backward(dy)
            t0 = time.time(); both(0); sync(); first = time.time() - t0
            base = peak = kept = 0
            if not SMALL:
                x.grad = None
                for p in layer.parameters(): p.grad = None
                torch.cuda.synchronize(); torch.cuda.reset_peak_memory_stats(); base = torch.cuda.memory_allocated()
                y = run(x); torch.cuda.synchronize(); kept = torch.cuda.memory_allocated() - base - y.nbytes
                y.backward(dy); torch.cuda.synchronize(); peak = torch.cuda.max_memory_allocated() - base
                del y
            with torch.no_grad(): fwd = us(measure(lambda i: run(x), samples=7, target=2e-3))
            fb = us(measure(both, samples=7, target=2e-3))
            rows.append(["compiled" if compiled else "eager", h, a, S, B, t, *fwd, *fb, sum(p.nbytes for p in layer.parameters()), kept, peak, round(first, 2)])
            del layer, run, x, dy
        except Exception as e: R["errors"][f"layer {h} compiled={compiled}"] = repr(e)[:300]
        if not SMALL: torch.cuda.empty_cache()

def sustained():
    """One product for seconds on end: what the power limit leaves."""
    rows = R.setdefault("sustained", [])
    n = 64 if SMALL else 8192
    for name, seconds in (("bf16", 6), ("e4m3", 5), ("copy", 3)):
        if left() < seconds + 8: R["errors"][f"sustained {name}"] = "out of time"; return
        a, b = torch.randn(n, n, device=DEV).bfloat16(), torch.randn(n, n, device=DEV).bfloat16()
        one = torch.ones((), device=DEV)
        if name == "e4m3": a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn); f = lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)
        elif name == "bf16": f = lambda: torch.mm(a, b.t())
        else: big = torch.empty(1 << 30 if not SMALL else 1 << 10, dtype=torch.uint8, device=DEV); dst = torch.empty_like(big); f = lambda: dst.copy_(big)
        WATCH.stage = f"sustained_{name}"
        f(); sync(); start, per = time.time(), []
        while time.time() - start < (seconds if not SMALL else 0.05):
            t = time.time()
            for _ in range(200): f()
            sync(); per.append((time.time() - t) / 200)
        rows.append([name, n, [float(f"{1e6 * v:.5g}") for v in per]])

R["software"] = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": "cpu" if SMALL else torch.cuda.get_device_name(0)}
if not SMALL:
    p = torch.cuda.get_device_properties(0)
    R["software"].update(multiprocessors=p.multi_processor_count, l2=p.L2_cache_size, memory=p.total_memory, cublas=str(torch.backends.cuda.preferred_blas_library()), cudnn=torch.backends.cudnn.version())
    torch.set_float32_matmul_precision("highest")
    try:  # one list of shapes in bf16 while cold is thrown away: it warms the card
        w = torch.randn(8192, 8192, device=DEV).bfloat16()
        for _ in range(50): torch.mm(w, w)
        torch.cuda.synchronize(); del w
    except Exception as e: R["errors"]["warm"] = repr(e)
bf, hf, e4 = torch.bfloat16, torch.float16, torch.float8_e4m3fn
every = shapes() if not SMALL else [(64, 64, 64)]
some = shapes((1024, 2048, 4096, 8192, 12288), (1024, 2048, 4096, 8192), (1, 2, 8)) if not SMALL else [(64, 64, 64)]
stage("bf16", products, "bf16", bf, every)
if not SMALL or os.environ.get("E4"): stage("e4m3", products, "e4m3", e4, every)
stage("memory", memory)
stage("attention", attention)
stage("latency", latency)
stage("layers", layers, False)
stage("bf16_dgrad", products, "bf16", bf, some, "dgrad")
stage("bf16_wgrad", products, "bf16", bf, some, "wgrad")
stage("f16", products, "f16", hf, some)
if not SMALL or os.environ.get("E4"): stage("e4m3_slow", products, "e4m3_exact", e4, some, "forward", False)
stage("f32", products, "f32", torch.float32, shapes((1024, 4096), (2048,), (1, 8)) if not SMALL else [(64, 64, 64)])
if not SMALL: torch.set_float32_matmul_precision("high")
stage("tf32", products, "tf32", torch.float32, some)
stage("sustained", sustained)
stage("compiled", layers, True)
R["watch"] = WATCH.summary()
R["seconds"] = round(time.time() - START, 1)
save()
print(json.dumps(R["errors"], indent=1)[:3000])
print(json.dumps(R["watch"]))
