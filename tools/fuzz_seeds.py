# SPDX-License-Identifier: Apache-2.0
"""Seeds of the fuzz targets: for each a few small inputs, good and nearly good, from which the fuzzer goes on. They
are made here so that no binary file lies in the tree; each shows one feature of its format."""
import base64
import gzip
import hashlib
import json
import pathlib
import struct


def text(*parts):
    return [p.encode() if isinstance(p, str) else p for p in parts]


def recipe():
    return text(
        "model: {layers: 2, hidden: 32, heads: 4, context: 16}\ndata: {train: a}\ntrain: {steps: 3}\n",
        "data:\n  train:\n    - {path: a, weight: 0.5}\n    - path: 'b'\n      weight: 1e-3\ntrain:\n  tokens: 4096\n",
        "data: {train: [a, b]}\ntrain: {epochs: 1.5}\n%%\nmodel.layers=2\ndata.train=[c, {path: d}]\nrun.name=\"x\"\n",
        "model: {layers: -1, layers: 2}\noptimizer: {lr: .inf, groups: [{match: x, lr_scale: 2}]}\n%%\ndata.train.0.path=x\n",
        "a: &x [1]\nb: *x\n<<: *x\nc: !!str 3\n? [k]\n: v\n", "# nothing\n", "---\n---\n", "[[[[]]]]", "\ufeffmodel: {}\r\n",
        "parallel: {tensor: 2, pipeline: 2, data: 2, schedule: interleaved}\nnumerics: fast\nprecision: {compute: bf16}\n")


def vocabulary():
    """GPT-2's alphabet: printable bytes as they are, others from U+0100 on."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other, spelled = 0, {}
    for byte in range(256):
        spelled[byte] = chr(byte) if byte in kept else chr(256 + other)
        other += byte not in kept
    return {spelled[b]: b for b in range(256)}


def tokenizer(**changes):
    vocab = vocabulary()
    merges = ["t h", "th e", "a t"]
    for merge in merges:
        vocab[merge.replace(" ", "")] = len(vocab)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": len(vocab), "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
             "pre_tokenizer": byte_level, "post_processor": byte_level, "decoder": byte_level,
             "model": {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False,
                       "ignore_merges": False, "vocab": vocab, "merges": merges}}
    whole.update(changes)
    return json.dumps(whole, ensure_ascii=False).encode()


def tokenizer_json():
    small = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"], "unk_token": "a"}
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [], "special_tokens": {"a": {"id": "a", "ids": [0], "tokens": ["a"]}}}
    split = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "\\p{N}"}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
    plain = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}

    def tiny(**more):
        return json.dumps({"version": "1.0", "pre_tokenizer": plain, "decoder": plain, "model": small, **more})
    def fallback(known="a", **more):
        """Llama 2's kind: characters, with tokens of bytes for others."""
        mark = "\u2581"
        tokens = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), mark, known, mark + known]
        added = [{"id": i, "content": tokens[i], "special": True} for i in (0, 1)]
        steps = [{"type": "Prepend", "prepend": mark}, {"type": "Replace", "pattern": {"String": " "}, "content": mark}]
        back = [{"type": "Replace", "pattern": {"String": mark}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
        model = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "merges": [[mark, known]],
                 "vocab": {token: i for i, token in enumerate(tokens)}}
        return json.dumps({"version": "1.0", "added_tokens": added, "normalizer": {"type": "Sequence", "normalizers": steps},
                           "decoder": {"type": "Sequence", "decoders": back}, "model": {**model, **more}})
    def bert(**more):
        """WordPiece with BERT's stages."""
        words = ["[UNK]", "[CLS]", "[SEP]", "a", "##b", "the", "##e", "\u4e2d", "'", "##s", "1", "##2"]
        join = {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]}
        model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9,
                 "vocab": {word: i for i, word in enumerate(words)}}
        return json.dumps({"version": "1.0", "normalizer": {"type": "BertNormalizer", "strip_accents": None}, "post_processor": join,
                           "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##"}, "model": model, **more})
    cuts = [{"type": "Whitespace"}, {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "MergedWithNext"},
            {"type": "Split", "pattern": {"String": "c"}, "behavior": "Contiguous", "invert": True}, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}]
    changes = [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Nmt"}, {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Lowercase"}]
    texts = [{"type": "BPEDecoder", "suffix": "e"}, {"type": "Metaspace", "replacement": "\u2581"}, {"type": "Fuse"}, {"type": "Strip", "content": "a", "start": 1, "stop": 1}]
    def unigram(rules=None, **more):
        """Pieces with scores; `rules` are compiled ones."""
        space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
        pieces = [["<unk>", 0.0], ["\u2581", -2.0], ["\u2581the", -3.5], ["a", -4.0], ["e", -4.25], ["<0xC3>", -9.0]]
        rules = rules and {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(rules).decode()}
        model = {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": True}
        return json.dumps({"version": "1.0", "normalizer": rules, "pre_tokenizer": space, "decoder": space, "model": {**model, **more}})
    units = [256 << 10] + [0] * 1023
    units[256 ^ 0x61], units[512] = (256 ^ 0x61 ^ 512) << 10 | 0x161, 1 << 31
    compiled = struct.pack("<I1024I", 4096, *units) + "the \u00e9\0".encode()
    levels = json.dumps({"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "the": 1}}})
    overlapping = [{"id": 3 + i, "content": c, "special": True, "lstrip": True, "rstrip": True, "single_word": bool(i)} for i, c in enumerate(("<", "<|", "<|x|>"))]
    return text(tokenizer(), tokenizer(normalizer={"type": "NFC"}), tiny(), tiny(post_processor=template), tiny(pre_tokenizer=split),
                tiny(added_tokens=overlapping), tiny(model={**small, "merges": [["a", "b"]], "ignore_merges": True}),
                fallback(), fallback("the"), fallback(vocab={"<unk>": 0, "<s>": 1, "a": 2, "<0xC3>": 3, "\u2581": 4, "\u2581a": 5}),
                unigram(), unigram(compiled), unigram(compiled[:99]), unigram(unk_id=None), unigram(unk_id=6), levels,
                bert(), bert(decoder=None, post_processor=None), bert(pre_tokenizer={"type": "Sequence", "pretokenizers": cuts}),
                bert(normalizer={"type": "Sequence", "normalizers": changes}), bert(decoder={"type": "Sequence", "decoders": texts}),
                '{"model": {"type": "WordPiece"}}', "{}", "", "[" * 100, tiny() + "x")


def encode():
    samples = ["the cat's on the mat", "they're 123456 aaaaaaaa   \n\n\t x", "<|endoftext|>the<|endoftext|>", "\u00e9\u4e2d\u6587\U0001f642 e\u0301",
               "\u2028\u0085\u00a0 ", "a" * 300, " " * 200, "\n" * 100, "'S'T'RE'VE'ſ"]
    return [bytes([i]) + s.encode() for s in samples for i in (0, 1)] + [b"\0\xff", b"\1ab\xed\xa0\x80", b"\0\xf0\x9f\x99"]


def ids_json():
    return text('{"ids": [1, 2, 3]}', "[0]", '{"seconds": 1.5, "ids": []}', '{"ids": [1], "ids": [2]}', "[-1]", "[1e2]", "", "[" * 100, '{"ids": 3}')


def utf8_stream():
    return [b"plain", "\u00e9\u4e2d\U0001f642".encode(), b"\xf0\x9f\x99", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80", b"a\xffb\xe4\xb8", b""]


def zstd(content, length=None):
    """One frame with one raw block; `length` is what its header claims."""
    size = len(content) if length is None else length
    return (b"\x28\xb5\x2f\xfd" + b"\xe0" + struct.pack("<Q", size) +
            struct.pack("<I", len(content) << 3 | 1)[:3] + content)


def documents():
    lines = b'{"text": "one"}\n\n{"text": "tw\\u00f6 \\ud83d\\ude42", "id": 3}\r\n{"a": [1, {"text": 0}], "text": ""}\n'
    plain = "one line\n\n \ntwo\nlines\r\n\u00e9".encode()
    bomb = gzip.compress(b"\0" * 3000000, 9)
    return [bytes([cut]) + content for cut in range(4)
            for content in (lines, plain, gzip.compress(lines), gzip.compress(plain) + gzip.compress(b"more\n"), zstd(lines), zstd(plain) + zstd(b"x\n"))] + [
        b"\3" + bomb, b"\1" + zstd(b"x", 1 << 60), b"\3" + gzip.compress(lines)[:-9], b"\3{\"text\": \"a\"}\n{\"text\": 1}\n", b"\3[1]\n", b"\3" + b"[" * 2000, b"\1\xff\n"]


def index(lengths, documents_at, tokens, code=8, width=2):
    pointers, at = [], 0
    for length in lengths:
        pointers.append(at)
        at += length * width
    idx = (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(documents_at)) +
           struct.pack(f"<{len(lengths)}i{len(lengths)}q{len(documents_at)}q", *lengths, *pointers, *documents_at))
    return struct.pack("<H", len(idx)) + idx + b"".join(t.to_bytes(width, "little") for t in tokens)


def indexed():
    return [index([3, 2], [0, 1, 2], range(5)), index([], [0], []), index([4], [0, 1], range(4), 4, 4), index([1, 1, 1], [0, 3], [1, 2, 3], 5, 8),
            index([3, 2], [0, 2, 1, 2], range(5)), index([3, -2], [0, 2], range(5)), index([3, 2], [0, 1, 2], [0, 1, 2, 3, 999], 1, 2),
            index([2**31 - 1], [0, 1], []), index([5], [0, 1], range(5))[:40]]


def tensors(header, data=b""):
    if not isinstance(header, str):
        header = json.dumps(header)
    return struct.pack("<Q", len(header)) + header.encode() + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors():
    return [tensors({"a": tensor("F32", [2], 0, 8), "b": tensor("BF16", [1, 2], 8, 12), "__metadata__": {"format": "pt"}}, bytes(12)),
            tensors({"a": tensor("I64", [], 0, 8)}, bytes(8)), tensors({"a": tensor("F32", [0], 0, 0)}), tensors("{}   "),
            tensors({"a": tensor("F4", [3], 0, 1)}, b"x"), tensors({"a": tensor("F32", [2**62, 4], 0, 8)}, bytes(8)),
            tensors({"a": tensor("U8", [8], 0, 8), "b": tensor("U8", [8], 4, 12)}, bytes(12)), tensors('{"a":1,"a":2}'),
            struct.pack("<Q", 1 << 63) + b"{}", struct.pack("<Q", 100) + b"{}", tensors("[" * 64), b""]


def manifest():
    content = tensors({"w": tensor("F32", [2, 2], 0, 16)}, bytes(16))
    digest = hashlib.sha256(content).hexdigest()
    zeros = hashlib.sha256(bytes(16)).hexdigest()

    def of(**changes):
        whole = {"format_version": 1, "step": 3, "state_sha256": "0" * 64, "state": {"step": 3},
                 "files": [{"name": "a.safetensors", "bytes": len(content), "sha256": digest}],
                 "tensors": [{"name": "w", "dtype": "f32", "shape": [2, 2], "sha256": zeros,
                              "pieces": [{"file": "a.safetensors", "dim": 0, "begin": 0, "count": 2}]}], **changes}
        return json.dumps(whole).encode() + b"\n%%\n" + content
    pieces = [{"file": "a.safetensors", "dim": 0, "begin": i, "count": 1, "sha256": zeros} for i in range(2)]
    return [of(), of(files=[{"name": "../a", "bytes": 1, "sha256": digest}]), of(format_version=9), of(step=-(2**63)),
            of(tensors=[{"name": "w", "dtype": "f32", "shape": [2, 2], "sha256": zeros, "pieces": pieces}]),
            of(tensors=[{"name": "w", "dtype": "bf16", "shape": [2**40, 2**40], "sha256": zeros, "pieces": pieces}]),
            of(tensors=[{"name": "w", "dtype": "f32", "shape": [], "sha256": zeros, "pieces": []}]), b"{}", b"", of()[:-7]]


def safetensors_index():
    return text('{"metadata": {"total_size": 4}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}',
                '{"weight_map": {"a": "one.safetensors"}}', '{"weight_map": {"a": "../one.safetensors"}}', '{"weight_map": []}', "{}", "",
                '{"weight_map": {"c": "one.safetensors"}}', '{"weight_map": {"a": 1}}', "[" * 100)


def metrics():
    line = {"step": 1, "tokens": 32, "samples": 2, "loss": 3.5, "loss_hex": "0x1.cp+1", "lr": 0.001, "grad_norm": 1.0, "grad_norm_hex": "0x1p+0",
            "step_seconds": 0.5, "tokens_per_second": 64.0, "mfu": 0.25, "memory_bytes": 1000}
    return text(json.dumps(line) + "\n", json.dumps(line) + "\n" + json.dumps({**line, "step": 2, "validation_loss": 3.0}) + "\n{\"step\": 3",
                json.dumps({**line, "loss": None, "loss_hex": "nan"}) + "\n", json.dumps({**line, "step": 1e300}) + "\n",
                '{"step": 1, "prompt": "a", "text": "b\\u00e9"}\n', "\n", "{}\n", "[" * 200 + "\n", '{"step": ' + "[" * 50 + "\n")


def events():
    # As an EventWriter writes them: the version, a scalar, a text.
    version = b"\x09" + struct.pack("<d", 1.0) + b"\x1a\x0dbrain.Event:2"
    scalar = b"\x09" + struct.pack("<d", 2.0) + b"\x10\x05\x2a\x09\x0a\x07\x0a\x01x\x15" + struct.pack("<f", 3.5)[:4]
    return [b"\1" + version, b"\1" + scalar, b"\0" + version, b"\1", b"\0" + bytes(16), b"\0" + b"\xff" * 40, b"\1\x2a\x80\x80\x80\x80\x08"]


def run_record():
    record = json.dumps({"machine": {"cpu": "x", "threads": 2}, "seconds": 1.5, "memory": {"planned": {"total": 5}}})
    return text(record + "\n%%\nmodel: {kind: gpt, layers: 2, hidden: 32, heads: 4, context: 16}\n", "{}\n%%\n", "[]\n%%\nmodel: [1]\n",
                '{"machine": {"cpu": 3}, "seconds": "x"}\n%%\nmodel: &a {layers: *a}\n', "{}\n%%\n" + "[" * 300, '{"seconds": ' + "[" * 300)


def hugging_face():
    gpt2 = {"model_type": "gpt2", "vocab_size": 300, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2, "eos_token_id": 299}
    stored = {"layers": 2, "hidden": 16, "heads": 2, "kv_heads": 2, "ffn": 64, "context": 32, "vocab": 300, "norm": "layer_norm", "position": "learned",
              "mlp": "gelu_tanh", "attention": "streaming", "bias": True, "tied": True, "dropout": 0.0, "norm_eps": 1e-5, "init_std": 0.02}
    return [json.dumps(x).encode() for x in (
        gpt2, {"model_type": "gpt2"}, {**gpt2, "n_head": 0}, {**gpt2, "n_layer": 10**9}, {**gpt2, "n_inner": 48, "activation_function": "gelu"},
        {**gpt2, "eos_token_id": [1, 2]}, {**gpt2, "hidden_size": 16}, {"model_type": "llama"}, {"architectures": ["GPT2LMHeadModel"], **stored},
        stored, {**stored, "heads": -1}, {**stored, "vocab": 2**62}, {"eos_token_id": [[1]]}, [])] + [b"", b"[" * 100, b'{"eos_token_id": ' + b"[" * 300]


def run_state():
    line = json.dumps({"step": 3, "tokens": 96, "samples": 6, "loss": 3.5, "loss_hex": "0x1.cp+1", "lr": 0.001, "grad_norm": 1.0, "grad_norm_hex": "0x1p+0",
                       "step_seconds": 0.5, "tokens_per_second": 64.0, "mfu": 0.25, "memory_bytes": 1000})
    state = {"step": 3, "samples": 6, "tokens": 96, "elapsed_seconds": 1.5,
             "logs": {"metrics": 10, "samples": 0, "events_file": "events.out.tfevents.1.host.2.0", "events": 30},
             "guard": {"skipped_steps": 1, "overflowed_steps": 3, "rewinds": 2, "skipped_samples": 8, "losses": ["0x1.8p+1", "0x1p+0", "0x1.9p+0"]}}
    owed = {"what": "validation", "line": line, "not_finite": "weight x"}
    return [json.dumps(x).encode() for x in (
        state, {**state, "owed": owed}, {**state, "owed": {**owed, "what": "samples"}}, {**state, "step": 2**60 + 1},
        {**state, "owed": {"what": "x", "line": "{"}}, {**state, "guard": {**state["guard"], "losses": ["nan", 3, None]}}, {**state, "logs": []},
        {**state, "logs": {**state["logs"], "events_file": "../../etc/passwd"}}, {**state, "elapsed_seconds": None},
        {"owed": 3}, {"guard": []}, [])] + [b"", b"[" * 100]


def earlier_start():
    buckets = {"start": 1.5, "load": 0.25, "steps": 10.0, "lost_steps": 2.0, "idle": 3.5}
    accounts = {"step": 3, "since": 1000.5, "until": 1017.75, "wall_seconds": 17.25, "useful": 0.58, "buckets": buckets}
    return [json.dumps(x).encode() for x in (
        {"name": "a", "status": "running", "memory": {"planned": {"total": 5}}, "accounts": accounts}, {"accounts": accounts, "memory": 3, "machine": [1]},
        {"accounts": {**accounts, "until": 2e9}}, {"accounts": {**accounts, "buckets": {**buckets, "steps": -1}}}, {"accounts": {**accounts, "since": 1e308}},
        {"accounts": {**accounts, "buckets": []}}, {"accounts": {"step": 2**63}}, {"accounts": []}, [], 3)] + [b"", b"{", b"[" * 100]


def lock_file():
    holder = {"pid": 77, "ticks": 5, "host": "node-0017", "since": "2026-01-02T03:04:05Z"}
    return [json.dumps(x).encode() + b"\n" for x in (holder, {**holder, "pid": -1}, {**holder, "pid": 1e300}, {**holder, "ticks": 2**64 - 1}, {**holder, "host": 3},
                                                    {**holder, "host": "\x1b[2J\n"}, {"pid": 1}, [])] + [b"", b'{"pid": 12']


def score_line():
    return text('{"text": "the cat"}', '{"ids": [1, 2]}', '{"ids": [1], "text": "x", "n": {}}', '{"ids": [2147483648]}', '{"ids": [-1, 1.0, null]}', '{"ids": "1"}',
                '{"text": "\\ud83d\\ude42\\u0000"}', '{"text": "\\ud800"}', '{"text": 3}', '{"ids": [1], "ids": [2]}', "[]", "", "[" * 100, b'{"text": "\xff"}')


def chat_template():
    templates = [path.read_bytes() for path in sorted((pathlib.Path(__file__).parent.parent / "tests/oracle/chat_templates").glob("*.jinja"))]
    messages = b'\n%%\n[{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "u"}]}]'
    return templates + [template + messages for template in templates[::4]] + text(
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x == n.x|list }}{{ n.x }}",
        "{{ " + "(" * 500, "{{ 1" + "+1" * 500 + " }}", "{% if 1 %}" * 300, "{{ 'a' * 99999999999 }}{{ 2 ** 64 }}{{ -9223372036854775807 // -1 }}", "{{ '%', '\\x4', '\\ud800' }}",
        "{% call(a) f() %}{% endcall %}{% filter upper|indent(2, true) %}a{% endfilter %}{% with a = 1 %}{% endwith %}", "{{ 'ab'[::-1][9:-9:-3] }}{{ [1, 'a']|sort }}",
        "{# a #}{#- b -#}{% raw %}{{ }}{% endraw %}\r\n {%- if 1 +%}\n{% endif %}", "{{ messages|map(attribute='role')|unique|list|tojson(indent=2) }}{{ strftime_now('%Y%_99d') }}")


def gguf_string(content):
    return struct.pack("<Q", len(content)) + content


def gguf_key(name, kind, value):
    return gguf_string(name) + struct.pack("<I", kind) + value


def gguf_array(name, kind, *values):
    return gguf_key(name, 9, struct.pack("<IQ", kind, len(values)) + b"".join(values))


def gguf_entry(name, dims, kind, offset):
    return gguf_string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def gguf_file(keys, entries, data=b"", version=3, align=32):
    head = b"GGUF" + struct.pack("<IQQ", version, len(entries), len(keys)) + b"".join(keys) + b"".join(entries)
    return head + bytes(-len(head) % align) + data


def gguf():
    """Every type of value, and tensors in plain and in block formats."""
    of, key, array, entry = gguf_file, gguf_key, gguf_array, gguf_entry
    arch = key(b"general.architecture", 8, gguf_string(b"llama"))
    fixed = [key(b"%c" % (97 + kind), kind, bytes(size)) for kind, size in ((0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (6, 4), (7, 1), (10, 8), (11, 8), (12, 8))]
    blocks = [(2, 32, 18), (3, 32, 20), (6, 32, 22), (7, 32, 24), (8, 32, 34), (10, 256, 84), (11, 256, 110), (12, 256, 144), (13, 256, 176), (14, 256, 210)]
    return [of([arch], [entry(b"a", [4, 2], 0, 0), entry(b"b", [8], 1, 32), entry(b"c", [8], 30, 64)], bytes(80)), of([arch, *fixed], []), of([], []),
            of([arch, array(b"t", 8, gguf_string(b"x"), gguf_string(b"")), array(b"n", 5, bytes(4), bytes(4))], [], version=2),
            of([key(b"general.alignment", 4, struct.pack("<I", 8))], [entry(b"a", [1], 0, 0), entry(b"b", [1], 28, 8)], bytes(16), align=8),
            *(of([arch], [entry(b"q", [elements, 2], kind, 0)], bytes(i % 251 for i in range(2 * size))) for kind, elements, size in blocks),
            of([arch], [entry(b"a", [2**40, 2**40], 0, 0)]), of([arch], [entry(b"a", [8], 0, 0), entry(b"b", [8], 0, 16)], bytes(64)), of([array(b"t", 8)], [])[:-1],
            b"GGUF" + struct.pack("<IQQ", 3, 2**63, 2**60), b"GGUF" + struct.pack(">IQQ", 3, 0, 0), b""]


def gguf_model():
    """The keys of every architecture, with scalings of rotary positions and what each has of its own."""
    def of(name, factors=(), tensors=(), **own):
        sizes = {"block_count": 7, "embedding_length": 32, "attention.head_count": 4, "attention.head_count_kv": 2, "feed_forward_length": 40,
                 "context_length": 64, "vocab_size": 131, "attention.layer_norm_epsilon": 1e-5, "attention.layer_norm_rms_epsilon": 1e-5, **own}
        def value(item):
            if isinstance(item, str):
                return 8, gguf_string(item.encode())
            if isinstance(item, list):
                return 9, struct.pack("<IQ", 7, len(item)) + bytes(item)
            return (7, bytes([item])) if isinstance(item, bool) else (4, struct.pack("<I", item)) if isinstance(item, int) else (6, struct.pack("<f", item))
        keys = [gguf_key(b"general.architecture", 8, gguf_string(name))] + [gguf_key(name + b"." + key.encode(), *value(item)) for key, item in sizes.items()]
        entries = [gguf_entry(tensor, [4], 0, 32 * i) for i, tensor in enumerate((*factors, *tensors))]
        return gguf_file(keys, entries, struct.pack("<4f", 1, 1, 8, 8).ljust(32, b"\0") * len(entries))
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16, "rope.scaling.yarn_beta_fast": 24.0}
    longrope = [b"rope_factors_long.weight", b"rope_factors_short.weight"]
    return [of(b"llama", tensors=[b"output.weight", b"blk.0.attn_q.bias"], **{"rope.freq_base": 5e5}), of(b"llama", [b"rope_freqs.weight"]), of(b"qwen2", **yarn),
            of(b"qwen3", **{"attention.key_length": 16, "attention.value_length": 16, "rope.scaling.type": "linear", "rope.scaling.factor": 2.0}), of(b"gemma"),
            of(b"gemma2", **{"attention.sliding_window": 9, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 4.0}),
            of(b"gemma3", **{"attention.sliding_window": 9, "attention.sliding_window_pattern": [True, False] * 3 + [True], "rope.freq_base_swa": 1e4}),
            of(b"phi3", longrope, **{"rope.scaling.original_context_length": 32, "rope.scaling.attn_factor": 1.1, "attention.sliding_window": 9}),
            of(b"olmo2"), of(b"starcoder2"), of(b"gptneox", **{"use_parallel_residual": False, "rope.dimension_count": 4}), of(b"gpt2"),
            of(b"llama", **{"block_count": 10**9}), of(b"llama", **{"expert_count": 8}), of(b"mamba"), gguf_file([], []), b""]


def proto(*fields):
    """A protobuf message: (number, value) with a whole number, bytes or a float."""
    def varint(n):
        return bytes([n & 0x7F | 0x80]) + varint(n >> 7) if n > 0x7F else bytes([n])
    of = {int: lambda n, v: varint(n << 3) + varint(v), bytes: lambda n, v: varint(n << 3 | 2) + varint(len(v)) + v,
          float: lambda n, v: varint(n << 3 | 5) + struct.pack("<f", v)}
    return b"".join(of[type(value)](number, value) for number, value in fields)


def sentencepiece():
    """Each kind of model, with and without bytes, rules and pieces of every type."""
    mark = "\u2581".encode()
    rules = struct.pack("<I", 1024) + bytes(1024) + b"x\0"
    def of(kind, pieces, trainer=(), *normalizer):
        rows = [(b"<unk>", 0.0, 2), (b"<s>", 0.0, 3), *pieces]
        return proto(*((1, proto((1, text), (2, score), (3, type_))) for text, score, type_ in rows), (2, proto((3, kind), *trainer)), (3, proto(*normalizer)))
    usual = [(mark, -3.0, 1), (b"a", -2.0, 1), (b"b", -2.0, 1), (b"ab", -1.0, 1), (mark + b"a", -1.0, 1), (b"<x>", 0.0, 4)]
    everything = [(b"<0x%02X>" % byte, 0.0, 6) for byte in range(256)]
    return [of(1, usual), of(2, usual), of(4, usual), of(3, usual), of(2, everything + usual, [(35, 1)]), of(1, everything + usual, [(35, 1), (24, 1)], (4, 0)),
            of(1, [*usual, (b"c", -9.0, 5)], [], (2, rules), (3, 0), (5, 0)), of(2, [(b"a" * n, 0.0, 1) for n in range(1, 9)]), of(2, usual)[:-3], of(2, usual + usual),
            of(2, [(b"\xff", 0.0, 1)]), of(2, [(b"ab", float("nan"), 1)]), b"\x0a\xff\xff\xff\xff\x0f", b""]


def ranks(*more):
    return [*(bytes([byte]) for byte in range(256)), *more]


def tiktoken():
    """The first byte says the pattern."""
    def of(tokens):
        return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))
    good = of(ranks(b"th", b"the", b" t", b"aa", b"aaa"))
    return [*(bytes([i]) + good for i in range(5)), b"\0" + good + b"YWI= 300\r\n", b"\0" + good + b"YQ== 5\n", b"\0" + good + b"!!!! 5", b"\0YQ== 99999999999\n", b"\0 \n", b"\0"]


def tekken():
    def of(tokens=ranks(b"th", b"aa", b"aaa"), specials=None, **config):
        vocab = [{"rank": i, "token_bytes": base64.b64encode(token).decode(), "token_str": None} for i, token in enumerate(tokens)]
        whole = {"config": {"pattern": "\\p{L}+|[^\\p{L}]+", "num_vocab_tokens": len(tokens), "default_vocab_size": len(tokens) + 25,
                            "default_num_special_tokens": 25, "version": "v3", **config}, "vocab": vocab}
        if specials is not None:
            whole["special_tokens"] = [{"rank": i, "token_str": text, "is_control": True} for i, text in enumerate(specials)]
        return json.dumps(whole).encode()
    return [of(), of(specials=["<unk>", "<s>"]), of(specials=["a", "a"]), of(version="v11"), of(default_vocab_size=2**40), of(default_num_special_tokens=60000),
            of(ranks()[:9]), of()[:-9], b'{"config": ' + b"[" * 100, b"{}"]


def gguf_vocabulary():
    """Every kind of tokenizer."""
    mark = "\u2581".encode()
    def of(model, tokens, **keys):
        def value(item):
            if isinstance(item, list):
                kind = {str: 8, bytes: 8, float: 6, int: 5}[type(item[0])] if item else 8
                return 9, struct.pack("<IQ", kind, len(item)) + b"".join(value(one)[1] for one in item)
            if isinstance(item, (str, bytes)):
                return 8, gguf_string(item if isinstance(item, bytes) else item.encode())
            return (7, bytes([item])) if isinstance(item, bool) else (6, struct.pack("<f", item)) if isinstance(item, float) else (5, struct.pack("<i", item))
        whole = {"model": model, "tokens": tokens, "bos_token_id": 0, "eos_token_id": 1, "unknown_token_id": 2, **keys}
        return gguf_file([gguf_key(b"tokenizer.ggml." + name.encode(), *value(item)) for name, item in whole.items()], [])
    pieces = [b"<s>", b"</s>", b"<unk>", mark, b"a", mark + b"a", b"aa"]
    kinds, scores = [3, 3, 2, 1, 1, 1, 1], [0.0, 0.0, 0.0, -3.0, -2.0, -1.0, -1.0]
    everything = [b"<0x%02X>" % byte for byte in range(256)]
    return [of("llama", pieces, scores=scores, token_type=kinds), of("t5", pieces, scores=scores, token_type=kinds, add_space_prefix=False),
            of("llama", pieces + everything, scores=scores + [0.0] * 256, token_type=kinds + [6] * 256, add_bos_token=True),
            *(of("gpt2", [*pieces[:3], "a", "b", "ab", "1"], merges=["a b"], token_type=kinds, pre=pre) for pre in ("gpt-2", "smollm", "llama-bpe", "tekken", "roberta-bpe", "none")),
            of("bert", ["[PAD]", "[SEP]", "[UNK]", mark + b"a", "b", "[CLS]"], cls_token_id=5, seperator_token_id=1), of("rwkv", pieces), of("gpt2", ["a"], merges=["a"], pre="gpt-2"),
            of("llama", pieces, scores=scores[:2]), of("llama", pieces, scores=[float("inf")] * 7), of("llama", [b"\xff"] * 7, scores=scores), gguf_file([], []), b""]


def gguf_writing():
    """Every kind of tokenizer as a tokenizer.json, those that cannot be written too."""
    return tokenizer_json()


def openai_body():
    def of(kind, **fields):
        return bytes([kind]) + json.dumps({"model": "small", **fields}).encode()
    marks = "<|VIRTUAL_PROMPT_0|>a<|VIRTUAL_PROMPT_1|>"
    chat = [{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]}, {"role": "assistant", "content": None}]
    return [of(0, prompt="ab c", max_tokens=3, n=2, stop=["b", "ca"], logit_bias={"1": -100, "2": 5.5}, seed=-1, logprobs=3, presence_penalty=1), of(0, prompt=[[0, 1], [3]], echo=True, logprobs=1, max_tokens=1),
            of(0, prompt="a", stream=True, stream_options={"include_usage": True}, bad_words=["c"], stop_token_ids=[3], min_tokens=2), of(0, prompt=["a", ""], best_of=3, truncate_prompt_tokens=1),
            of(1, messages=chat, tools=[{"type": "function", "function": {"name": "c"}}], logprobs=True, top_logprobs=2, max_completion_tokens=2), of(1, messages=chat[1:], stream=True, chat_template_kwargs={"x": 1}),
            of(0, prompt="a", response_format={"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {"type": "object", "properties": {"a": {"enum": ["b"]}}}}}), of(0, prompt="a", guided_regex="[ab]+c?"),
            of(0, prompt="a", structured_outputs={"choice": ["ab", "c"]}), of(0, prompt="a", use_beam_search=True, best_of=3, n=2, length_penalty=0.5, early_stopping="never", logprobs=1), of(0, prompt="a", guided_json={"$ref": "#"}),
            *(of(1, messages=chat, tools=[{"type": "function", "function": {"name": "c", "parameters": {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "null"}}}}}], tool_choice=choice, stream=stream)
              for choice in ("required", {"type": "function", "function": {"name": "c"}}) for stream in (True, False)),
            of(1, messages=[*chat, {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "c", "arguments": "{\"a\": null}"}}]}, {"role": "tool", "content": "b", "tool_call_id": "1"}]),
            of(2, input=["a", "bc"], encoding_format="base64"), of(2, input=[1, 2]), of(3, prompt="ab", return_token_strs=True), of(3, content="a", with_pieces=True), of(4, tokens=[1, 2, 7]),
            of(0, prompt="a" * 100), of(0, prompt=[8]), of(0, prompt="a", n=9), b"\x00" + b'{"a":' * 120, b'\x00{"model": "small", "model": "x"}', b"\x01[]", b"",
            of(0, model="marked", prompt=[marks, "b" + marks], echo=True), of(1, model="marked", messages=[{"role": "user", "content": marks}]), of(3, model="single", prompt=marks),
            of(0, model="marked", prompt=[8, 9, 10]), of(0, model="single", prompt=[[8], [8, 9]]), of(4, model="marked", tokens=[0, 8])]


def kserve_body():
    def of(*inputs, binary=b"", adapter=0, **more):
        text = json.dumps({"inputs": list(inputs), **more}).encode()
        return bytes([adapter]) + (str(len(text)).encode() if binary else b"") + b"\n" + text + binary
    def tensor(name, data, shape, kind="UINT32"):
        return {"name": name, "datatype": kind, "shape": shape, "data": data}
    ids, lengths, new = tensor("input_ids", [[0, 1], [3, 0]], [2, 2]), tensor("input_lengths", [2, 1], [2, 1]), tensor("request_output_len", [3, 3], [2, 1])
    raw = {"name": "input_ids", "datatype": "UINT32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
    return [of(ids, lengths, new), of(ids, new, tensor("stop_words_list", [0, 1, 2, -1, 3, 0, 1, -1], [2, 2, 2], "INT32"), tensor("runtime_top_p", [0.5, 0.1], [2, 1], "FP32"), id="x"),
            of(raw, tensor("request_output_len", [1], [1, 1]), binary=bytes(8), outputs=[{"name": "output_ids", "parameters": {"binary_data": True}}]),
            of(ids, tensor("random_seed", [2**64 - 1, 1], [2, 1], "UINT64"), new, parameters={"timeout": 5, "binary_data_output": True}),
            of(tensor("input_ids", [1], [16, 2**60 + 2])), of(tensor("input_ids", [[[[1]]]], [1, 1]), new), of(), b"\x0099999999999\n{}", b"\x00\n", b"",
            *(of(tensor("input_ids", [prompt], [1, len(prompt)]), tensor("request_output_len", [2], [1, 1]), adapter=adapter)
              for adapter, prompt in ((1, [0, 8]), (2, [0, 8, 9, 1, 10]), (2, [8, 9]), (3, [8, 1]), (3, [8, 9])))]


def grpc_message():
    def varint(n):
        return bytes([n & 127 | 128]) + varint(n >> 7) if n > 127 else bytes([n])
    def field(number, value):
        if isinstance(value, int):
            return varint(number << 3) + varint(value % 2**64)
        value = value.encode() if isinstance(value, str) else value
        return varint(number << 3 | 2) + varint(len(value)) + value
    def tensor(name, shape, contents=b"", kind="UINT32"):
        return field(5, field(1, name) + field(2, kind) + field(3, b"".join(varint(n % 2**64) for n in shape)) + contents)
    def words(*values):
        return field(5, field(4, b"".join(map(varint, values))))
    head = field(1, "small") + field(3, "7")
    ids, new = tensor("input_ids", [2, 2], words(0, 1, 3, 0)), tensor("request_output_len", [2, 1], words(3, 3))
    raw = tensor("input_ids", [1, 2]) + tensor("request_output_len", [1, 1]) + field(7, bytes([1, 0, 0, 0, 2, 0, 0, 0])) + field(7, bytes([2, 0, 0, 0]))
    timeout = field(4, field(1, "timeout") + field(2, field(2, 5)))
    return [kind + text for kind in (b"\x00", b"\x01") for text in (
        head + ids + new, head + raw, head + raw + field(6, field(1, "output_ids")), head + timeout + ids + new + tensor("runtime_top_p", [2, 1], field(5, field(6, bytes(8))), "FP32"),
        head + ids + new + tensor("stop_words_list", [2, 2, 2], field(5, field(2, b"".join(varint(n % 2**64) for n in (0, 1, 2, -1, 3, 0, 1, -1)))), "INT32"),
        head + tensor("input_ids", [16, 2**60 + 2]), head + ids + field(7, b""), head)] + [bytes([kind]) + field(1, "small") + field(2, "small") for kind in range(2, 8)] + [b""] + [
        b"\x00" + field(1, name) + tensor("input_ids", [1, len(prompt)], words(*prompt)) + tensor("request_output_len", [1, 1], words(2))
        for name, prompt in (("plain", [0, 8]), ("marked", [0, 8, 9, 1, 10]), ("marked", [8, 9]), ("single", [8, 1]), ("single", [8, 9]))]


def peft_config():
    def of(**changes):
        return json.dumps({"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"], **changes}).encode()
    return [of(), of(target_modules="all-linear", use_rslora=True), of(target_modules=r".*\.(q|v)_proj", exclude_modules="v_proj"), of(target_modules=r"model\.layers\.[0-9]{1,2}\.self_attn\.q_proj"),
            of(layers_to_transform=[0, 11], layers_pattern="h"), of(rank_pattern={"q_proj": 4, r"layers\.\d+\.x": 2}, alpha_pattern={"^v_proj": 1e-3}), of(use_dora=True), of(lora_bias=True), of(bias="all"),
            of(init_lora_weights="pissa"), of(r=0), of(lora_alpha=1e308, r=65536), of(target_modules="(a|b)*a(a|b){9}"), of(target_modules=[""], modules_to_save=["lm_head"]), of(peft_type="IA3"), b"[]", b""]


def question_file():
    def of(*questions, context="caf\u00e9 the man \U0001f600 x"):
        return json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(questions)}]}]})
    def asked(name, *answers, **more):
        return {"id": name, "question": "who?", "answers": [{"text": text, "answer_start": start} for text, start in answers], **more}
    one, none = asked("a", ("the man", 5), ("man", 9)), asked("b", is_impossible=True)
    return text(of(one), of(one, none), of(one, none).replace("\\u", "\\U"), of(one) + '\n%%\n{"a": "The man!", "z": "x"}', of(one, none) + '\n%%\n{"a": "a x", "b": ""}',
                of(one, none) + '\n%%\n{"a": 1}', of(asked("a", ("x", 15))), of(asked("a", ("\U0001f600", 13))), of(asked("a", ("x", 99))), of(asked("a", ("", 0))), of(one, one),
                of(asked("a", ("man", 9), is_impossible=True)), of(asked("a", ("the", 0), (".", 0))) + '\n%%\n{"a": "an"}', of(), '{"data": [{"paragraphs": [{}]}]}', "[]", "")


def tagged_file():
    lines = '{"tokens": ["The", "cats", "see!"], "ner_tags": ["O", 1, 2]}\n\n{"words": ["cat", 7], "tags": ["B-X", -100], "ner_tags": null}\n'
    columns = "-DOCSTART- -X- O\n\nthe DT O\ncats NN B-X\r\n \t\n\nsees\tI-X"
    return [kind + text.encode() for kind, texts in (
        (b"\x01", (lines, '{"tokens": ["a"], "tags": []}', '{"tokens": ["a"], "labels": [3]}', '{"tokens": ["a"], "labels": [18446744073709551615]}', '{"tokens": "a", "tags": ["O"]}', "[]")),
        (b"\x03", (json.dumps({"tokens": ["cats"] * 20, "tags": ["O"] * 20}), json.dumps({"tokens": ["", "\u00ad", "the"] * 9, "tags": [-100, 0, "I-X"] * 9}))),
        (b"\x00", (columns, "\ufeffthe O\nsees -100\n", "one\n", "the B-Y\n", "-DOCSTART-\n", "", "\x00 O\n")), (b"\x02", ("cats O\n" * 30,))) for text in texts]


def http_request():
    post = b"POST /v1/completions?x=%2f HTTP/1.1\r\nHost: a\r\n"
    return [b"\x03GET / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\nGET /%41 HTTP/1.0\r\n\r\n", b"\x00" + post + b"Content-Length: 4\r\n\r\nbody", b"\x01" + post + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nT: x\r\n\r\n",
            b"\x05" + post + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"\x07" + post + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody", b"\x02" + post + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
            b"\x02PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x02GET http://a/b HTTP/1.1\nHost: a\n\n", b"\x02GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", b"\x0f" + post + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n", b""]


def json_schema():
    return text(
        "{}", "false", '{"type": ["integer", "null"], "minimum": -5, "exclusiveMaximum": 120}', '{"type": "number", "minimum": 0.25, "maximum": 1e2}',
        '{"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}, "b": {"enum": ["x", 1, null, {"y": []}]}}, "required": ["b"]}',
        '{"properties": {"ab": {"const": 1}}, "additionalProperties": {"type": "boolean"}, "minProperties": 1}',
        '{"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/t"}, {"type": "null"}]}, "maxItems": 2}}}',
        '{"allOf": [{"properties": {"a": {}}}, {"required": ["a"]}], "anyOf": [{"properties": {"a": {"type": "null"}}}, {"required": ["c"]}]}',
        '{"type": "string", "pattern": "^[a-c\\\\d]+(x|é)?$", "minLength": 2}', '{"type": "string", "format": "date-time"}', '{"type": "string", "nullable": true}',
        "/(a|b)*a(a|b){2}", "/[^\\d\\s]+?|\\u00e9{1,2}$", "/^$")


SEEDS = {f.__name__: f for f in (recipe, tokenizer_json, encode, ids_json, utf8_stream, documents, indexed, safetensors, manifest, safetensors_index, gguf, gguf_model, metrics,
                                 events, run_record, hugging_face, run_state, earlier_start, lock_file, score_line, chat_template, json_schema, sentencepiece, tiktoken, tekken, gguf_vocabulary,
                                 gguf_writing, openai_body, peft_config, kserve_body, grpc_message, http_request, question_file, tagged_file)}
