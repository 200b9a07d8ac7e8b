#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What run_tests.py does where it cannot look: python3 tools/run_tests_test.py"""
import contextlib
import io
import os
import unittest
import unittest.mock

import run_tests


class SourceChecks(unittest.TestCase):
    def test_a_check_whose_program_is_missing_fails_and_says_what_to_install(self):
        with unittest.mock.patch.dict(os.environ, PATH="/nowhere"):
            checks = dict(run_tests.source_checks())
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                self.assertEqual(run_tests.check("format", checks["format"]), (0, 1, 0))
            self.assertIn("clang-format is not installed", said.getvalue())


if __name__ == "__main__":
    unittest.main()
