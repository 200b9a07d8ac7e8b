# SPDX-License-Identifier: Apache-2.0
"""Products, training steps, memory, decoding and prompts of models, beside PyTorch, llama.cpp and transformers."""
import statistics

BF16, F32 = (("--set", f"precision.parameters={dtype}", "--set", f"precision.compute={dtype}") for dtype in ("bf16", "f32"))

OWN_SIDES = {"bf16": BF16, "f32": F32}

# PyTorch as installed; and with an allocator that keeps what it was given back instead of taking every large tensor anew
# from the system, page by page.
TORCH_MEMORY = {"installed": {}, "keeping": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}}

ALL_SIDES = [(dtype, compiled, memory) for dtype in ("f32", "bf16") for compiled in (False, True)
             for memory in (("keeping",) if dtype == "f32" else ("keeping", "installed"))]
LONG_SIDES = [side for side in ALL_SIDES if side[0] == "bf16"]


def torch_name(dtype, compiled, memory):
    return f"{memory}.torch.{dtype}.{'compile' if compiled else 'eager'}"


def train_shape(r, name, recipe, shape, sides, samples, turns=1, own=tuple(OWN_SIDES)):
    """`sides`: of (dtype, compiled, memory) in PyTorch. `turns` times the rounds: for steps so short that a round passes in
    one mood of the machine."""
    rate = ("train.tokens_per_second", "train.peak_resident", "train.share_of_best_gemm", "gemm.best")
    for _ in range(r.rounds * turns):
        for side in own:
            r.bench(f"{name}.{side}", "train", recipe, *OWN_SIDES[side], "--samples", samples, only=rate)
        for dtype, compiled, memory in sides:
            r.peer(f"{name}.{memory}", "torch_train.py", *shape, "--dtype", dtype, "--samples", samples,
                   *(["--compile"] if compiled else []), environment=TORCH_MEMORY[memory])
    ours = max((f"{name}.{side}.train.tokens_per_second" for side in own), key=lambda n: r.median(n) or 0)
    for chosen, how in (("installed", "PyTorch as installed"), ("keeping", "PyTorch with an allocator that keeps memory")):
        if rivals := [f"{name}.{torch_name(*side)}" for side in sides if side[2] == chosen]:
            r.rate(f"{name}: training against {how}", ours, *rivals)
    for side in own:
        share = r.median(f"{name}.{side}.train.share_of_best_gemm")
        if share:
            r.note(f"=> {name}, {side}: {share:.1f} % of the best GEMM rate, "
                   f"{r.median(f'{name}.{side}.train.peak_resident'):.2f} GiB resident at most")


def recipe_of(r, name, layers, hidden, heads, context, vocab, batch):
    """A recipe of this shape and the same for PyTorch."""
    path = r.work / f"{name}.yaml"
    path.write_text(f"model: {{layers: {layers}, hidden: {hidden}, heads: {heads}, context: {context}, vocab: {vocab}}}\n"
                    f"train: {{steps: 1, global_batch: {batch}, micro_batch: {batch}}}\n")
    return path, ["--layers", layers, "--hidden", hidden, "--heads", heads, "--vocab", vocab, "--context", context,
                  "--micro-batch", batch]


def gpt2(r):
    return recipe_of(r, "tiny", 2, 64, 2, 64, 1024, 2)[0] if r.tiny else "recipes/gpt2_124m.yaml"


def train(r):
    recipe, shape = gpt2(r), recipe_of(r, "tiny", 2, 64, 2, 64, 1024, 2)[1] if r.tiny else []
    train_shape(r, "gpt2_124m", recipe, shape, ALL_SIDES, r.size(3, 1))


def llama_of(r, name, layers, hidden, heads, kv_heads, ffn, context, vocab, batch):
    """A recipe of this Llama, and the same for the others."""
    recipe = r.work / f"{name}.yaml"
    recipe.write_text(f"model: {{family: llama, layers: {layers}, hidden: {hidden}, heads: {heads}, kv_heads: {kv_heads}, ffn: {ffn}, "
                      f"context: {context}, vocab: {vocab}}}\ntrain: {{steps: 1, global_batch: {batch}, micro_batch: {batch}}}\n")
    shape = ["--family", "llama", "--layers", layers, "--hidden", hidden, "--heads", heads, "--kv-heads", kv_heads, "--ffn", ffn,
             "--vocab", vocab, "--context", context]
    return recipe, shape, batch


TINY_LLAMA = 2, 64, 4, 2, 96, 64, 512, 2


def llama_shape(r):
    """A Llama of 56M parameters with grouped heads."""
    return llama_of(r, "llama", *(TINY_LLAMA if r.tiny else (8, 512, 8, 4, 1408, 1024, 32000, 4)))


def llama(r):
    recipe, shape, batch = llama_shape(r)
    train_shape(r, "llama_56m", recipe, [*shape, "--micro-batch", batch], ALL_SIDES, r.size(5, 1))


def llama_decode(r):
    decode_shape(r, "llama_56m", [*llama_shape(r)[1], "--prompt", r.size(64, 16)])


def demo(r):
    """The model of recipes/demo.yaml."""
    recipe, shape, batch = llama_of(r, "demo", *(TINY_LLAMA if r.tiny else (4, 256, 4, 4, 704, 128, 4096, 8)))
    train_shape(r, "demo_model", recipe, [*shape, "--micro-batch", batch], ALL_SIDES, r.size(5, 1), r.size(2, 1))


def sequence(r, length, samples, sides, own):
    recipe, shape = recipe_of(r, f"long_{length}", r.size(4, 1), r.size(768, 64), r.size(12, 2), length, r.size(50304, 512), 1)
    train_shape(r, f"sequence_{length}", recipe, shape, sides, samples, own=own)


def long(r):
    sequence(r, r.size(4096, 128), r.size(3, 1), LONG_SIDES, tuple(OWN_SIDES))


def longest(r):
    """Steps of a minute and more: the faster sides alone."""
    sequence(r, r.size(16384, 256), r.size(3, 1), [s for s in LONG_SIDES if s[2] == "keeping"], ("bf16",))


def memory(r):
    for recompute in ("none", "full"):
        r.bench(f"memory.{recompute}", "train", gpt2(r), *BF16, "--set", "checkpoint.async=false",
                "--set", f"memory.recompute={recompute}", "--samples", 1, only=("train.peak_resident",))
        r.note(f"=> 124M in bf16 storage, recomputation {recompute}: "
               f"{r.median(f'memory.{recompute}.train.peak_resident'):.2f} GiB resident at most")


def decode_shape(r, name, shape):
    for _ in range(r.rounds):
        for_all = [*shape, "--tokens", r.size(512, 16), "--samples", r.size(2, 1)]
        r.bench(f"decode_{name}", "decode", *for_all, "--dtype", "bf16")
        r.peer(f"decode_{name}", "llama_decode.py", *for_all)
        r.peer(f"decode_{name}", "hf_generate.py", *for_all)
    ours = f"decode_{name}.decode.tokens_per_second"
    r.rate(f"decoding {name} against llama.cpp", ours, f"decode_{name}.llama.cpp.bf16.decode")
    r.rate(f"decoding {name} against transformers", ours, f"decode_{name}.transformers.bf16.decode")
    r.note(f"=> decoding {name}: {r.median(f'decode_{name}.decode.share_of_read_bandwidth'):.1f} % of the "
           f"read bandwidth ({r.median(f'decode_{name}.decode.read_bandwidth'):.1f} GB/s)")


def decode(r):
    common = ["--vocab", r.size(50304, 1024), "--context", 1024, "--prompt", 64]
    shapes = {"124m": [], "0.5b": ["--layers", 24, "--hidden", 1280, "--heads", 20]}
    if r.tiny:
        shapes = {"tiny": ["--layers", 2, "--hidden", 64, "--heads", 2]}
    for name, shape in shapes.items():
        decode_shape(r, name, [*shape, *common])


def prompt(r):
    common = ["--vocab", 50304, "--context", 2048, "--prompt", 1024, "--tokens", 4]
    if r.tiny:
        common = ["--layers", 2, "--hidden", 64, "--heads", 2, "--vocab", 1024, "--context", 256, "--prompt", 128,
                  "--tokens", 4]
    for _ in range(r.rounds):
        r.bench("prompt", "decode", *common, "--dtype", "bf16", "--samples", r.size(5, 1))
        r.peer("prompt", "llama_decode.py", *common, "--samples", r.size(5, 1))
    r.rate("a prompt of 1024 tokens, 124M", "prompt.decode.prompt_tokens_per_second", "prompt.llama.cpp.bf16.prompt")
    r.note(f"=> prompt: {r.median('prompt.decode.prompt_share_of_best_gemm'):.1f} % of the best GEMM rate")


def gemm(r):
    """The ceiling; and our products against the library's, operation by operation."""
    for _ in range(r.rounds):
        r.bench("", "gemm", "--samples", r.size(5, 1))
    for dtype in ("f32", "bf16"):
        shares = {n: r.median(n) for n in r.samples if n.startswith(f"gemm.exact_over_library.{dtype}.")}
        if not shares:
            continue
        low = min(shares, key=shares.get)
        best = max(r.median(n) for n in r.samples if n.startswith("gemm.ceiling.") and n.endswith(f".{dtype}"))
        r.note(f"=> {dtype}: ceiling {best:.0f} GFLOP/s; ours reach {statistics.median(shares.values()):.0f} % of the library's "
               f"(median of {len(shares)}), at least {shares[low]:.0f} % ({low})")
