// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "sizing/nemo.h"

namespace megalith::sizing {
namespace {

/// Shapes of sizes up to a limit, which is the first of the next one unless `included`.
struct ShapeRow {
  double limit;
  bool included;
  NemoShape shape;  // but for its layers
};

constexpr ShapeRow kGptShapes[] = {
    {0.25, false, {0, 768, 12, 0, 0, 6e-4}},      {0.5, false, {0, 1024, 16, 0, 0, 3e-4}},
    {1, false, {0, 1536, 16, 0, 0, 2.5e-4}},      {2, false, {0, 2048, 16, 0, 0, 2e-4}},
    {3, false, {0, 2560, 32, 0, 0, 1.6e-4}},      {4.5, false, {0, 3072, 32, 0, 0, 1.4e-4}},
    {8, false, {0, 4096, 32, 0, 0, 1.2e-4}},      {15, false, {0, 5120, 40, 0, 0, 1e-4}},
    {25, false, {0, 6144, 48, 0, 0, 1e-4}},       {52, false, {0, 8192, 64, 0, 0, 0.8e-4}},
    {105, false, {0, 10240, 80, 0, 0, 0.7e-4}},   {205, false, {0, 12288, 96, 0, 0, 0.6e-4}},
    {405, false, {0, 20480, 128, 0, 0, 0.5e-4}},  {805, false, {0, 20480, 128, 0, 0, 0.4e-4}},
    {1105, false, {0, 25600, 160, 0, 0, 0.3e-4}},
};
constexpr ShapeRow kBertShapes[] = {
    {0.25, false, {0, 768, 12, 3072, 0, 2e-4}},    {0.5, false, {0, 1024, 16, 4096, 0, 2e-4}},
    {1, false, {0, 1536, 16, 6144, 0, 1e-4}},      {2, false, {0, 2048, 16, 8192, 0, 1e-4}},
    {4.5, false, {0, 2560, 32, 10240, 0, 1e-4}},   {8, false, {0, 4096, 32, 16384, 0, 1e-4}},
    {15, false, {0, 5120, 40, 20480, 0, 1e-4}},    {25, true, {0, 6144, 48, 24576, 0, 1e-4}},
    {46.5, true, {0, 7680, 48, 30720, 0, 1e-4}},   {165.5, true, {0, 9216, 96, 36864, 0, 1e-4}},
    {250.5, true, {0, 12288, 96, 49152, 0, 1e-4}},
};
constexpr ShapeRow kT5Shapes[] = {
    {0.1, false, {0, 512, 6, 1024, 64, 1e-4}},      {0.4, false, {0, 768, 12, 2048, 64, 1e-4}},
    {1, false, {0, 1024, 16, 2816, 64, 1e-4}},      {5, false, {0, 2048, 32, 5120, 64, 1e-4}},
    {15, false, {0, 4096, 64, 10240, 64, 1e-4}},    {25.9, false, {0, 5120, 80, 10880, 64, 1e-4}},
    {43, false, {0, 6144, 96, 10880, 64, 1e-4}},    {85.5, true, {0, 6144, 96, 16384, 64, 1e-4}},
    {165.5, true, {0, 7680, 96, 20480, 128, 1e-4}}, {250, true, {0, 12288, 96, 32768, 128, 1e-4}},
};
/// mT5's vocabulary is large, so its first sizes reach further.
constexpr double kMt5Limits[] = {0.25, 0.5, 1.2};

const ShapeRow* row_of(double size, NemoFamily family) {
  std::span<const ShapeRow> rows = kT5Shapes;
  if (family == NemoFamily::gpt) rows = kGptShapes;
  if (family == NemoFamily::bert) rows = kBertShapes;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double limit =
        family == NemoFamily::mt5 && i < std::size(kMt5Limits) ? kMt5Limits[i] : rows[i].limit;
    if (size < limit || (rows[i].included && size == limit)) return &rows[i];
  }
  return nullptr;
}

/// Numbers of layers to try, in this order, each series with margins of 1 % to `attempts` %.
struct LayerSeries {
  int attempts;
  int64_t first, step, last;  // step 0: doubled each time
};
constexpr LayerSeries kSeries[] = {
    {10, 2, 0, 512}, {6, 16, 16, 200}, {6, 2, 2, 200}, {6, 5, 5, 200}, {10, 1, 1, 199}};

}  // namespace

std::optional<NemoFamily> nemo_family(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames = {"gpt", "bert", "t5", "mt5"};
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<NemoFamily>(i);
  return std::nullopt;
}

double nemo_size(const Budget& b, NemoFamily family) {
  const double factor = family == NemoFamily::mt5 ? 0.87 : 1;
  const double size = factor * (b.days * 3600 * 24 * b.gpus * b.flops) / (8 * b.tokens) / 1e9;
  // As Python rounds: the decimal number of two digits that is nearest to the exact value.
  return std::strtod(fmt::format("{:.2f}", size).c_str(), nullptr);
}

double nemo_days(const Budget& b, double size, NemoFamily family) {
  const double factor = family == NemoFamily::mt5 ? 1.15 : 1;
  return factor * (8 * b.tokens * size * 1e9) / (3600 * 24 * b.gpus * b.flops);
}

// The order of operations is the tool's: a margin may end between two roundings.
double nemo_count(const NemoShape& s, int64_t vocab, int64_t sequence, NemoFamily family) {
  const auto l = static_cast<double>(s.layers), h = static_cast<double>(s.hidden);
  const auto a = static_cast<double>(s.heads), f = static_cast<double>(s.ffn);
  const auto v = static_cast<double>(vocab), n = static_cast<double>(sequence);
  if (family == NemoFamily::gpt)
    return 12 * l * (h * h) * (1 + (13 / (12 * h)) + ((v + n) / (12 * l * h))) / 1e9;
  if (family == NemoFamily::bert)
    return (l * (f + h * (4 * h + 3 * a + 2 * f + 6)) + h * (v + n + h + 5)) / 1e9;
  const double p = a * static_cast<double>(s.head_dim);
  return (2 * l * 1.5 * f + 3 * l * p + h * (2 + 4 * l * 1.5 * f + l * (21 + 12 * p) + n + v)) /
         1e9;
}

NemoShape nemo_shape(double size, int64_t vocab, int64_t sequence, NemoFamily family) {
  const ShapeRow* const row = row_of(size, family);
  if (row == nullptr)
    throw UserError(
        "--nemo has no shape for {} billion parameters of this family (gpt: below 1105, bert: at "
        "most 250.5, t5: 250); take days or GPUs away, give --tokens more, or leave out --nemo",
        size);
  NemoShape shape = row->shape;
  for (const LayerSeries& series : kSeries) {
    double margin = 0.01;
    for (int attempt = 0; attempt < series.attempts; ++attempt, margin += 0.01) {
      for (int64_t layers = series.first; layers <= series.last;
           layers = series.step == 0 ? 2 * layers : layers + series.step) {
        shape.layers = layers;
        const double count = nemo_count(shape, vocab, sequence, family);
        if (size * (1.0 - margin) < count && count < size * (1.0 + margin)) return shape;
      }
    }
  }
  throw UserError(
      "--nemo finds no number of layers of width {} for {} billion parameters; change --days, "
      "--gpus or --tokens, or leave out --nemo",
      shape.hidden, size);
}

}  // namespace megalith::sizing
