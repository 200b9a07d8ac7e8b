// SPDX-License-Identifier: Apache-2.0
// The exact inputs of the PyTorch reference runs, made here as tests/oracle/torch_decoder.py makes
// them: weights and tokens are a hash of (name, index), so no file has to hold them.
//   bits(name, i) = SplitMix64 of FNV-1a(name), its (i + 1)th number
//   weight        = ((bits >> 44) - 2^19) 2^-22, one more for norm weights: exact in f32
//   sample        = a walk id -> (7 id + 3 + bits mod 3) mod vocabulary
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/host_batch.h"
#include "families/families.h"
#include "parameters/parameter_set.h"

namespace megalith::golden {

inline uint64_t bits(std::string_view name, int64_t index) {
  uint64_t x = 0xCBF29CE484222325;
  for (const char byte : name) x = (x ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  x += 0x9E3779B97F4A7C15 * static_cast<uint64_t>(index + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

inline double formula_weight(std::string_view name, int64_t index) {
  const double value =
      static_cast<double>(static_cast<int64_t>(bits(name, index) >> 44) - (1 << 19)) / (1 << 22);
  const bool is_norm = name.find("norm") != std::string_view::npos && name.ends_with("weight");
  return is_norm ? 1 + value : value;
}

/// The Llama of the reference runs: heads together wider than the stream, in groups of two.
inline models::ModelSpec llama_grouped() {
  return models::llama({.layers = 2,
                        .hidden = 24,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_dim = 8,
                        .ffn = 40,
                        .context = 16,
                        .vocab = 101});
}

/// Overwrites every master (and compute copy) with the formula; padded rows of the vocabulary stay
/// 0.
inline void set_formula_weights(parameters::ParameterSet& set, int64_t vocab,
                                device::Device& device) {
  for (parameters::Parameter& parameter : set.all()) {
    const View master = parameter.master();
    const bool is_table =
        parameter.name() == "embedding.weight" || parameter.name() == "head.weight";
    const int64_t real = is_table ? vocab * master.shape()[1] : master.num_elements();
    const auto fill = [&]<typename T>(std::vector<T> values) {
      for (int64_t i = 0; i < real; ++i)
        values[static_cast<size_t>(i)] = static_cast<T>(formula_weight(parameter.name(), i));
      device.wait(device.copy_to_device(master, values.data()));
    };
    const auto count = static_cast<size_t>(master.num_elements());
    master.dtype() == DType::f64 ? fill(std::vector<double>(count))
                                 : fill(std::vector<float>(count));
    parameter.mark_changed();
  }
  set.refresh_compute(device);
}

/// Samples [first, first + count), S = context, all weights 1.
inline data::HostBatch formula_batch(const models::ModelSpec& a, int64_t first, int64_t count) {
  data::HostBatch batch;
  batch.first_sample = first;
  batch.num_samples = count;
  batch.sequence_length = a.context;
  batch.cu_seqlens.push_back(0);
  for (int64_t sample = first; sample < first + count; ++sample) {
    const int64_t begin = sample * (a.context + 1);
    const auto vocab = static_cast<uint64_t>(a.vocab);
    auto id = bits("samples", begin) % vocab;
    for (int64_t t = 0; t < a.context; ++t) {
      batch.ids_T.push_back(static_cast<int32_t>(id));
      id = (7 * id + 3 + bits("samples", begin + t + 1) % 3) % vocab;
      batch.targets_T.push_back(static_cast<int32_t>(id));
      batch.position_T.push_back(static_cast<int32_t>(t));
      batch.loss_weight_T.push_back(1);
    }
    batch.sequence_sample.push_back(sample);
    batch.cu_seqlens.push_back(static_cast<int32_t>(batch.num_tokens()));
  }
  batch.total_weight = static_cast<double>(batch.num_tokens());
  return batch;
}

}  // namespace megalith::golden
