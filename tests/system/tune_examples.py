# SPDX-License-Identifier: Apache-2.0
"""What the tests of tuning share: examples that a small model learns, tokens beside those of a tokenizer, and runs of a recipe."""
import json
import random

from program import PROGRAM, RoadTest, ended, run


def examples(count, seed):
    """Sentences of the corpus, and whether what is seen has fur."""
    draw = random.Random(seed)
    nouns, verbs = ["cat", "dog", "bird", "fish"], ["sees", "likes", "finds", "eats"]
    for _ in range(count):
        one, verb, other = draw.choice(nouns), draw.choice(verbs), draw.choice(nouns)
        yield f"the {one} {verb} the {other}", " yes." if other in ("cat", "dog") else " no."


def added_tokens(first, names):
    """Special tokens with the numbers from `first` on, as tokenizer.json has them."""
    return [{"id": first + i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            for i, name in enumerate(names)]


class TuneTest(RoadTest):
    """A recipe of `megalith tune`, which write_recipe() makes, and runs of it."""

    @classmethod
    def write_recipe(cls, recipe):
        cls.tune_recipe = cls.folder / "tune.yaml"
        cls.tune_recipe.write_text(recipe)

    @classmethod
    def words(cls, out, *overrides):
        return ["tune", cls.tune_recipe, *(word for o in (f"run.out={cls.folder / out}", *overrides) for word in ("--set", o))]

    @classmethod
    def tune(cls, out, *overrides, code=0, options=()):
        return run(*cls.words(out, *overrides), "--json", *options, code=code)

    def tune_says(self, out, *overrides):
        """What a run that is fine says beside its result."""
        result = ended([PROGRAM, *self.words(out, *overrides)])
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def record(self, out):
        return json.loads((self.folder / out / "run.json").read_text())
