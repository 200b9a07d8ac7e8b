// SPDX-License-Identifier: Apache-2.0
// Gemma 1 to 3. The metadata has no query_pre_attn_scalar: llama.cpp knows the models of 27B by
// their number of layers.
#include <cmath>

#include "base/error.h"
#include "gguf_models/architecture_rows.h"
#include "gguf_models/rope_metadata.h"

namespace megalith::gguf_models {
namespace gemma_architectures {

constexpr auto kRows =
    joined(kModelRows, kSplitAttentionRows, kOutputRows, kGatedRows, kPreNormRows);
constexpr auto kBothNormRows = joined(kModelRows, kSplitAttentionRows, kOutputRows, kHeadNormRows,
                                      kGatedRows, kPreNormRows, kOutNormRows);

constexpr int64_t kLayersOf27B_2 = 46, kLayersOf27B_3 = 62;
constexpr int64_t kGemma3Pattern = 6;  // the last of so many layers sees all
constexpr double kLocalBase = 1e4;

void set_scale(bool is_27b, ModelSpec& model) {
  model.for_each_layer([&](layers::LayerSpec& layer) {
    layers::AttentionSpec& a = layer.attention;
    const int64_t scalar = is_27b ? model.hidden / a.heads : a.head_dim;
    a.scale = scalar == a.head_dim ? 0 : 1 / std::sqrt(static_cast<double>(scalar));
  });
}

/// Of the layers that slide; the first that does says how far.
int64_t window_of(const ModelSpec& model) {
  for (const layers::LayerSpec& layer : model.layers) {
    if (layer.attention.window > 0) return layer.attention.window;
  }
  return 0;
}

void read_gemma2(const MetadataKeys& keys, ModelSpec& model) {
  const int64_t window = keys.count("attention.sliding_window", 4096);
  const double cap = keys.number("attn_logit_softcapping", 50);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    model.layers[i].attention.window = i % 2 == 0 ? window : 0;
    model.layers[i].attention.softcap = cap;
  }
  model.head.softcap = keys.number("final_logit_softcapping", 30);
  set_scale(model.num_layers() == kLayersOf27B_2, model);
}

void write_gemma2(const ModelSpec& model, KeyWriter& keys) {
  keys.add_number("attn_logit_softcapping", model.layers.front().attention.softcap);
  keys.add_number("final_logit_softcapping", model.head.softcap);
  keys.add_count("attention.sliding_window", window_of(model));
}

/// Which layers slide: all but each sixth, unless the file says otherwise, by a period or layer by
/// layer.
void read_gemma3_windows(const MetadataKeys& keys, ModelSpec& model) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const int64_t window = keys.count("attention.sliding_window", 0);
  std::vector<bool> slides(model.layers.size());
  const gguf::Value* const pattern = keys.value(kPattern);
  if (pattern != nullptr && pattern->is_array()) {
    slides = *keys.booleans(kPattern);
    if (slides.size() != model.layers.size()) {
      throw UserError("{}: {} has {} entries for {} layers", keys.where(), keys.full(kPattern),
                      slides.size(), model.layers.size());
    }
  } else {
    const auto period = static_cast<size_t>(keys.size(kPattern, kGemma3Pattern));
    for (size_t i = 0; i < slides.size(); ++i) slides[i] = (i + 1) % period != 0;
  }
  for (size_t i = 0; i < slides.size(); ++i)
    model.layers[i].attention.window = slides[i] ? window : 0;
}

void read_gemma3(const MetadataKeys& keys, ModelSpec& model) {
  read_gemma3_windows(keys, model);
  const double local_base = keys.number("rope.freq_base_swa", kLocalBase);
  model.for_each_layer([&](layers::LayerSpec& layer) {
    if (layer.attention.window == 0) return;
    layers::RopeSpec local;
    local.dim = layer.attention.rope.dim;
    local.base = local_base;
    layer.attention.rope = local;
  });
  model.head.softcap = keys.number("final_logit_softcapping", 0);
  set_scale(model.num_layers() == kLayersOf27B_3, model);
}

void write_gemma3(const ModelSpec& model, KeyWriter& keys) {
  std::vector<bool> slides;
  bool is_usual = true;
  double local_base = kLocalBase;
  for (const layers::LayerSpec& layer : model.layers) {
    slides.push_back(layer.attention.window > 0);
    is_usual = is_usual && slides.back() == (slides.size() % kGemma3Pattern != 0);
    if (slides.back()) local_base = layer.attention.rope.base;
  }
  const int64_t window = window_of(model);
  if (window > 0) keys.add_count("attention.sliding_window", window);
  if (window > 0 && !is_usual)
    keys.add("attention.sliding_window_pattern", gguf::Value::booleans(slides));
  if (local_base != kLocalBase) keys.add_number("rope.freq_base_swa", local_base);
  if (model.head.softcap > 0) keys.add_number("final_logit_softcapping", model.head.softcap);
}

}  // namespace gemma_architectures

const Architecture kGemma{"gemma", "gemma", {gemma_architectures::kRows, kFactorTensors, ""}};
const Architecture kGemma2{"gemma2",
                           "gemma2",
                           {gemma_architectures::kBothNormRows, kFactorTensors, ""},
                           false,
                           gemma_architectures::read_gemma2,
                           gemma_architectures::write_gemma2};
const Architecture kGemma3{"gemma3",
                           "gemma3_text",
                           {gemma_architectures::kBothNormRows, kFactorTensors, ""},
                           false,
                           gemma_architectures::read_gemma3,
                           gemma_architectures::write_gemma3};

}  // namespace megalith::gguf_models
