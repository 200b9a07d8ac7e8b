#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` installs, and a program that embeds it: python3 package_test.py PROGRAM

The build folder is the one the program lies in.
"""
import pathlib
import re
import shutil
import tempfile
import unittest

from program import PROGRAM, RECIPE, ROOT, ended, run, text

BUILD = pathlib.Path(PROGRAM).parent
PATIENCE = 1200


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.prefix = cls.folder / "prefix"
        cls.done("cmake", "--install", BUILD, "--prefix", cls.prefix)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def done(cls, *command, **options):
        """Standard output of a command; fails when it does."""
        result = ended([*map(str, command)], timeout=PATIENCE, **options)
        assert result.returncode == 0, (command, result.stdout[-4000:], result.stderr[-4000:])
        return result.stdout

    def build(self, source):
        build = self.folder / f"build-{source.name}"
        self.done("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.done("cmake", "--build", build)
        return build / source.name

    def test_what_is_installed(self):
        share = self.prefix / "share"
        for path in ("bash-completion/completions/megalith", "zsh/site-functions/_megalith", "fish/vendor_completions.d/megalith.fish", "man/man1/megalith.1",
                     "man/man1/megalith-bench-gemm.1"):
            self.assertTrue((share / path).is_file(), path)
        self.assertEqual((share / "bash-completion/completions/megalith").read_text(), run("completion", "bash"))
        self.assertEqual((share / "man/man1/megalith-train.1").read_text(), run("man", "train"))
        self.assertEqual(self.done(self.prefix / "bin/megalith", "--version"), run("--version"))

    def test_headers_are_those_of_the_rooms_and_nothing_names_the_sources(self):
        headers = {path.relative_to(self.prefix / "include/megalith").as_posix() for path in self.prefix.rglob("*.h")}
        self.assertIn("text/tokenizer.h", headers)
        self.assertFalse([path for path in headers if re.search(r"_fixture|/test_|/fuzz/|^testing/", path)])
        for path in (self.prefix / "lib/cmake/megalith").iterdir():
            for root in (ROOT, BUILD):
                self.assertNotIn(str(root), path.read_text(), path)

    def test_the_example(self):
        program = self.build(ROOT / "examples/embed")
        tokenizer, recipe = self.folder / "tokenizer.json", self.folder / "recipe.yaml"
        (self.folder / "text.txt").write_text(text(100))
        run("tokenizer", "train", "--input", self.folder / "text.txt", "--vocab-size", 285, "--output", tokenizer)
        recipe.write_text(RECIPE.replace("DIR", str(self.folder)))
        said = self.done(program, tokenizer, recipe, input="the cat sees the dog.\n")
        ids = [int(word) for word in re.findall(r"(\d+) '", said)]
        self.assertEqual(run("tokenizer", "decode", "--tokenizer", tokenizer, "--input", self.put_ids(ids)).strip(), "the cat sees the dog.")
        self.assertIn(f"{len(ids)} tokens of a vocabulary of 285: {len(ids) / (8 * 16)} steps", said)
        self.assertEqual(ended([program, self.folder / "absent", recipe], input="").returncode, 2)

    def put_ids(self, ids):
        path = self.folder / "ids.json"
        path.write_text(str(ids))
        return path

    @unittest.skipUnless(shutil.which("lintian"), "there is no lintian")
    def test_the_debian_package(self):
        self.done("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", self.folder / "deb")
        package, = (self.folder / "deb").glob("*.deb")
        self.assertEqual(self.done("lintian", package), "")
        content = self.done("dpkg-deb", "--contents", package)
        for path in ("bin/megalith", "share/man/man1/megalith-train.1.gz", "share/doc/megalith/copyright", "share/doc/megalith/changelog.Debian.gz"):
            self.assertIn(f" ./usr/{path}\n", content)
        self.assertNotIn("/include/", content)
        self.assertIn("libyaml-cpp", self.done("dpkg-deb", "--field", package, "Depends"))

    def test_every_room_can_be_linked(self):
        rooms = re.findall(r"add_library\((megalith::\w+) STATIC", (self.prefix / "lib/cmake/megalith/megalith-targets.cmake").read_text())
        self.assertIn("megalith::train", rooms)
        source = self.folder / "rooms"
        source.mkdir()
        whole = " ".join(f"$<TARGET_FILE:{room}>" for room in rooms)
        (source / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(rooms LANGUAGES CXX)\nfind_package(megalith REQUIRED)\n"
                                               f"add_executable(rooms main.cpp)\ntarget_link_libraries(rooms PRIVATE -Wl,--whole-archive {whole} -Wl,--no-whole-archive {' '.join(rooms)})\n")
        (source / "main.cpp").write_text("int main() {}\n")
        self.done(self.build(source))


if __name__ == "__main__":
    unittest.main()
