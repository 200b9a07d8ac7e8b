#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program and its plug-ins as files: built with the protections that docs/security.md promises, read from their ELF
headers: python3 hardening_test.py PROGRAM"""
import pathlib
import struct
import unittest

from program import PROGRAM

PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 0x6474E551, 0x6474E552
DT_NULL, DT_STRTAB, DT_STRSZ, DT_RPATH, DT_TEXTREL, DT_FLAGS, DT_RUNPATH, DT_FLAGS_1 = 0, 5, 10, 15, 22, 30, 29, 0x6FFFFFFB
DF_TEXTREL, DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 4, 8, 1, 0x08000000
EXECUTE, WRITE = 1, 2


class Elf:
    """Little-endian ELF64, System V ABI chapters 4 and 5."""

    def __init__(self, path):
        self.bytes = pathlib.Path(path).read_bytes()
        assert self.bytes[:6] == b"\x7fELF\2\1", f"{path} is no 64-bit little-endian ELF file"
        self.type, = struct.unpack_from("<H", self.bytes, 16)
        table, = struct.unpack_from("<Q", self.bytes, 32)
        size, count = struct.unpack_from("<HH", self.bytes, 54)
        # (type, flags, offset, address, bytes in the file)
        self.segments = [struct.unpack_from("<IIQQ8xQ", self.bytes, table + i * size) for i in range(count)]
        self.dynamic = {}
        offset, length = next((o, n) for kind, _, o, _, n in self.segments if kind == PT_DYNAMIC)
        for at in range(offset, offset + length, 16):
            tag, value = struct.unpack_from("<QQ", self.bytes, at)
            if tag == DT_NULL:
                break
            self.dynamic[tag] = value

    def strings(self):
        address = self.dynamic[DT_STRTAB]
        start = next(o + address - a for kind, _, o, a, n in self.segments if kind == PT_LOAD and a <= address < a + n)
        return self.bytes[start:start + self.dynamic[DT_STRSZ]]

    def names(self):
        """All names of the dynamic symbols."""
        return {name.decode() for name in self.strings().split(b"\0")}

    def library_folders(self):
        """Where its libraries are looked for before the system's places."""
        paths = [self.strings()[self.dynamic[tag]:].split(b"\0")[0] for tag in (DT_RPATH, DT_RUNPATH) if tag in self.dynamic]
        return [folder.decode() for path in paths for folder in path.split(b":")]


class Hardening(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.elf = Elf(PROGRAM)
        cls.plugins = [Elf(plugin) for plugin in sorted(pathlib.Path(PROGRAM).parent.glob("libmegalith_*.so"))]
        cls.all = [cls.elf, *cls.plugins]

    def test_their_place_in_memory_is_random(self):
        self.assertTrue(self.elf.dynamic.get(DT_FLAGS_1, 0) & DF_1_PIE)
        for elf in self.all:
            self.assertEqual(elf.type, 3, "not position-independent")
            self.assertNotIn(DT_TEXTREL, elf.dynamic)
            self.assertFalse(elf.dynamic.get(DT_FLAGS, 0) & DF_TEXTREL)

    def test_relocations_are_done_at_start_and_then_read_only(self):
        for elf in self.all:
            self.assertIn(PT_GNU_RELRO, [kind for kind, *_ in elf.segments])
            self.assertTrue(elf.dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW or elf.dynamic.get(DT_FLAGS_1, 0) & DF_1_NOW)

    def test_what_can_be_written_cannot_be_executed(self):
        for elf in self.all:
            self.assertEqual(len([kind for kind, *_ in elf.segments if kind == PT_GNU_STACK]), 1)
            for kind, flags, *_ in elf.segments:
                if kind in (PT_LOAD, PT_GNU_STACK):
                    self.assertNotEqual(flags & (EXECUTE | WRITE), EXECUTE | WRITE)

    def test_stack_and_buffers_are_checked(self):
        for elf in self.all:
            self.assertIn("__stack_chk_fail", elf.names())
        names = self.elf.names()
        self.assertTrue({n for n in names if n.startswith("__") and n.endswith("_chk")} - {"__stack_chk_fail"}, "no fortified call")

    def test_libraries_come_from_the_system_alone(self):
        self.assertEqual(self.elf.library_folders(), [])

    def test_those_of_plugins_come_from_no_folder_that_a_start_chooses(self):
        """An empty path is the folder that the program is started in."""
        if not self.plugins:
            self.skipTest("there are neither MPI nor gRPC")
        for plugin in self.plugins:
            for folder in plugin.library_folders():
                self.assertTrue(folder.startswith("/"), plugin.library_folders())


if __name__ == "__main__":
    unittest.main()
