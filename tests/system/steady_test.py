#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten thousand steps take no more memory and no more descriptors than a hundred: python3 steady_test.py PROGRAM"""
import os
import pathlib
import time
import unittest

from program import RoadTest

STEPS = 10000


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return None


class Steady(RoadTest):
    def test_memory_and_descriptors(self):
        out = self.folder / "steady"
        process = self.start("steady", f"train.steps={STEPS}", "checkpoint.every=100", "train.validate_every=50", "train.global_batch=2",
                             "train.micro_batch=2", "optimizer.schedule=constant", "model.layers=1")
        samples = []  # (step, resident bytes, descriptors)
        while process.poll() is None:
            try:
                size = (out / "metrics.jsonl").stat().st_size
                with open(out / "metrics.jsonl", "rb") as file:
                    file.seek(max(0, size - 2000))
                    lines = [line for line in file.read().split(b"\n") if line.startswith(b'{"step":') and line.endswith(b"}")]
                step = int(lines[-1].split(b":")[1].split(b",")[0]) if lines else 0
                samples.append((step, resident(process.pid), len(os.listdir(f"/proc/{process.pid}/fd"))))
            except (OSError, TypeError):
                pass
            time.sleep(0.05)
        self.assertEqual(process.returncode, 0, process.stderr.read())
        # The first steps fill buffers that stay; behind the last one the run closes what it has open.
        late = [s for s in samples if STEPS // 10 <= s[0] < STEPS and s[1] is not None]
        self.assertGreater(len(late), 20)
        n = len(late)
        mean_x, mean_y = sum(s[0] for s in late) / n, sum(s[1] for s in late) / n
        slope = sum((s[0] - mean_x) * (s[1] - mean_y) for s in late) / sum((s[0] - mean_x) ** 2 for s in late)
        print(f"{n} samples: {slope:.1f} bytes per step, descriptors {min(s[2] for s in late)} to {max(s[2] for s in late)}")
        self.assertLess(slope, 1024)
        # A save has a few files open while it writes.
        quiet = sorted(s[2] for s in late)[n // 2]
        self.assertLessEqual(max(s[2] for s in late) - quiet, 6)
        first, last = late[:n // 4], late[-n // 4:]
        self.assertEqual(min(s[2] for s in first), min(s[2] for s in last))


if __name__ == "__main__":
    unittest.main()
