// SPDX-License-Identifier: Apache-2.0
#include "config/recipe.h"

namespace megalith::config {

using settings::above;
using settings::between;
using settings::from_below;

void ModelSection::visit(FieldVisitor& v) {
  v.field("kind", kind, "what it is trained for (gpt: the next token)");
  v.field("family", family,
          "a family of docs/models.md: the defaults of what describes a layer, and the names of an "
          "export");
  v.field("layers", layers, "number of blocks, of an encoder-decoder in its encoder",
          between(1, 100000));
  v.field("decoder_layers", decoder_layers, "in its decoder; 0: model.layers", between(0, 100000));
  v.field("decoder_start", decoder_start,
          "of an encoder-decoder: id of the token before a decoder's first",
          between(0, 2147483647));
  v.field("hidden", hidden, "width of the residual stream", between(1, 1 << 24));
  v.field("heads", heads, "query heads", between(1, 1 << 20));
  v.field("kv_heads", kv_heads,
          "key and value heads; divides heads; 0: heads (Ainslie et al. 2023)",
          between(0, 1 << 20));
  v.field("head_dim", head_dim, "width of a head; 0: hidden / heads", between(0, 1 << 16));
  v.field("ffn", ffn, "width of the feed-forward layer; 0: the family's", between(0, 1 << 26));
  v.field("context", context, "longest sequence, in tokens", between(1, 1 << 28));
  v.field("vocab", vocab, "number of token ids; 0: the tokenizer's", between(0, 2147483647));
  v.field("dropout", dropout, "probability of dropping an activation (Srivastava et al. 2014)",
          from_below(0, 1));
  v.field(
      "attention", attention,
      "streaming keeps no sequence x sequence matrix (Dao et al. 2022); materialised stores it");
  v.field("tied", tied, "the output projection is the token embedding (Press & Wolf 2017)");
  v.field("norm", norm, "layer (Ba et al. 2016) or rms (Zhang & Sennrich 2019)");
  v.field("norm_place", norm_place,
          "where norms stand: pre x + f(norm(x)), post norm(x + f(x)), both x + norm(f(norm(x))), "
          "output x + norm(f(x))");
  v.field("parallel_block", parallel_block, "attention and MLP read the same stream");
  v.field("mlp", mlp, "plain, or gated: act(gate) up (Shazeer 2020)");
  v.field("activation", activation, "of the MLP");
  v.field("bias", bias, "of products and layer norms");
  v.field("position", position,
          "a learned table, rotary positions in attention (Su et al. 2021), sines and cosines, or "
          "biases of scores by distance (relative, Raffel et al. 2020)");
  v.section("rope", rope, "Rotary positions.");
  v.field(
      "window", window,
      "keys that a query sees, itself the last, in every layer or in those where the family has "
      "windows; 0: all; -1: the family's",
      between(-1, 1 << 28));
  v.field("qk_norm", qk_norm, "norm of queries and keys before positions");
  v.field("norm_eps", norm_eps, "added to the variance in normalisation", between(1e-12, 1));
  v.field("init_std", init_std,
          "standard deviation of initial weights; residual projections: / sqrt(2 layers)",
          between(0, 10));
}

void RopeSection::visit(FieldVisitor& v) {
  v.field("base", base, "the slowest pair turns by about 1 / base; 0: the family's",
          between(0, 1e12));
  v.field("dim", dim, "leading elements of a head that turn; 0: the family's", between(0, 512));
  v.field("scaling", scaling, "how positions reach beyond original_context");
  v.field("factor", factor, "by how much they reach", above(0));
  v.field("original_context", original_context, "trained length; 0: model.context",
          between(0, 1 << 28));
  v.field("low_frequency_factor", low_frequency_factor, "llama3", above(0));
  v.field("high_frequency_factor", high_frequency_factor, "llama3", above(0));
  v.field("beta_fast", beta_fast, "yarn", above(0));
  v.field("beta_slow", beta_slow, "yarn", above(0));
  v.field("attention_factor", attention_factor,
          "of cosines and sines, yarn and longrope; 0: the formula's", between(0, 1e6));
  v.field("short_factors", short_factors, "longrope, up to original_context");
  v.field("long_factors", long_factors, "longrope, beyond it");
}

}  // namespace megalith::config
