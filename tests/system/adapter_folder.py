# SPDX-License-Identifier: Apache-2.0
"""Adapters, LoRA with and without magnitudes, IA3 and virtual tokens, of the small models of the system tests (program.RECIPE, and LLAMA of its sizes), as PEFT writes them."""
import array
import json
import random
import struct
from typing import NamedTuple

HIDDEN, LAYERS, FFN, RANK = 32, 2, 64, 3
LLAMA_RECIPE = ("model.family=llama", "model.kv_heads=2", f"model.ffn={FFN}")


class Modules(NamedTuple):
    prefix: str
    sizes: dict  # by module: inputs, outputs
    config: dict


GPT2 = Modules("transformer.h", {"attn.c_attn": (HIDDEN, 3 * HIDDEN), "attn.c_proj": (HIDDEN, HIDDEN), "mlp.c_fc": (HIDDEN, 4 * HIDDEN)},
               {"fan_in_fan_out": True, "target_modules": ["c_attn", "attn.c_proj", "c_fc"]})
LLAMA = Modules("model.layers", {"self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (HIDDEN, HIDDEN // 2), "self_attn.v_proj": (HIDDEN, HIDDEN // 2),
                                 "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (HIDDEN, FFN), "mlp.up_proj": (HIDDEN, FFN), "mlp.down_proj": (FFN, HIDDEN)},
                {"target_modules": "all-linear"})


def write_safetensors(path, tensors):
    """`tensors`: name: (shape, floats)"""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        content = array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_adapter(folder, seed, modules=GPT2, **changes):
    """With `use_dora`, with magnitudes."""
    draw = random.Random(seed)
    folder.mkdir(exist_ok=True)
    tensors = {}
    for layer in range(LAYERS):
        for module, (inputs, outputs) in modules.sizes.items():
            name = f"base_model.model.{modules.prefix}.{layer}.{module}."
            tensors[name + "lora_A.weight"] = [RANK, inputs], [draw.gauss(0, 0.4) for _ in range(RANK * inputs)]
            tensors[name + "lora_B.weight"] = [outputs, RANK], [draw.gauss(0, 0.4) for _ in range(outputs * RANK)]
            if changes.get("use_dora"):
                tensors[name + "lora_magnitude_vector"] = [outputs], [draw.gauss(0.3, 0.1) for _ in range(outputs)]
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": RANK, "lora_alpha": 2 * RANK, **modules.config, **changes}))
    return folder


def write_vectors(folder, seed, modules=GPT2, feedforward=("attn.c_proj",)):
    """Learned vectors of all the modules; of those that end so, of their inputs."""
    draw = random.Random(seed)
    folder.mkdir(exist_ok=True)
    tensors = {}
    for layer in range(LAYERS):
        for module, (inputs, outputs) in modules.sizes.items():
            shape = [1, inputs] if module in feedforward else [outputs, 1]
            tensors[f"base_model.model.{modules.prefix}.{layer}.{module}.ia3_l"] = shape, [draw.gauss(1, 0.5) for _ in range(shape[0] * shape[1])]
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "IA3", "feedforward_modules": list(feedforward), **modules.config}))
    return folder


def write_bottlenecks(folder, seed, size=5, layers="transformer.h", **changes):
    """As AdapterHub writes them."""
    draw = random.Random(seed)
    folder.mkdir(exist_ok=True)
    tensors = {}
    for layer in range(LAYERS):
        for place in ("attention_adapters", "output_adapters"):
            for name, shape in (("adapter_down.0.weight", [size, HIDDEN]), ("adapter_down.0.bias", [size]), ("adapter_up.weight", [HIDDEN, size]), ("adapter_up.bias", [HIDDEN])):
                count = shape[0] * (shape[1] if len(shape) == 2 else 1)
                tensors[f"{layers}.{layer}.{place}.adapters.mine.{name}"] = shape, [draw.gauss(0, 0.3) for _ in range(count)]
    write_safetensors(folder / "adapter.safetensors", tensors)
    config = {"mh_adapter": True, "output_adapter": True, "non_linearity": "swish", "reduction_factor": HIDDEN / size, "original_ln_before": False, "original_ln_after": True,
              "residual_before_ln": True, "adapter_residual_before_ln": False, "ln_before": False, "ln_after": False, **changes}
    (folder / "adapter_config.json").write_text(json.dumps({"config": config, "hidden_size": HIDDEN, "model_type": "gpt2", "name": "mine", "version": "adapters.1.2.0"}))
    return folder


def write_prompt(folder, seed, tokens=4, **changes):
    """Virtual tokens."""
    draw = random.Random(seed)
    folder.mkdir(exist_ok=True)
    write_safetensors(folder / "adapter_model.safetensors", {"prompt_embeddings": ([tokens, HIDDEN], [draw.gauss(0, 1) for _ in range(tokens * HIDDEN)])})
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": tokens, "num_transformer_submodules": 1, **changes}))
    return folder
