# SPDX-License-Identifier: Apache-2.0
"""Files of tokenizers to compare on: published ones, and small ones that show what one component does."""
import pathlib

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

MARK = "\u2581"


def bert_of_gguf(path):
    """The WordPiece vocabulary of a GGUF file, which marks the beginnings of words, with BERT's stages."""
    from gguf import GGUFReader
    field = GGUFReader(path).fields["tokenizer.ggml.tokens"]
    spelled = [bytes(field.parts[i]).decode() for i in field.data]

    def token(text):
        if text.startswith("[") and text.endswith("]") and len(text) > 2:
            return text
        return text[1:] if text.startswith(MARK) else "##" + text

    vocab = {token(text): i for i, text in enumerate(spelled)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(name, vocab[name]) for name in ("[CLS]", "[SEP]")])
    return tokenizer


def published(data, folder):
    """(name, path, known cases or None) of each published file that is there."""
    names = {"roberta-base": "tokenizers/roberta-base", "t5-small": "tokenizers/t5-small", "stories260K": "models/stories260K"}
    for name, place in names.items():
        path = data / place / "tokenizer.json"
        if path.exists():
            yield name, path, None
        else:
            print(f"no {path}: {name} is not compared")
    gguf = data / "tokenizers" / "ggml-vocab-bert-bge.gguf"
    if not gguf.exists():
        print(f"no {gguf}: bert-bge is not compared")
        return
    path = folder / "bert-bge.json"
    bert_of_gguf(gguf).save(str(path))
    texts = pathlib.Path(f"{gguf}.inp").read_text().split("\n__ggml_vocab_test__\n")
    lines = pathlib.Path(f"{gguf}.out").read_text().split("\n")
    yield "bert-bge", path, [(text, [int(i) for i in line.split()]) for text, line in zip(texts, lines)]


def of_bytes(normalizer=None, pre_tokenizer=None):
    """Ids are the bytes of the normalised text; a space more where a word begins, if words are cut."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=pre_tokenizer is not None, use_regex=False)
    tokenizer.pre_tokenizer = as_bytes if pre_tokenizer is None else pre_tokenizers.Sequence([pre_tokenizer, as_bytes])
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def of_tokens(decoder):
    """Tokens that the decoders change, as words."""
    spelled = ["a", "##b", "c</w>", "</w>", MARK, MARK + "the", "the" + MARK, " ", "  x ", ".", "n't", "'s", "do not", "'", "##",
               *(f"<0x{byte:02X}>" for byte in (0x41, 0x0A, 0xC3, 0xA9, 0xE2, 0x96, 0x81, 0xFF)), "\u00e9", "\u0120a", "\u00c3", "\u00a9",
               "\u4e2d", "_", "__a__", "<0x4>", "<0x+4>", "!"]
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(spelled)}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if decoder is not None:
        tokenizer.decoder = decoder
    return tokenizer


def normalizer_files():
    n = normalizers
    bert = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    yield from ((type(step).__name__, of_bytes(step)) for step in (n.NFC(), n.NFD(), n.NFKC(), n.NFKD(), n.Lowercase(), n.StripAccents(), n.Nmt(), n.Strip(), n.ByteLevel()))
    for key in bert:
        yield f"BertNormalizer without {key}", of_bytes(n.BertNormalizer(**{**bert, key: False}))
    yield "Replace", of_bytes(n.Replace("the", "th"))
    yield "Replace by a pattern", of_bytes(n.Replace(Regex(r"\s{2,}|\d"), "_"))
    yield "a sequence", of_bytes(n.Sequence([n.Strip(left=True, right=False), n.NFKD(), n.StripAccents(), n.Lowercase(), n.Prepend("_"), n.Replace(" ", MARK)]))


def pre_tokenizer_files():
    p = pre_tokenizers
    steps = {"BertPreTokenizer": p.BertPreTokenizer(), "Whitespace": p.Whitespace(), "WhitespaceSplit": p.WhitespaceSplit(),
             "Digits": p.Digits(), "single Digits": p.Digits(individual_digits=True), "CharDelimiterSplit": p.CharDelimiterSplit("e"),
             "ByteLevel": p.ByteLevel(), "Split by GPT-2's pattern and Digits": p.Sequence([p.Split(Regex(GPT2), "isolated"), p.Digits()])}
    for scheme in ("always", "never", "first"):
        for split in (True, False):
            steps[f"Metaspace {scheme} {split}"] = p.Metaspace(prepend_scheme=scheme, split=split)
    steps["WhitespaceSplit and Metaspace first"] = p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="first")])
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        steps[f"Punctuation {behavior}"] = p.Punctuation(behavior)
        for invert in (False, True):
            steps[f"Split at e {behavior} {invert}"] = p.Split("e", behavior, invert)
            ONIGURUMA.add(f"Split by a pattern {behavior} {invert}")
            steps[f"Split by a pattern {behavior} {invert}"] = p.Split(Regex(r"\p{Lu}\p{Ll}*|\d{1,3}(?=(?:\d{3})*\b)"), behavior, invert)
    for name, regex in PATTERNS.items():
        steps[f"Split by {name}"] = p.Split(Regex(regex), "isolated")
    yield from ((name, of_bytes(None, step)) for name, step in steps.items())


def decoder_files():
    d = decoders
    yield "no decoder", of_tokens(None)
    yield "WordPiece", of_tokens(d.WordPiece())
    yield "WordPiece, not cleaned", of_tokens(d.WordPiece(prefix="##", cleanup=False))
    yield "Metaspace", of_tokens(d.Metaspace())
    yield "Metaspace never", of_tokens(d.Metaspace(prepend_scheme="never"))
    yield "BPEDecoder", of_tokens(d.BPEDecoder())
    yield "ByteLevel", of_tokens(d.ByteLevel())
    yield "ByteFallback", of_tokens(d.ByteFallback())
    llama = [d.Replace(MARK, " "), d.ByteFallback(), d.Fuse()]
    yield "Llama's", of_tokens(d.Sequence([*llama, d.Strip(" ", 1, 0)]))
    yield "Fuse, then Replace", of_tokens(d.Sequence([*llama, d.Replace("a", "bb"), d.Strip("b", 2, 0)]))
    yield "Replace by a pattern", of_tokens(d.Sequence([d.Replace(Regex("[a-c]+"), "x"), d.Strip("x", 1, 0)]))


def processor_files(vocab):
    """Of a WordPiece file: the ways to join a pair."""
    cls, sep = ("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])
    yield "BertProcessing", processors.BertProcessing(sep, cls)
    yield "RobertaProcessing", processors.RobertaProcessing(sep, cls)
    yield "odd types", processors.TemplateProcessing(single="$A:3 [SEP]:2", pair="$B:2 [SEP]:5 [CLS]:1 $A:0", special_tokens=[cls, sep])
    yield "none", None


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
O200K = "|".join([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
PATTERNS = {"o200k's pattern": O200K}
ONIGURUMA = {"Replace by a pattern"}  # components that no scanner knows
