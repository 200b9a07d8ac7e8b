// SPDX-License-Identifier: Apache-2.0
// Size, shape and base configuration as the auto-configurator of NeMo-Megatron-Launcher (4550dc9)
// has them, number for number: what a budget gave there can be found again here. Its rule of thumb:
// training takes 8 operations per parameter and token (Narayanan et al. 2021, eq. 4), which counts
// activations computed twice.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sizing/budget.h"

namespace megalith::sizing {

enum class NemoFamily { gpt, bert, t5, mt5 };
/// Nothing when NeMo's tool knows none of that name.
std::optional<NemoFamily> nemo_family(std::string_view name);

/// Parameters in units of 10^9, to two digits, that the budget pays for.
double nemo_size(const Budget& budget, NemoFamily family);
/// Days that a model of `size` (10^9 parameters) takes.
double nemo_days(const Budget& budget, double size, NemoFamily family);

struct NemoShape {
  int64_t layers = 0;  // t5: of each stack
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t ffn = 0;       // gpt: 0, which is 4 hidden
  int64_t head_dim = 0;  // t5; else 0: hidden / heads
  double lr = 0;
  friend bool operator==(const NemoShape&, const NemoShape&) = default;
};
/// 10^9 parameters of a shape, by the tool's formula.
double nemo_count(const NemoShape& shape, int64_t vocab, int64_t sequence, NemoFamily family);
/// The tool's shape for `size`. UserError where it has none.
NemoShape nemo_shape(double size, int64_t vocab, int64_t sequence, NemoFamily family);

/// Where the tool's search begins.
struct NemoBase {
  int64_t global_batch = 0;
  int64_t tensor = 1;
  int64_t pipeline = 1;
  friend bool operator==(const NemoBase&, const NemoBase&) = default;
};
/// `memory_gb`: 40 or 80. UserError for sizes and sequences that the tool has no line for (bert and
/// t5: 512; gpt on 80 GB: 2048 to 32768, on 40: 2048).
NemoBase nemo_base(double size, int64_t sequence, int memory_gb, NemoFamily family);

}  // namespace megalith::sizing
