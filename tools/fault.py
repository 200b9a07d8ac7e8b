# SPDX-License-Identifier: Apache-2.0
"""A fault that tools/plant_faults.py plants, with the test that must turn red."""
from typing import NamedTuple


class Fault(NamedTuple):
    name: str
    file: str
    old: str      # occurs exactly once; spaces and line breaks do not count
    new: str
    program: str  # build targets, the program first
    test: str     # GoogleTest filter or script: every test that it selects must fail

    def targets(self):
        return self.program.split()

    def is_script(self):
        return self.test.split()[0].endswith(".py")
