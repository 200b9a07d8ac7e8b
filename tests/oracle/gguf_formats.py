# SPDX-License-Identifier: Apache-2.0
"""Formats of tensors in GGUF files: read as gguf reads them, written as it writes them; called by gguf_oracle.py."""
import gguf
import numpy

from comparison import run
from decoder_folders import random_model, tensors_of
from gguf_files import SIZES, config_of, write_out, writer_like


def random_blocks(kind, count, generator):
    """Bytes of blocks whose 16-bit scales are finite."""
    block = gguf.GGML_QUANT_SIZES[kind][1]
    data = generator.integers(0, 256, (count, block), dtype=numpy.uint8)
    halves = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
    for at in halves[kind.name]:
        data[:, at + 1] &= 0xBF
    return data


def compare_blocks(checks, program, folder):
    """A Llama whose MLPs are stored in every format."""
    kinds = [gguf.GGMLQuantizationType[name] for name in (
        "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")]
    settings = SIZES | {"hidden_size": 256, "intermediate_size": 256, "head_dim": 64, "num_hidden_layers": len(kinds)}
    random_model(folder / "blocks", config_of("llama", settings))
    run(program, "convert", "--from", folder / "blocks", "--to", folder / "plain.gguf", "--format", "gguf")
    reader, generator, expected = gguf.GGUFReader(folder / "plain.gguf"), numpy.random.default_rng(5), {}
    writer = writer_like(reader, folder / "blocks.gguf")
    for tensor in reader.tensors:
        data, kind = numpy.array(tensor.data), gguf.GGMLQuantizationType.F32
        if ".ffn_" in tensor.name and tensor.name.endswith("weight") and "norm" not in tensor.name:
            layer = int(tensor.name.split(".")[1])
            kind = kinds[layer]
            if kind.name.endswith("_K"):
                data = random_blocks(kind, data.size // 256, generator).reshape(data.shape[0], -1)
            else:
                data = gguf.quantize(data, kind)
            part = tensor.name.split(".")[2].removeprefix("ffn_")
            expected[f"model.layers.{layer}.mlp.{part}_proj.weight"] = (kind.name, gguf.dequantize(data, kind))
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    write_out(writer)
    run(program, "convert", "--from", folder / "blocks.gguf", "--to", folder / "wide", "--format", "hf", "--dtype", "f32")
    wide = tensors_of(folder / "wide")
    for kind in kinds:
        mine = [name for name, (stored, _) in expected.items() if stored == kind.name]
        equal = all(wide[name][2] == numpy.ascontiguousarray(expected[name][1], numpy.float32).tobytes() for name in mine)
        checks.expect(f"{kind.name}: values of gguf, to the bit", equal and len(mine) == 3, f"{len(mine)} tensors")


def compare_narrowed(checks, program, folder):
    """Written by megalith and by gguf."""
    random_model(folder / "theirs", config_of("llama", SIZES))
    wide = folder / "wide.gguf"
    run(program, "convert", "--from", folder / "theirs", "--to", wide, "--format", "gguf")
    for stored in ("bf16", "f16"):
        name, file = stored.upper(), folder / f"{stored}.gguf"
        run(program, "convert", "--from", folder / "theirs", "--to", file, "--format", "gguf", "--dtype", stored)
        kind = gguf.GGMLQuantizationType[name]
        before = {tensor.name: tensor for tensor in gguf.GGUFReader(wide).tensors}
        differ, matrices = [], 0
        for tensor in gguf.GGUFReader(file).tensors:
            data = numpy.array(before[tensor.name].data)
            wanted = gguf.quantize(data, kind) if data.ndim == 2 else data
            matrices += data.ndim == 2
            if tensor.data.tobytes() != wanted.tobytes():
                differ.append(tensor.name)
        checks.expect(f"{name}: bytes of gguf", not differ and matrices == 23, f"{matrices} matrices" + ", ".join(differ))
