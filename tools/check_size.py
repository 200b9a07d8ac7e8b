#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps product sources small: files of at most 300 lines, functions of 60, rooms of 40 files and 3,500 lines;
and every line of C++, comments and tests too, within 100 columns, of CMake within 120.

Product sources are .h and .cpp of src/ and apps/ but tests, their fixtures, benches and fuzz targets. A file whose first
ten lines hold `// size: REASON` may be longer, its functions too. Nothing excuses a wide line: clang-format leaves
comments and literals as they are, so this is what holds them. Prints every violation and exits with 1 if there is one.
`--test` tries the checks on planted examples.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE_LINES, FUNCTION_LINES, ROOM_FILES, ROOM_LINES = 300, 60, 40, 3500
NO_LIMIT = ("kernels", "families")  # a folder per operation, a file per family
COLUMNS = {".h": 100, ".cpp": 100, ".txt": 120, ".cmake": 120}
NOT_PRODUCT = re.compile(r"(_test|_testing|_bench|_fixture|_cases|_case)\.|/test_\w+\.h$|/fuzz/|^src/testing/")
REASON = re.compile(r"^// size: \S+")

SCOPE = re.compile(r"^(template\s*<.*>\s*)?(inline\s+)?(namespace|class|struct|union|enum)\b|^extern\s*$", re.S)
NAME = re.compile(r"(operator\s*(?:\(\)|[^\s(]+)|~?\w+(?:::~?\w+)*)\s*\(")
# Comments, literals, preprocessor lines and macros alone on a line; what is before them tells 1'000 from 'x'.
SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*|^[A-Z_]{8,}\b(?:\([^\n]*\))?;?$', re.S | re.M)


def bare(text):
    """The text without what may hold braces that are none; line numbers stay."""
    return SKIPPED.sub(lambda match: "\n" * match[0].count("\n"), text)


def closing(text, begin):
    """The position of the brace that closes the one at `begin`."""
    depth = 0
    for position in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return len(text) - 1


def functions(source):
    """(name, lines) of every function defined in a source that clang-format formatted, its head included."""
    text, head, position, found = bare(source), 0, 0, []
    while position < len(text):
        character = text[position]
        if character == ";" and text[head:position].count("(") == text[head:position].count(")") or character == "}":
            head = position + 1
        elif character == "{":
            said = text[head:position].strip()
            if SCOPE.match(said):
                head = position + 1
            elif "(" in said and text[position - 1].isspace() and not said.endswith(("=", ",", "(", "return")):
                end, begin = closing(text, position), head + len(text[head:position]) - len(text[head:position].lstrip())
                name = NAME.search(said)
                found.append((name[1] if name else said[:40], text.count("\n", begin, end) + 1))
                head = position = end + 1
                continue
            else:  # a member's or a constant's value
                position = closing(text, position)
        position += 1
    return found


def product_files():
    for top in ("src", "apps"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".h", ".cpp") and not NOT_PRODUCT.search(path.relative_to(ROOT).as_posix()):
                yield path


def room_of(relative):
    """A room; of the program a folder."""
    parts = relative.split("/")
    return parts[1] if parts[0] == "src" else "/".join(parts[:-1])


def too_large():
    """What is said of all that is larger than its limit."""
    faults, files, lines = [], {}, {}
    for path in product_files():
        relative, text = path.relative_to(ROOT).as_posix(), path.read_text()
        count = text.count("\n")
        files[room_of(relative)] = files.get(room_of(relative), 0) + 1
        lines[room_of(relative)] = lines.get(room_of(relative), 0) + count
        if any(REASON.match(line) for line in text.splitlines()[:10]):
            continue
        measured = [(relative, count, FILE_LINES)] + [(f"{relative}: {name}", length, FUNCTION_LINES) for name, length in functions(text)]
        faults += [f"{what}: {size}, at most {limit}" for what, size, limit in measured if size > limit]
    for what, counts, limit in (("files", files, ROOM_FILES), ("lines", lines, ROOM_LINES)):
        for room, count in counts.items():
            if count > limit and room not in NO_LIMIT:
                faults.append(f"{what} of {room}: {count}, at most {limit}")
    return faults


def wide_lines(name, text):
    """What is said of each line of a file that is wider than its kind of file may be."""
    most = COLUMNS[pathlib.PurePath(name).suffix]
    return [f"{name}:{number}: {len(line)} columns, at most {most}" for number, line in enumerate(text.splitlines(), 1) if len(line) > most]


def all_wide_lines():
    found = wide_lines("CMakeLists.txt", (ROOT / "CMakeLists.txt").read_text())
    for top in ("src", "apps", "tests", "cmake"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cmake") or path.name == "CMakeLists.txt":
                found += wide_lines(path.relative_to(ROOT).as_posix(), path.read_text())
    return found


PLANTED = """// SPDX
namespace a {
#define BRACES { {
struct Point {
  int x = 0, y{1};
  Point(int a, int b)
      : x{a}, y(b) {
    // }
  }
  bool operator==(const Point&) const = default;
  std::string text() const { return "}"; }
};
constexpr int kTable[] = {1, 2,
                          f(3)};
template <typename T>
T long_one(const std::vector<T>& values,
           T start = {}) {
  for (;;) {
    char c = '{'; int n = 1'000'000;
    auto f = [&] {
      return R"({{{)";
    };
  }
  return start;
}
void declared(int);
}  // namespace a
"""


def test():
    expected = [("Point", 4), ("text", 1), ("long_one", 11)]
    assert functions(PLANTED) == expected, functions(PLANTED)
    long = "void f() {\n" + "  g();\n" * 60 + "}\n"
    assert functions(long) == [("f", 62)], functions(long)
    wide = wide_lines("a_test.cpp", f"// {'x' * 97}\n// {'é' * 97}\n// {'x' * 98}\n")
    assert wide == ["a_test.cpp:3: 101 columns, at most 100"], wide


def main():
    test()
    if "--test" in sys.argv:
        return 0
    faults = too_large() + all_wide_lines()
    print("\n".join(faults + [f"{len(faults)} violations"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
