// SPDX-License-Identifier: Apache-2.0
#include "costs/published_run.h"

#include "families/families.h"

namespace megalith::costs {

engine::Settings settings_of(const PublishedRun& r) {
  engine::Settings s;
  const models::Sizes sizes{.layers = r.layers,
                            .hidden = r.hidden,
                            .heads = r.heads,
                            .kv_heads = r.kv_heads,
                            .ffn = r.ffn,
                            .context = r.length,
                            .vocab = r.vocab};
  s.model = r.gated ? models::llama(sizes) : models::gpt2(sizes);
  if (!r.gated && r.kv_heads > 0)
    s.model.for_each_layer([&](layers::LayerSpec& l) { l.attention.kv_heads = r.kv_heads; });
  s.model.for_each_layer([&](layers::LayerSpec& l) { l.set_materialised(!r.streaming); });
  s.model.dropout = r.gated ? 0 : 0.1;
  s.layout = {.tensor = r.tensor,
              .pipeline = r.pipeline,
              .data = static_cast<int>(r.devices / (r.tensor * r.pipeline)),
              .sequence = r.sequence,
              .chunks = r.chunks};
  s.split = {8, s.layout.data};
  s.pipeline_schedule = r.chunks > 1 ? parallel::ScheduleKind::interleaved
                                     : parallel::ScheduleKind::one_forward_one_backward;
  s.recompute = {r.recompute, 0};
  s.zero = r.zero ? 1 : 0;
  s.weights = s.activations = DType::bf16;
  if (r.fp8) s.fp8.emplace();
  s.micro_batch = r.micro_batch;
  s.batch.full = r.global_batch;
  return s;
}

double sc21_teraflops(const PublishedRun& r, double seconds) {
  const auto b = static_cast<double>(r.global_batch), s = static_cast<double>(r.length),
             l = static_cast<double>(r.layers), h = static_cast<double>(r.hidden),
             v = static_cast<double>(r.vocab);
  const double flops = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  return flops / seconds / static_cast<double>(r.devices) / 1e12;
}

}  // namespace megalith::costs
