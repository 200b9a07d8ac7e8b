# SPDX-License-Identifier: Apache-2.0
"""Crammed BERT (Geiping & Goldstein 2023) in PyTorch, for want of a class in transformers: written from the paper and from the
settings of config/arch/crammed-bert.yaml, with the tensor names and the config.json of the published checkpoint. Importing this
registers it with transformers' Auto classes.

All of it is computed in the type of the weights: in float64 the positions too, which makes it the reference of itself in float32."""
import copy
import math

import torch
import transformers
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput

NONLINEARITIES = {"GELU": torch.nn.functional.gelu, "ReLU": torch.relu, "SiLU": torch.nn.functional.silu}
ARCH = {
    "num_transformer_layers": 3, "hidden_size": 40, "intermed_size": 56, "hidden_dropout_prob": 0.0, "norm": "LayerNorm",
    "norm_eps": 1e-12, "norm_scheme": "pre", "nonlin": "GELUglu", "tie_weights": True, "decoder_bias": False,
    "sparse_prediction": 0.25, "loss": "cross-entropy", "objective_layout": "MLM",
    "embedding": {"vocab_size": 131, "pos_embedding": "scaled-sinusoidal", "dropout_prob": 0.0, "pad_token_id": 0,
                  "max_seq_length": 64, "embedding_dim": 40, "normalization": True, "stable_low_precision": False},
    "attention": {"type": "self-attention", "causal_attention": False, "num_attention_heads": 4, "dropout_prob": 0.0,
                  "skip_output_projection": False, "qkv_bias": False, "rotary_embedding": False, "seq_op_in_fp32": False,
                  "sequence_op": "torch-softmax"},
    "init": {"type": "normal", "std": 0.2}, "ffn_layer_frequency": 1, "skip_head_transform": True, "use_bias": False,
    "final_norm": True, "num_labels": None}


def merged(settings, changes):
    """A copy with the changes in it, section by section."""
    result = copy.deepcopy(settings)
    for key, value in changes.items():
        result[key] = merged(result[key], value) if isinstance(value, dict) and isinstance(result.get(key), dict) else value
    return result


class CrammedConfig(transformers.PretrainedConfig):
    model_type = "crammedBERT"

    def __init__(self, arch=None, **others):
        self.arch = arch or ARCH
        others.setdefault("tie_word_embeddings", True)
        super().__init__(**others)

    vocab_size = property(lambda self: self.arch["embedding"]["vocab_size"])


def norm_of(arch):
    return torch.nn.LayerNorm(arch["hidden_size"], eps=arch["norm_eps"])


class ScaledSinusoidal(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.scale_factor = torch.nn.Parameter(torch.tensor([width**-0.5]))

    def forward(self, length):
        dtype = self.scale_factor.dtype
        inverse = torch.exp(torch.arange(0, self.width, 2, dtype=dtype) * (-math.log(10000) / self.width))
        angles = torch.arange(length, dtype=dtype)[:, None] * inverse
        return self.scale_factor * torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


class Learned(torch.nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.embedding = torch.nn.Embedding(length, width)

    def forward(self, length):
        return self.embedding.weight[:length]


class Embedding(torch.nn.Module):
    def __init__(self, arch):
        super().__init__()
        sizes, width = arch["embedding"], arch["hidden_size"]
        self.word_embedding = torch.nn.Embedding(sizes["vocab_size"], width)
        self.pos_embedding = {"scaled-sinusoidal": lambda: ScaledSinusoidal(width), None: lambda: None,
                              "learned": lambda: Learned(width, sizes["max_seq_length"])}[sizes["pos_embedding"]]()
        self.norm = norm_of(arch) if sizes["normalization"] else torch.nn.Identity()

    def forward(self, ids):
        rows = self.word_embedding(ids)
        return self.norm(rows if self.pos_embedding is None else rows + self.pos_embedding(ids.shape[1]))


class SelfAttention(torch.nn.Module):
    """Rows of the fused product go head by head: query, key, value."""

    def __init__(self, arch):
        super().__init__()
        self.heads = arch["attention"]["num_attention_heads"]
        self.query_key_value = torch.nn.Linear(arch["hidden_size"], 3 * arch["hidden_size"], bias=arch["attention"]["qkv_bias"])

    def forward(self, x):
        q, k, v = (part.transpose(1, 2) for part in self.query_key_value(x).unflatten(-1, (self.heads, -1)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        return (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(-2)


class Attention(torch.nn.Module):
    def __init__(self, arch):
        super().__init__()
        self.self_attention = SelfAttention(arch)
        self.dense = torch.nn.Linear(arch["hidden_size"], arch["hidden_size"], bias=arch["use_bias"])

    def forward(self, x):
        return self.dense(self.self_attention(x))


class FeedForward(torch.nn.Module):
    """The second half of a gated one is the gate."""

    def __init__(self, arch):
        super().__init__()
        width = arch["intermed_size"]
        self.is_gated = arch["nonlin"].endswith("glu")
        self.activation = NONLINEARITIES[arch["nonlin"].removesuffix("glu")]
        self.dense_in = torch.nn.Linear(arch["hidden_size"], width, bias=arch["use_bias"])
        self.dense_out = torch.nn.Linear(width // 2 if self.is_gated else width, arch["hidden_size"], bias=arch["use_bias"])

    def forward(self, x):
        u = self.dense_in(x)
        if not self.is_gated:
            return self.dense_out(self.activation(u))
        up, gate = u.chunk(2, -1)
        return self.dense_out(self.activation(gate) * up)


class Layer(torch.nn.Module):
    def __init__(self, arch):
        super().__init__()
        self.norm1, self.norm2 = norm_of(arch), norm_of(arch)
        self.attn, self.ffn = Attention(arch), FeedForward(arch)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class PredictionHead(torch.nn.Module):
    def __init__(self, arch):
        super().__init__()
        self.activation = NONLINEARITIES[arch["nonlin"].removesuffix("glu")]
        self.dense = torch.nn.Linear(arch["hidden_size"], arch["hidden_size"], bias=arch["use_bias"])
        self.norm = norm_of(arch)

    def forward(self, x):
        return self.norm(self.activation(self.dense(x)))


class Base(transformers.PreTrainedModel):
    config_class = CrammedConfig
    base_model_prefix = "encoder"

    @torch.no_grad()
    def _init_weights(self, module):
        if isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
            torch.nn.init.normal_(module.weight, std=self.config.arch["init"]["std"])
        if isinstance(module, ScaledSinusoidal):
            torch.nn.init.constant_(module.scale_factor, module.width**-0.5)


class ScriptableLM(Base):
    def __init__(self, config):
        super().__init__(config)
        self.embedding = Embedding(config.arch)
        self.layers = torch.nn.ModuleList(Layer(config.arch) for _ in range(config.arch["num_transformer_layers"]))
        self.final_norm = norm_of(config.arch) if config.arch["final_norm"] else torch.nn.Identity()
        self.post_init()

    def get_input_embeddings(self):
        return self.embedding.word_embedding

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        for layer in self.layers:
            x = layer(x)
        return BaseModelOutput(last_hidden_state=self.final_norm(x))


class ScriptableLMForPreTraining(Base):
    _tied_weights_keys = {"decoder.weight": "encoder.embedding.word_embedding.weight"}

    def __init__(self, config):
        super().__init__(config)
        arch = config.arch
        self.encoder = ScriptableLM(config)
        self.prediction_head = torch.nn.Identity() if arch["skip_head_transform"] else PredictionHead(arch)
        self.decoder = torch.nn.Linear(arch["hidden_size"], config.vocab_size, bias=arch["decoder_bias"])
        self.decoder.weight = self.encoder.embedding.word_embedding.weight
        self.post_init()

    def get_input_embeddings(self):
        return self.encoder.embedding.word_embedding

    def get_output_embeddings(self):
        return self.decoder

    def forward(self, input_ids):
        return MaskedLMOutput(logits=self.decoder(self.prediction_head(self.encoder(input_ids).last_hidden_state)))


transformers.AutoConfig.register("crammedBERT", CrammedConfig)
transformers.AutoModel.register(CrammedConfig, ScriptableLM)
transformers.AutoModelForMaskedLM.register(CrammedConfig, ScriptableLMForPreTraining)
