# SPDX-License-Identifier: Apache-2.0
"""Draws of the counter: Philox4x32-10 (Salmon et al. 2011), its keys and the permutation of an epoch."""
import xxhash

WORD = 1 << 32


def philox(key, low, high):
    x, k = [low % WORD, low >> 32, high % WORD, high >> 32], [key % WORD, key >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [q >> 32 ^ x[1] ^ k[0], q % WORD, p >> 32 ^ x[3] ^ k[1], p % WORD]
        k = [(k[0] + 0x9E3779B9) % WORD, (k[1] + 0xBB67AE85) % WORD]
    return x


def low_half(block):
    return block[0] | block[1] << 32


def key_of(key, *parts):
    """A key of a name (bytes) or a number, of which further ones are made."""
    for part in parts:
        if isinstance(part, bytes):
            key = low_half(philox(key, xxhash.xxh3_64_intdigest(part), 0x6E616D65 << 32))
        else:
            key = low_half(philox(key, part, 0x76616C75 << 32))
    return key


def permuted(key, n, index):
    half = ((n - 1).bit_length() + 1) // 2
    while True:
        left, right = index >> half, index & (1 << half) - 1
        for number in range(8):
            mixed = low_half(philox(key, right, (0x7065726D << 32) + number)) & (1 << half) - 1
            left, right = right, left ^ mixed
        index = left << half | right
        if index < n:
            return index
