// SPDX-License-Identifier: Apache-2.0
// One forward and backward of tiny models against PyTorch in float64 (tools/make_reference.py):
// logits, loss, gradient norm and every parameter's gradient. In f32 within a bound derived from
// the lengths of the sums on the way; in f64 to the last digits, which proves that both compute the
// same function and leaves rounding as the only difference.
#include <fmt/format.h>

#include "comm/backends.h"
#include "engine/device_batch.h"
#include "engine/engine.h"
#include "families/families.h"
#include "golden/formula.h"
#include "golden/reference_file.h"

namespace megalith::golden {
namespace {

struct Case {
  const char* file;
  DType dtype;
  bool materialised;
  layers::Recompute recompute;
};

bool is_llama(const Case& c) { return std::string_view(c.file).starts_with("llama"); }
bool is_untied(const Case& c) {
  return std::string_view(c.file).find("untied") != std::string_view::npos;
}

engine::Settings settings_of(const Case& c) {
  engine::Settings s;
  if (is_llama(c)) {
    s.model = llama_grouped();
  } else {
    s.model = models::gpt2({.layers = 2,
                            .hidden = 32,
                            .heads = 4,
                            .kv_heads = is_untied(c) ? 2 : 4,
                            .ffn = 128,
                            .context = 16,
                            .vocab = 101});
    s.model.head.tied = !is_untied(c);
  }
  s.model.for_each_layer(
      [&](layers::LayerSpec& layer) { layer.attention.materialised = c.materialised; });
  s.split = {models::default_tensor_shards(s.model), 1};
  s.masters = s.weights = s.activations = c.dtype;
  s.recompute.mode = c.recompute;
  s.batch.full = 2;
  return s;
}

/// The two samples of the reference, a micro-batch each, with its planted first and last ids.
std::vector<data::HostBatch> micro_batches(const engine::Settings& s) {
  std::vector<data::HostBatch> batches{formula_batch(s.model, 0, 1), formula_batch(s.model, 1, 1)};
  batches[0].ids_T[3] = batches[0].targets_T[2] = 0;
  batches[1].targets_T.back() = static_cast<int32_t>(s.model.vocab - 1);
  if (!s.model.head.tied) {
    // 16 weighted tokens, few in one micro-batch and many in the other: a mean of means would
    // differ.
    std::fill(batches[0].loss_weight_T.begin() + 4, batches[0].loss_weight_T.end(), 0.0f);
    std::fill(batches[1].loss_weight_T.begin() + 12, batches[1].loss_weight_T.end(), 0.0f);
    batches[0].total_weight = 4;
    batches[1].total_weight = 12;
  }
  return batches;
}

/// Roundings on the longest path from the ids to a gradient, each at most u of its value. A chain
/// of K products ends with the error sqrt(K / 2) u of its norm: partial sums of unrelated terms
/// grow as sqrt(k), and their roundings add up as unrelated numbers do. Norms, softmax, activations
/// (SiLU has fewer operations than GELU, and the product with the gate's partner), turns and loss
/// are counted by their operations.
double path_roundings(const models::ModelSpec& a) {
  const auto chain = [](int64_t k) { return std::sqrt(static_cast<double>(k) / 2); };
  constexpr double kNorm = 6, kSoftmax = 6, kActivation = 8, kResidual = 1;
  const layers::AttentionSpec& attention = a.layer(0).attention;
  const int64_t qkv = attention.qkv_width(), core = attention.query_width();
  const int64_t ffn = a.layer(0).mlp.ffn, up = a.layer(0).mlp.up_width();
  // Angle, its sine, two products and their sum.
  const double turn = attention.rope.dim > 0 ? 5 : 0;
  const double forward = 2 * (kNorm + kResidual) + kSoftmax + kActivation + turn +
                         2 * chain(a.hidden) + chain(core) + chain(ffn) +
                         chain(attention.head_dim) + chain(a.context);
  const double backward = 2 * (kNorm + kResidual) + kSoftmax + kActivation + turn +
                          2 * chain(a.hidden) + chain(up) + chain(qkv) + 2 * chain(a.context) +
                          chain(attention.head_dim);
  const double head = 2 * kNorm + kSoftmax + chain(a.hidden) + chain(a.vocab);
  return static_cast<double>(a.num_layers()) * (forward + backward) + head + chain(2 * a.context);
}

/// |ours - reference| <= bound x |reference|, with the figures on the way out.
class Comparison {
 public:
  Comparison(const Case& c, const ReferenceFile& reference, const models::ModelSpec& a)
      : reference_(reference),
        is_f64_(c.dtype == DType::f64),
        bound_(path_roundings(a) * (is_f64_ ? 0x1p-53 : 0x1p-24)) {}
  ~Comparison() {
    fmt::print(
        "  bound {:.1e} of a tensor's norm; worst {:.1e} ({}); PyTorch in float32 there {:.1e}\n",
        bound_, worst_, worst_name_, worst_float32_);
  }
  void expect_near(const std::string& name, const std::vector<double>& ours) {
    const std::vector<double> expected = reference_.read(name);
    const double error = distance(ours, expected) / norm(expected);
    // Gradients are stored in float32: half a rounding of each element.
    const double stored = is_f64_ && name.starts_with("gradient.") ? 0x1p-24 : 0;
    EXPECT_LE(error, bound_ + stored) << name;
    if (error - stored <= worst_) return;
    worst_ = error - stored;
    worst_name_ = name;
    worst_float32_ = reference_.scalar("float32_error." + name);
  }

 private:
  const ReferenceFile& reference_;
  bool is_f64_;
  double bound_;
  double worst_ = -1, worst_float32_ = 0;
  std::string worst_name_;
};

/// [tokens of all batches, vocab], without padding columns.
std::vector<double> logits_of(engine::Engine& engine, std::span<const data::HostBatch> batches) {
  std::vector<double> all;
  const models::ModelSpec& a = engine.settings().model;
  device::Device& device = engine.device();
  const int64_t width = a.padded_vocab(engine.settings().split.tensor_shards);
  for (const data::HostBatch& host : batches) {
    layers::Context context = engine.model().training_context(0, 0);
    const engine::DeviceBatch batch(device, host, 1, 1);
    const device::Tensor x_TH =
        context.workspace(context.activation, Shape{host.num_tokens(), a.hidden});
    const device::Tensor logits_TV =
        context.workspace(context.accumulation, Shape{host.num_tokens(), width});
    engine.model().head().hidden(context, batch.batch(), x_TH);
    engine.model().head().logits(context, x_TH, logits_TV);
    const std::vector<double> padded = host_values(device, logits_TV);
    for (int64_t t = 0; t < host.num_tokens(); ++t) {
      const auto row = padded.begin() + t * width;
      all.insert(all.end(), row, row + a.vocab);
    }
  }
  return all;
}

class PyTorch : public testing::TestWithParam<Case> {};

TEST_P(PyTorch, LogitsLossAndEveryGradientAgree) {
  const Case& c = GetParam();
  const engine::Settings settings = settings_of(c);
  const ReferenceFile reference(c.file);
  Comparison comparison(c, reference, settings.model);
  const auto device = device::make_cpu_device(1);
  const auto world = comm::make_self_communicator(*device);
  const parallel::Mesh mesh(*world, settings.layout);
  engine::Engine engine(settings, *device, mesh);
  set_formula_weights(engine.parameters(), settings.model.vocab, *device);
  const std::vector<data::HostBatch> batches = micro_batches(settings);

  comparison.expect_near("logits", logits_of(engine, batches));
  // A learning rate of 0: the step leaves the gradients behind.
  const engine::StepResult result =
      engine.step(1, 0, batches, batches[0].total_weight + batches[1].total_weight);
  comparison.expect_near("loss", {result.loss});
  comparison.expect_near("grad_norm", {result.grad_norm});
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    comparison.expect_near("gradient." + parameter.name(),
                           host_values(*device, parameter.gradient()));
  }
}

constexpr auto kStreaming = false;
constexpr auto kMaterialised = true;
constexpr auto kNone = layers::Recompute::none;
constexpr auto kFull = layers::Recompute::full;

INSTANTIATE_TEST_SUITE_P(
    Models, PyTorch,
    testing::Values(Case{"gpt2_tied", DType::f32, kStreaming, kNone},
                    Case{"gpt2_tied", DType::f32, kMaterialised, kFull},
                    Case{"gpt2_tied", DType::f64, kStreaming, kNone},
                    Case{"gpt2_grouped_untied", DType::f32, kStreaming, kFull},
                    Case{"gpt2_grouped_untied", DType::f32, kMaterialised, kNone},
                    Case{"gpt2_grouped_untied", DType::f64, kMaterialised, kNone},
                    Case{"llama_grouped", DType::f32, kStreaming, kNone},
                    Case{"llama_grouped", DType::f32, kMaterialised, kFull},
                    Case{"llama_grouped", DType::f64, kStreaming, kFull}),
    [](const auto& of) {
      return fmt::format("{}_{}{}{}", of.param.file, name_of(of.param.dtype),
                         of.param.materialised == kStreaming ? "_streaming" : "_materialised",
                         of.param.recompute == kFull ? "_recomputed" : "");
    });

}  // namespace
}  // namespace megalith::golden
