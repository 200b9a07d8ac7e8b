#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that a room includes only rooms of a lower level, from the sources themselves.

Levels come from the add_room lines of src/*/CMakeLists.txt. A test may also include what its room lists
as TEST_USES. Headers of back ends (cuda, nccl, mpi, dnnl) may appear only where they are wrapped.
Prints every violation and exits with 1 if there is one.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
# Which sources may see a library's headers.
WRAPPED = {
    "oneapi/dnnl/": ("src/kernels/matmul/",),
    "dnnl": ("src/kernels/matmul/",),
    "oniguruma.h": ("src/tokenize/regex.cpp",),
    "mpi.h": ("src/comm/mpi/",),
    "grpc/": ("src/rpc/grpc/",),
    "grpcpp/": ("src/rpc/grpc/",),
    "google/protobuf/": ("src/grpc_protocol/",),
    "cuda": ("src/device/cuda/", "src/kernels/"),
    "nccl": ("src/comm/nccl/",),
}
MOST_LINES = 500


def parse_rooms():
    rooms = {}
    for file in sorted(ROOT.glob("src/*/CMakeLists.txt")):
        text = re.sub(r"#.*", "", file.read_text())
        match = re.search(r"add_room\(\s*(\w+)(.*?)\)", text, re.S)
        if not match:
            continue
        name, body = match.groups()
        words = body.split()
        lists, key = {}, None
        for word in words:
            if word in ("LEVEL", "USES", "LIBRARIES", "SOURCES", "TESTS", "TEST_USES", "TEST_LIBRARIES", "FUZZ"):
                key = word
                lists[key] = []
            elif key:
                lists[key].append(word)
        if name != file.parent.name:
            print(f"{file}: declares room {name}")
            sys.exit(1)
        rooms[name] = (int(lists["LEVEL"][0]), set(lists.get("USES", [])), set(lists.get("TEST_USES", [])))
    return rooms


def main():
    rooms = parse_rooms()
    faults = []
    for name, (level, uses, _) in rooms.items():
        for used in uses:
            if used not in rooms:
                faults.append(f"room {name} uses {used}, which does not exist")
            elif rooms[used][0] >= level:
                faults.append(f"room {name} (level {level}) uses {used} (level {rooms[used][0]})")
    sources = [p for p in ROOT.glob("src/**/*") if p.suffix in (".h", ".cpp")]
    for file in sources + list((ROOT / "apps").glob("**/*")):
        if file.suffix not in (".h", ".cpp"):
            continue
        relative = file.relative_to(ROOT).as_posix()
        text = file.read_text()
        if text.count("\n") > MOST_LINES:
            faults.append(f"{relative}: {text.count(chr(10))} lines, at most {MOST_LINES}")
        if not text.startswith("// SPDX-License-Identifier: Apache-2.0"):
            faults.append(f"{relative}: does not begin with the licence line")
        room = relative.split("/")[1] if relative.startswith("src/") else None
        is_test = file.stem.endswith(("_test", "_bench", "_testing"))
        for included in INCLUDE.findall(text):
            for prefix, allowed in WRAPPED.items():
                if included.startswith(prefix) and not relative.startswith(allowed):
                    faults.append(f"{relative}: includes {included}")
            other = included.split("/")[0]
            if room is None or other not in rooms or other == room:
                continue
            _, uses, test_uses = rooms[room]
            if other not in uses and not (is_test and other in test_uses):
                faults.append(f"{relative}: includes {included}, but room {room} does not use {other}")
    for fault in faults:
        print(fault)
    print(f"{len(rooms)} rooms, {len(sources)} sources, {len(faults)} violations")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
