// SPDX-License-Identifier: Apache-2.0
#include "spec/model_spec.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "base/integer.h"
#include "spec/head_types.h"

namespace megalith::models {
namespace {

using layers::LayerSpec;
using layers::norm_parameters;
using layers::NormSpec;

int64_t attention_parameters(const layers::AttentionSpec& a, int64_t hidden) {
  int64_t sum = a.qkv_width() * hidden + a.query_width() * hidden;
  if (a.qkv_bias) sum += a.qkv_width();
  if (a.output_bias) sum += hidden;
  // Norms of queries and keys have weights alone.
  if (a.qk_norm == layers::QkNorm::head) sum += 2 * a.head_dim;
  if (a.qk_norm == layers::QkNorm::whole) sum += (a.heads + a.kv_heads) * a.head_dim;
  return sum;
}

int64_t layer_parameters(const LayerSpec& layer, int64_t hidden) {
  const layers::MlpSpec& m = layer.mlp;
  int64_t sum =
      attention_parameters(layer.attention, hidden) + m.up_width() * hidden + m.ffn * hidden;
  if (layer.cross) sum += attention_parameters(*layer.cross, hidden);
  if (m.bias) sum += m.up_width() + hidden;
  const int64_t norms =
      (layer.norm_place == layers::NormPlace::both ? 2 : 1) * (layer.cross ? 3 : 2);
  return sum + (layer.attention_norm ? norms : norms - 1) * norm_parameters(layer.norm, hidden);
}

int64_t embedding_parameters(const ModelSpec& m) {
  const layers::EmbeddingSpec& e = m.embedding;
  const int64_t width = m.table_width();
  int64_t rows = m.vocab + e.token_types;
  if (e.position == layers::PositionKind::learned) rows += m.context + e.position_offset;
  int64_t sum = rows * width;
  if (e.position == layers::PositionKind::sinusoidal) ++sum;  // their scale
  if (e.norm) sum += norm_parameters(*e.norm, width);
  if (e.width != 0) sum += width * m.hidden + m.hidden;
  return sum;
}

void check_attention(const layers::AttentionSpec& a, std::vector<std::string>& faults) {
  if (a.heads % a.kv_heads != 0)
    faults.push_back(fmt::format("heads {} is not a multiple of kv_heads {}", a.heads, a.kv_heads));
  const layers::RopeSpec& rope = a.rope;
  if (rope.dim > a.head_dim || rope.dim % 2 != 0) {
    faults.push_back(
        fmt::format("rotary positions turn {} elements of heads of {}; they take an even part",
                    rope.dim, a.head_dim));
  }
  if (a.relative) {
    if (a.relative->buckets > layers::kMostBuckets ||
        a.relative->max_distance > layers::kLargestDistance) {
      faults.push_back(
          fmt::format("relative positions of {} buckets and distances up to {}: at most {} and {}",
                      a.relative->buckets, a.relative->max_distance, layers::kMostBuckets,
                      layers::kLargestDistance));
    }
    if (std::string fault = a.relative_buckets().fault(); !fault.empty())
      faults.push_back(std::move(fault));
    if (a.softcap > 0) faults.emplace_back("no code caps scores that have relative positions");
  }
  if (rope.scaling == layers::RopeScaling::longrope) {
    const auto pairs = static_cast<size_t>(rope.dim / 2);
    if (rope.short_factors.size() != pairs || rope.long_factors.size() != pairs) {
      faults.push_back(fmt::format("longrope needs {} short and long factors, there are {} and {}",
                                   pairs, rope.short_factors.size(), rope.long_factors.size()));
    }
  }
}

void check_layer(const LayerSpec& layer, std::vector<std::string>& faults) {
  check_attention(layer.attention, faults);
  if (layer.norm.kind == layers::NormKind::rms && layer.norm.bias)
    faults.emplace_back("a root-mean-square norm has no bias");
  if (layer.parallel && layer.norm_place != layers::NormPlace::pre)
    faults.emplace_back("parallel blocks have their norms before attention and MLP");
  if (!layer.attention_norm && layer.norm_place != layers::NormPlace::pre)
    faults.emplace_back("attention is without a norm only where norms stand before it");
  if (layer.cross) check_attention(*layer.cross, faults);
  if (layer.cross && layer.parallel) faults.emplace_back("parallel blocks have no cross attention");
}

/// Cross attention has no order of positions.
bool is_ordered(const layers::AttentionSpec& a) {
  return a.causal || a.rope.dim > 0 || a.relative || a.window > 0;
}

/// An encoder is of layers without cross attention that see both ways, a decoder of causal ones
/// with it. The first layer that is in the wrong place is enough.
std::string misplaced_layer(const ModelSpec& m) {
  for (int64_t i = 0; i < m.num_layers(); ++i) {
    const LayerSpec& layer = m.layer(i);
    const bool crosses = m.is_encoder_decoder() && !m.is_encoder_layer(i);
    if (layer.cross && !crosses) {
      return fmt::format(
          "layer {} has cross attention, which reads an encoder's rows, and there is no encoder "
          "before it",
          i);
    }
    if (crosses && !layer.cross)
      return fmt::format("layer {} of a decoder is without cross attention", i);
    if (crosses && is_ordered(*layer.cross))
      return fmt::format("cross attention of layer {} has an order of positions", i);
    if (m.is_encoder_decoder() && layer.attention.causal != crosses)
      return fmt::format("layer {} of {} causal", i,
                         crosses ? "a decoder is not" : "an encoder is");
  }
  return "";
}

/// What the layers of one stack have together.
void check_stack(std::span<const LayerSpec> stack, std::vector<std::string>& faults) {
  const layers::AttentionSpec& first = stack.front().attention;
  if (std::ranges::any_of(
          stack, [&](const LayerSpec& each) { return each.attention.causal != first.causal; }))
    faults.emplace_back("some layers are causal and others are not");
  if (std::ranges::any_of(stack, [&](const LayerSpec& each) {
        const layers::AttentionSpec& a = each.attention;
        return a.relative != first.relative || (a.relative && a.heads != first.heads);
      }))
    faults.emplace_back("layers share one table of relative positions and differ in it");
}

void check_encoder_decoder(const ModelSpec& m, std::vector<std::string>& faults) {
  if (m.embedding.position != layers::PositionKind::none || m.embedding.token_types > 0 ||
      m.embedding.norm || m.embedding.width != 0)
    faults.emplace_back(
        "the embedding of an encoder-decoder is its table of tokens alone: no learned positions, "
        "token types, norm or width");
  if (m.layer_groups != 0)
    faults.emplace_back("layers of an encoder-decoder do not share their weights");
  if (m.head.kind != layers::HeadKind::language_model)
    faults.emplace_back("the head of an encoder-decoder is a language model's");
  if (m.decoder_start < 0 || m.decoder_start >= m.vocab)
    faults.push_back(
        fmt::format("decoder_start {} is outside the vocabulary of {}", m.decoder_start, m.vocab));
}

void check_stacks(const ModelSpec& m, std::vector<std::string>& faults) {
  if (m.encoder_layers < 0 || m.encoder_layers >= m.num_layers()) {
    faults.push_back(m.encoder_layers < 0 ? fmt::format("encoder_layers is {}", m.encoder_layers)
                                          : fmt::format("encoder_layers {} of {} leave no decoder",
                                                        m.encoder_layers, m.num_layers()));
    return;
  }
  if (std::string fault = misplaced_layer(m); !fault.empty())
    return faults.push_back(std::move(fault));
  const std::span<const LayerSpec> all(m.layers);
  const auto encoder = static_cast<size_t>(m.encoder_layers);
  check_stack(all.subspan(encoder), faults);
  if (!m.is_encoder_decoder()) return;
  check_stack(all.first(encoder), faults);
  check_encoder_decoder(m, faults);
}

void check_groups(const ModelSpec& m, std::vector<std::string>& faults) {
  if (m.layer_groups < 0 || m.layer_groups > m.num_layers()) {
    faults.push_back(fmt::format("layer_groups {} of {} layers", m.layer_groups, m.num_layers()));
  } else if (m.layer_groups > 0 && !m.is_uniform()) {
    faults.emplace_back("layers that differ share their weights");
  } else if (m.layer_groups > 0 && m.layers.front().attention.relative) {
    faults.emplace_back("no code for relative positions in layers that share their weights");
  }
}

void check_embedding(const ModelSpec& m, std::vector<std::string>& faults) {
  using layers::PositionKind;
  if (m.embedding.position_offset != 0 && m.embedding.position != PositionKind::learned)
    faults.emplace_back("embedding.position_offset is of a table of positions, and there is none");
  if (m.embedding.position == PositionKind::sinusoidal && m.table_width() % 2 != 0) {
    faults.push_back(
        fmt::format("sinusoidal positions go in pairs of columns, of {} columns", m.table_width()));
  }
}

void check_sizes(const ModelSpec& m, std::vector<std::string>& faults) {
  const auto need = [&](const char* name, int64_t value, int64_t most) {
    if (value < 1 || value > most)
      faults.push_back(fmt::format("{} is {}, must be 1 to {}", name, value, most));
  };
  need("layers", m.num_layers(), 100'000);
  need("hidden", m.hidden, 1 << 20);
  need("context", m.context, 1 << 24);
  need("vocab", m.vocab, 1 << 24);
  double estimate = 0;
  for (size_t i = 0; i < m.layers.size() && faults.empty(); ++i) {
    const LayerSpec& layer = m.layers[i];
    need("ffn", layer.mlp.ffn, 1 << 22);
    double widths = 3.0 * static_cast<double>(layer.mlp.ffn);
    for (const layers::AttentionSpec* a :
         {&layer.attention, layer.cross ? &*layer.cross : nullptr}) {
      if (a == nullptr) continue;
      need("heads", a->heads, 1 << 16);
      need("kv_heads", a->kv_heads, 1 << 16);
      need("head_dim", a->head_dim, 1 << 16);
      widths += 4.0 * static_cast<double>(a->query_width());
    }
    estimate += static_cast<double>(m.hidden) * widths;
  }
  // All byte counts must fit 64 bits: 16 bytes a parameter, with room to spare.
  if (estimate > 1e16) faults.emplace_back("the model has over 10^16 parameters");
}

}  // namespace

void ModelSpec::for_each_layer(FunctionRef<void(LayerSpec&)> change) {
  for (LayerSpec& layer : layers) change(layer);
}

bool ModelSpec::is_causal() const {
  return std::ranges::all_of(layers.begin() + encoder_layers, layers.end(),
                             [](const LayerSpec& layer) { return layer.attention.causal; });
}

std::string ModelSpec::layer_name(int64_t layer) const {
  if (is_encoder_layer(layer)) return fmt::format("encoder.layers.{}", layer);
  return fmt::format("layers.{}", group(layer) - encoder_layers);
}

bool ModelSpec::shares_weights() const {
  return layer_groups > 0 || std::ranges::any_of(layers, [](const LayerSpec& layer) {
           return layer.attention.relative.has_value();
         });
}

bool ModelSpec::is_uniform() const {
  return std::ranges::all_of(layers,
                             [&](const LayerSpec& layer) { return layer == layers.front(); });
}

void ModelSpec::set_num_layers(int64_t count) {
  const LayerSpec last = layers.back();
  layers.resize(static_cast<size_t>(count), last);
}

int64_t ModelSpec::num_parameters() const {
  int64_t total = embedding_parameters(*this);
  for (int64_t i = 0; i < num_layers(); ++i) {
    if (i == 0 || group(i) != group(i - 1)) total += layer_parameters(layer(i), hidden);
  }
  for (int64_t i = 0; i < num_layers(); ++i) {
    const layers::AttentionSpec& a = layer(i).attention;
    if (a.relative && stack_begin(i) == i) total += a.relative->buckets * a.heads;
  }
  if (head.norm) total += norm_parameters(final_norm, hidden);
  if (is_encoder_decoder()) total += norm_parameters(final_norm, hidden);
  return total + layers::head_type(head.kind).num_parameters(head, hidden, table_width(), vocab);
}

int64_t ModelSpec::padded_vocab(int tensor_shards) const {
  return round_up(vocab, std::lcm<int64_t>(kVocabularyMultiple, tensor_shards));
}

void ModelSpec::check(const std::string& where) const {
  std::vector<std::string> faults;
  check_sizes(*this, faults);
  for (size_t i = 0; i < layers.size() && faults.empty(); ++i) check_layer(layers[i], faults);
  if (faults.empty()) check_stacks(*this, faults);
  check_groups(*this, faults);
  check_embedding(*this, faults);
  if (std::string fault = layers::head_type(head.kind).fault(head); !fault.empty())
    faults.push_back(std::move(fault));
  if (!(dropout >= 0 && dropout < 1))
    faults.push_back(fmt::format("dropout {} is not in [0, 1)", dropout));
  for (const NormSpec* norm : {&final_norm, layers.empty() ? &final_norm : &layers[0].norm}) {
    if (!(norm->eps > 0 && norm->eps < 1)) {
      faults.push_back(fmt::format("norm epsilon {} is not in (0, 1)", norm->eps));
      break;
    }
  }
  if (!(init_std > 0 && init_std <= 10))
    faults.push_back(fmt::format("init_std {} is not in (0, 10]", init_std));
  if (!faults.empty()) throw UserError("{}: {}", where, fmt::join(faults, "; "));
}

}  // namespace megalith::models
