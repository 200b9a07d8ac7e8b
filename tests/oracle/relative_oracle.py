#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Buckets of distances against transformers' T5.

The unit test has a table of where buckets begin, to which it holds the code distance by distance. Here the same table
is held to T5Attention of the installed transformers, on both sides of a query and far beyond the last bucket.
"""
import pathlib
import re
import sys

import torch
from transformers.models.t5.modeling_t5 import T5Attention

from comparison import Checks

TABLE = pathlib.Path(__file__).resolve().parents[2] / "src/kernels/attention/relative_buckets_test.cpp"
ENTRY = re.compile(r"\{\{(\d+), (\d+), (true|false)\}, \{([\d,\s]+)\}\}")


def main():
    checks = Checks()
    entries = ENTRY.findall(TABLE.read_text())
    checks.expect("buckets: sizes in the table", len(entries) >= 8, len(entries))
    for buckets, reach, sides, begins in entries:
        buckets, reach, bidirectional = int(buckets), int(reach), sides == "true"
        begins = torch.tensor([int(begin) for begin in begins.split(",")])
        away = torch.arange(8 * reach)
        bucket = torch.searchsorted(begins, away, right=True) - 1
        sizes = {"bidirectional": bidirectional, "num_buckets": buckets, "max_distance": reach}
        before = T5Attention._relative_position_bucket(-away, **sizes)
        behind = T5Attention._relative_position_bucket(away[1:], **sizes)
        expected = bucket[1:] + len(begins) if bidirectional else torch.zeros_like(bucket[1:])
        same = torch.equal(before, bucket) and torch.equal(behind, expected)
        checks.expect(f"buckets: {buckets} up to {reach}{', both sides' if bidirectional else ''}", same,
                      f"{2 * len(away) - 1} distances")
    sys.exit(checks.exit_code())


if __name__ == "__main__":
    main()
