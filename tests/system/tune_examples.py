# SPDX-License-Identifier: Apache-2.0
"""What the tests of tuning share: examples that a small model learns, and tokens beside those of a tokenizer."""
import random


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
