# SPDX-License-Identifier: Apache-2.0
"""The card at hand: how long something takes on it, its clocks and power meanwhile, and the results as they come (R).

The first argument of the program is the folder that rates.json goes to. RATES_SECONDS (230): how long all of it may take."""
import json
import math
import os
import sys
import threading
import time

import torch

START = time.time()
BUDGET = float(os.environ.get("RATES_SECONDS", "230"))
left = lambda: BUDGET - (time.time() - START)
SMALL = not torch.cuda.is_available()  # a dry run on a CPU checks the code alone
DEV = "cpu" if SMALL else "cuda"
OUT, R = sys.argv[1], {"errors": {}}

def save():
    with open(os.path.join(OUT, "rates.json"), "w") as f: json.dump(R, f, separators=(",", ":"))

class Watch(threading.Thread):
    """Clocks, power and temperature every 100 ms."""
    def __init__(self):
        super().__init__(daemon=True); self.rows, self.stage = [], "start"
    def run(self):
        try:
            import pynvml as n
            n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)
            R["card"] = {"name": str(n.nvmlDeviceGetName(h)), "driver": str(n.nvmlSystemGetDriverVersion()), "power_limit_w": n.nvmlDeviceGetPowerManagementLimit(h) / 1000,
                         "max_sm_mhz": n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM), "max_mem_mhz": n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_MEM)}
            while True:
                self.rows.append((self.stage, n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM), n.nvmlDeviceGetPowerUsage(h) / 1000, n.nvmlDeviceGetTemperature(h, 0), n.nvmlDeviceGetCurrentClocksThrottleReasons(h)))
                time.sleep(0.1)
        except Exception as e: R["errors"]["nvml"] = repr(e)
    def summary(self):
        out = {}
        for s in dict.fromkeys(r[0] for r in self.rows):
            rows = [r for r in self.rows if r[0] == s]
            mid = lambda i: sorted(r[i] for r in rows)[len(rows) // 2]
            reasons = 0
            for r in rows: reasons |= r[4]
            out[s] = {"n": len(rows), "sm_mhz": [min(r[1] for r in rows), mid(1), max(r[1] for r in rows)], "watts": [min(r[2] for r in rows), mid(2), max(r[2] for r in rows)], "celsius": max(r[3] for r in rows), "reasons": hex(reasons)}
        return out

def sync():
    if not SMALL: torch.cuda.synchronize()

def measure(f, samples=5, target=4e-4, most=40):
    """[median, min, max] seconds of f(i), launches queued ahead of short kernels."""
    if SMALL:
        f(0); t = time.time(); f(1); t = time.time() - t
        return [t, t, t]
    f(0); torch.cuda.synchronize()
    ev = lambda: torch.cuda.Event(enable_timing=True)
    def once(reps, first, wait):
        a, b = ev(), ev()
        if wait: torch.cuda._sleep(int(min(wait * reps, 0.02) * 2e9))
        a.record()
        t = time.perf_counter()
        for r in range(reps): f(first + r)
        t = time.perf_counter() - t
        b.record(); b.synchronize()
        return a.elapsed_time(b) / 1000 / reps, t / reps
    _, host = once(3, 1, 1e-4)
    t, host = once(3, 4, 1.5 * host)
    reps = max(1, min(most, math.ceil(target / t)))
    wait = 1.5 * host if host * 1.5 > t or t < 4e-5 else 0
    got = sorted(once(reps, 7 + s * reps, wait)[0] for s in range(samples))
    return [got[samples // 2], got[0], got[-1]]

us = lambda m: [float(f"{1e6 * v:.5g}") for v in m]

WATCH = Watch()
if not SMALL: WATCH.start()

def stage(name, f, *args, **kw):
    WATCH.stage = name; t = time.time()
    try: f(*args, **kw)
    except Exception as e: R["errors"][name] = repr(e)[:300]
    R.setdefault("stage_seconds", {})[name] = round(time.time() - t, 2)
    save(); print(name, round(time.time() - t, 1), "left", round(left(), 1), flush=True)
