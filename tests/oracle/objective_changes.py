# SPDX-License-Identifier: Apache-2.0
"""What an objective makes of a sample: tokens hidden or replaced, spans cut out, texts rearranged to fill in the middle."""
from objective_samples import LENGTH
from philox_draws import WORD, low_half, philox


def masked(ids, key, special, mask, ordinary, begins, rate=0.15, mask_share=0.8, random_share=0.1):
    """(ids, targets), -100 where nothing is predicted."""
    draws = [philox(key, t, 0) for t in range(len(ids))]
    left = sum(i not in special for i in ids)
    left = min(left, max(1, int(rate * left + 0.5)))
    longest, words, last = left, [], None
    for t, i in enumerate(ids):
        if i in special:
            last = None
        elif last is not None and not begins(i) and len(last) < longest:
            last.append(t)
        else:
            last = [t]
            words.append(last)
    out, targets = list(ids), [-100] * len(ids)
    for word in sorted(words, key=lambda w: (low_half(draws[w[0]]), w[0])):
        if len(word) > left:
            continue
        left -= len(word)
        for t in word:
            targets[t] = ids[t]
            if draws[t][2] < int(mask_share * WORD):
                out[t] = mask
            elif draws[t][2] < int((mask_share + random_share) * WORD):
                out[t] = ordinary[draws[t][3] * len(ordinary) >> 32]
    return out, targets


def byte_of():
    """GPT-2's alphabet of bytes, by character."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    return {chr(b): b for b in kept} | {chr(256 + n): b for n, b in enumerate(others)}


def characters(text, spelled):
    """The bytes of each character of a text of tokens; a token with a part of one at either end is one itself."""
    alphabet = byte_of()
    pieces = [bytes(alphabet[c] for c in spelled(i)) for i in text]
    front = next((n for n, piece in enumerate(pieces) if piece[0] & 0xC0 != 0x80), len(pieces))
    for back in range(len(pieces), front - 1, -1):
        try:
            whole = b"".join(pieces[front:back]).decode()
            break
        except UnicodeDecodeError:
            pass
    return [*text[:front], *whole, *text[back:]]


def encoded(part, tokenizer):
    """Tokens of characters, those that are tokens already between them."""
    out, open_text = [], ""
    for character in [*part, None]:
        if isinstance(character, str):
            open_text += character
            continue
        out += tokenizer.encode(open_text, add_special_tokens=False).ids if open_text else []
        open_text = ""
        out += [] if character is None else [character]
    return out


def rearranged(tokens, key, tokenizer, rate, spm_rate):
    prefix, middle, suffix, end = (tokenizer.token_to_id(t) for t in ("<fim_prefix>", "<fim_middle>", "<fim_suffix>",
                                                                      "<|endoftext|>"))
    texts, out = [[]], []
    for token in tokens:
        texts[-1].append(token)
        if token == end:
            texts.append([])
    for number, text in enumerate(texts):
        ends = text[-1:] == [end]
        text = text[:-1] if ends else text
        draws = philox(key, number, 0)
        if text and draws[0] < int(rate * WORD):
            all_of_it = characters(text, tokenizer.id_to_token)
            cuts = sorted(d * (len(all_of_it) + 1) >> 32 for d in draws[2:])
            parts = [encoded(part, tokenizer) for part in (all_of_it[:cuts[0]], all_of_it[cuts[0]:cuts[1]], all_of_it[cuts[1]:])]
            changed = ([prefix, suffix, *parts[2], middle, *parts[0], *parts[1]] if draws[1] < int(spm_rate * WORD) else
                       [prefix, *parts[0], suffix, *parts[2], middle, *parts[1]])
            text = changed if len(changed) >= len(text) else text
        out += [*text, *([end] if ends else [])]
    return out[:len(tokens)]


def span_counts(rate, mean):
    """(tokens of the text, hidden ones, spans) of the longest text whose encoder's side has LENGTH tokens."""
    def of(raw):
        hidden = min(max(round(raw * rate), 1), raw - 1)
        return raw, hidden, max(1, round(hidden / mean))

    return max(counts for counts in map(of, range(2, 4 * LENGTH)) if counts[0] - counts[1] + counts[2] + 1 <= LENGTH)


def runs(key, word, tokens, parts):
    """Lengths of runs, cut at the gaps whose draws are smallest."""
    draws = [(block[word] | block[word + 1] << 32, gap) for gap in range(tokens - 1) for block in [philox(key, gap, 0)]]
    ends = sorted(gap + 1 for _, gap in sorted(draws)[:parts - 1]) + [tokens]
    return [end - begin for begin, end in zip([0, *ends], ends)]


def both_sides(text, key, counts, sentinels, end):
    """(what the encoder reads, what the decoder says)."""
    raw, hidden, spans = counts
    encoder, targets = [], []
    for kept, span, sentinel in zip(runs(key, 2, raw - hidden, spans), runs(key, 0, hidden, spans), sentinels):
        encoder += [*text[:kept], sentinel]
        targets += [sentinel, *text[kept:kept + span]]
        text = text[kept + span:]
    return [*encoder, end], [*targets, end]
