// SPDX-License-Identifier: Apache-2.0
#include "models/architecture.h"

#include <fmt/ranges.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "base/integer.h"

namespace megalith::models {

int64_t Architecture::num_parameters() const {
  const int64_t kv_width = kv_heads * head_size();
  const int64_t norm_size = norm == NormKind::layer_norm ? 2 * hidden : hidden;
  const int64_t up = mlp == MlpKind::swiglu ? 2 * ffn : ffn;
  int64_t block = 2 * norm_size;
  block += hidden * (hidden + 2 * kv_width) + hidden * hidden + up * hidden + ffn * hidden;
  if (bias) block += (hidden + 2 * kv_width) + hidden + up + hidden;
  int64_t total = layers * block + vocab * hidden + norm_size;
  if (position == PositionKind::learned) total += context * hidden;
  if (!tied) total += vocab * hidden;
  return total;
}

namespace {

void check_sizes(const Architecture& a, std::vector<std::string>& faults) {
  const auto need = [&](const char* name, int64_t value, int64_t most) {
    if (value < 1 || value > most)
      faults.push_back(fmt::format("{} is {}, must be 1 to {}", name, value, most));
  };
  need("layers", a.layers, 100'000);
  need("hidden", a.hidden, 1 << 20);
  need("heads", a.heads, 1 << 16);
  need("kv_heads", a.kv_heads, 1 << 16);
  need("ffn", a.ffn, 1 << 22);
  need("context", a.context, 1 << 24);
  need("vocab", a.vocab, 1 << 24);
  if (!faults.empty()) return;
  if (a.hidden % a.heads != 0) {
    faults.push_back(fmt::format("hidden {} is not a multiple of heads {}", a.hidden, a.heads));
  }
  if (a.heads % a.kv_heads != 0) {
    faults.push_back(fmt::format("heads {} is not a multiple of kv_heads {}", a.heads, a.kv_heads));
  }
  // All byte counts must fit 64 bits: 16 bytes a parameter, with room to spare.
  const double estimate = static_cast<double>(a.layers) * static_cast<double>(a.hidden) *
                          (4.0 * static_cast<double>(a.hidden) + 3.0 * static_cast<double>(a.ffn));
  if (estimate > 1e16) faults.push_back("the model has over 10^16 parameters");
}

}  // namespace

void Architecture::check(const std::string& where) const {
  std::vector<std::string> faults;
  check_sizes(*this, faults);
  if (norm != NormKind::layer_norm) faults.push_back("RMS norm models are not built yet");
  if (position != PositionKind::learned) faults.push_back("rotary positions are not built yet");
  if (mlp == MlpKind::swiglu) faults.push_back("gated MLPs are not built yet");
  if (!bias) faults.push_back("models without biases are not built yet");
  if (!(dropout >= 0 && dropout < 1))
    faults.push_back(fmt::format("dropout {} is not in [0, 1)", dropout));
  if (!(norm_eps > 0 && norm_eps < 1))
    faults.push_back(fmt::format("norm epsilon {} is not in (0, 1)", norm_eps));
  if (!(init_std > 0 && init_std <= 10))
    faults.push_back(fmt::format("init_std {} is not in (0, 10]", init_std));
  if (!faults.empty()) throw UserError("{}: {}", where, fmt::join(faults, "; "));
}

int default_tensor_shards(const Architecture& a) {
  return static_cast<int>(std::gcd(std::gcd(int64_t{8}, a.heads), a.kv_heads));
}

}  // namespace megalith::models
