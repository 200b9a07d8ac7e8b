#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The collectives over the real MPI plug-in: python3 mpi_collectives_test.py COMM_MPI_TEST

Closed forms on 1 to 5 processes, and calls that differ: each is named, not what MPI says of messages that do not fit."""
import re
import sys
import unittest

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ""
from mpirun import MPIRUN, ended, start  # noqa: E402


@unittest.skipUnless(MPIRUN, "mpirun is not installed")
class Collectives(unittest.TestCase):
    def ranks(self, count, what):
        process = start((count, [PROGRAM, what, "--gtest_color=no"]))
        stdout, stderr = ended(process, 300)
        return process.returncode, stdout, stderr

    def test_closed_forms(self):
        for count in range(1, 6):
            with self.subTest(ranks=count):
                code, stdout, stderr = self.ranks(count, "closed-forms")
                self.assertEqual(code, 0, stdout + stderr)
                self.assertEqual(len(re.findall(r"\[  PASSED  \] [1-9]\d+ tests", stdout)), count, stdout)

    def test_calls_that_differ_are_named(self):
        expected = {
            "collective": ("broadcast 'weights' of 8 f32 from 0", "all_reduce_max 'weights' of 8 f32"),
            "smaller": ("of 8 f32", "of 7 f32"),
            "larger": ("of 8 f32", "of 9 f32"),
            "much-smaller": ("of 262144 f32", "of 7 f32"),
            "dtype": ("of 8 f32", "of 8 bf16"),
            "transfer": ("send 'activation' of 8 f32", "send 'activation' of 7 f32"),
        }
        for kind, words in expected.items():
            with self.subTest(kind):
                code, _, stderr = self.ranks(3, kind)
                self.assertEqual(code, 1, stderr)
                self.assertNotIn("MPI_ERR", stderr)
                line = next((line for line in stderr.splitlines() if "ranks disagree on call" in line), "")
                self.assertRegex(line, r"rank \d on \S+ in step 3: ranks disagree", stderr)
                for word in words:
                    self.assertIn(word, line)

    def test_calls_that_cannot_meet_are_named(self):
        code, _, stderr = self.ranks(3, "groups")
        self.assertEqual(code, 1, stderr)
        line = next((line for line in stderr.splitlines() if "waited 2 s, the deadline" in line), "")
        rank = re.match(r"rank (\d) on \S+ in step 3, ", line)
        self.assertTrue(rank, stderr)
        self.assertIn(f"barrier 'end of step' (call 0 of group '{('other', 'one', 'other')[int(rank[1])]}')", line)
        self.assertIn("has not started it", line)


if __name__ == "__main__":
    unittest.main()
