# SPDX-License-Identifier: Apache-2.0
"""Megatron's sample builder of sentence pairs, from the description in src/objectives/sentence_rows.h."""


def mt19937(seed):
    """Numbers of std::mt19937 (Matsumoto & Nishimura 1998)."""
    state = [seed % 2 ** 32]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ state[-1] >> 30) + i) % 2 ** 32)
    while True:
        for i in range(624):
            y = state[i] & 0x80000000 | state[(i + 1) % 624] & 0x7FFFFFFF
            state[i] = state[(i + 397) % 624] ^ y >> 1 ^ (0x9908B0DF if y & 1 else 0)
        for y in state:
            y ^= y >> 11
            y ^= y << 7 & 0x9D2C5680
            y ^= y << 15 & 0xEFC60000
            yield y ^ y >> 18


def mt19937_64(seed):
    """Numbers of std::mt19937_64."""
    state = [seed % 2 ** 64]
    for i in range(1, 312):
        state.append((6364136223846793005 * (state[-1] ^ state[-1] >> 62) + i) % 2 ** 64)
    while True:
        for i in range(312):
            y = state[i] & 0xFFFFFFFF80000000 | state[(i + 1) % 312] & 0x7FFFFFFF
            state[i] = state[(i + 156) % 312] ^ y >> 1 ^ (0xB5026F5AA96619E9 if y & 1 else 0)
        for y in state:
            y ^= y >> 29 & 0x5555555555555555
            y ^= y << 17 & 0x71D67FFFEDA60000
            y ^= y << 37 & 0xFFF7EEE000000000
            yield y ^ y >> 43


def sentence_rows(lengths, documents, most, seed):
    """(begin, end, wanted, document), shuffled."""
    draws, rows = mt19937(seed), []

    def wanted():
        drawn = next(draws)
        return 2 + drawn % (most - 1) if drawn % 10 == 0 else most

    for document, (begin, end) in enumerate(zip(documents, documents[1:])):
        if end - begin < 2 or max(lengths[begin:end]) > 512:
            continue
        start, tokens, want = begin, 0, wanted()
        for sentence in range(begin, end):
            tokens += lengths[sentence]
            left = end - sentence - 1
            if left == 0 or (tokens >= want and left > 1 and sentence + 1 - start >= 2):
                rows.append((start, sentence + 1, want, document))
                start, tokens, want = sentence + 1, 0, wanted()
    places = mt19937_64(seed + 1)
    for i in range(len(rows) - 1, 0, -1):
        j = next(places) % (i + 1)
        rows[i], rows[j] = rows[j], rows[i]
    return rows
