# SPDX-License-Identifier: Apache-2.0
"""Greedy generation of a T5 (v1.0) with made-up weights by Hugging Face transformers or CTranslate2: an input is read and `--tokens`
tokens follow, for `--batch` inputs at once. Prints JSON lines {"name", "value", "unit"} in new tokens/s, one per sample."""
import argparse
import json
import pathlib
import tempfile
import time

import torch
import transformers
from tokenizers import Tokenizer, models


def make_model(a):
    torch.manual_seed(1)
    return transformers.T5ForConditionalGeneration(transformers.T5Config(
        num_layers=a.layers, num_decoder_layers=a.layers, d_model=a.hidden, num_heads=a.heads, d_kv=a.head_dim, d_ff=a.ffn,
        vocab_size=a.vocab, feed_forward_proj="relu", dropout_rate=0, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)).eval()


def with_transformers(a, ids):
    model = make_model(a).to(torch.bfloat16 if a.dtype == "bf16" else torch.float32)
    # Its own caches; no end before the last token.
    model.generation_config.eos_token_id = None

    def generate(tokens):
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
        return out.shape[1] - 1
    return generate


def save_tokenizer(a, folder):
    """CTranslate2 speaks in the pieces of a vocabulary."""
    names = ["<pad>", "</s>", "<unk>"] + [f"w{i}" for i in range(a.vocab - 3)]
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>",
                                         unk_token="<unk>").save_pretrained(folder)
    return names


def with_ctranslate2(a, ids):
    import ctranslate2
    if a.dtype != "f32":
        raise SystemExit("CTranslate2 computes in f32 on a CPU, unless weights are quantised")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_model(a).save_pretrained(folder / "model")
        names = save_tokenizer(a, folder / "model")
        ctranslate2.converters.TransformersConverter(str(folder / "model")).convert(str(folder / "converted"))
        translator = ctranslate2.Translator(str(folder / "converted"), device="cpu", intra_threads=a.threads, inter_threads=1,
                                            compute_type="float32")
    pieces = [[names[i] for i in row] for row in ids.tolist()]

    def generate(tokens):
        found = translator.translate_batch(pieces, beam_size=1, max_decoding_length=tokens, min_decoding_length=tokens,
                                           max_batch_size=a.batch)
        return len(found[0].hypotheses[0])
    return generate


PEERS = {"transformers": with_transformers, "ctranslate2": with_ctranslate2}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("peer", choices=PEERS)
    for name, default in (("layers", 6), ("hidden", 512), ("heads", 8), ("head-dim", 64), ("ffn", 2048), ("vocab", 32128),
                          ("input", 128), ("tokens", 128), ("batch", 1), ("samples", 3)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    generate = PEERS[a.peer](a, torch.randint(3, a.vocab, (a.batch, a.input), generator=torch.Generator().manual_seed(2)))
    generate(8)
    for _ in range(a.samples):
        begin = time.monotonic()
        tokens = generate(a.tokens)
        seconds = time.monotonic() - begin
        if tokens != a.tokens:
            raise SystemExit(f"{tokens} tokens, not {a.tokens}")
        print(json.dumps({"name": f"{a.peer}.{a.dtype}.generate", "value": a.batch * tokens / seconds, "unit": "tokens/s"}), flush=True)


if __name__ == "__main__":
    main()
