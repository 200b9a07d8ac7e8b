// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/measured_pass.h"

#include <algorithm>
#include <cmath>

#include "base/integer.h"
#include "comm/backends.h"
#include "costs/kernel_time.h"
#include "inference/shaped_pass.h"
#include "store/quantization.h"

namespace megalith::serving_plan {
namespace {

/// Which kernels run, and their work, does not depend on the instruction set.
constexpr device::Target kTraced{device::DeviceKind::cpu, device::Isa::avx512_bf16, 1};
constexpr int64_t kRoundedTo = 16;  // tokens that have been read

}  // namespace

inference::InferenceModel::Options options_of(const models::ModelSpec& spec, const Deployment& at) {
  inference::InferenceModel::Options options{
      .compute = at.products == clusters::ProductType::f32 ? DType::f32 : DType::bf16,
      .tensor_shards =
          static_cast<int>(std::max<int64_t>(models::default_tensor_shards(spec), at.tensor)),
      .layout = {.tensor = static_cast<int>(at.tensor), .pipeline = static_cast<int>(at.pipeline)}};
  if (!is_plain(at.weights))
    options.formats = store::formats_in_blocks(spec, options.tensor_shards, at.weights);
  return options;
}

/// The first rank of a stage on the trace kind.
class MeasuredPasses::TracedRank {
 public:
  TracedRank(const models::ModelSpec& spec, const inference::InferenceModel::Options& options,
             int rank)
      : device_(device::make_trace_device(kTraced)),
        world_(comm::make_traced_communicator(*device_, rank, options.layout.num_ranks())),
        model_(spec, *device_, *world_, options) {}

  std::vector<device::Record> records(std::span<const inference::ShapedRows> rows) {
    int64_t sequences = 0, context = 0;
    for (const inference::ShapedRows& r : rows) {
      sequences += r.sequences;
      context = std::max(context, r.past + r.count);
    }
    inference::ShapedPasses passes(model_.engine(), sequences, context);
    device::Recorder recorder;
    device_->set_recorder(&recorder);
    passes.run(rows, [](std::span<const float>) {});
    device_->set_recorder(nullptr);
    return recorder.records();
  }

 private:
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<comm::Communicator> world_;
  inference::InferenceModel model_;
};

MeasuredPasses::MeasuredPasses(const models::ModelSpec& spec, const clusters::Cluster& cluster,
                               const Deployment& deployment)
    : spec_(spec), cluster_(cluster), at_(deployment) {
  const inference::InferenceModel::Options options = options_of(spec, deployment);
  inference::InferenceModel::check(spec, options, "plan --inference");
  for (int64_t stage = 0; stage < at_.pipeline; ++stage)
    stages_.push_back(
        std::make_unique<TracedRank>(spec, options, static_cast<int>(stage * at_.tensor)));
}

MeasuredPasses::~MeasuredPasses() = default;

double MeasuredPasses::seconds_of(std::span<const device::Record> records, double logits) {
  const costs::KernelTime elsewhere(cluster_, at_.products);
  const costs::Group tensor{at_.tensor, 1}, stages{at_.pipeline, at_.tensor};
  double kernels = 0, calls = 0, wire = 0;
  for (const device::Record& record : records) {
    const auto of_record = static_cast<double>(record.calls);
    const auto bytes = static_cast<double>(record.work.bytes_read + record.work.bytes_written);
    calls += of_record;
    if (costs::is_waiting(record)) continue;
    const clusters::KernelRate* const rate =
        cluster_.find_serving(record.name, at_.products, bytes > 0 ? record.work.flops / bytes : 0);
    const bool computes = !costs::is_transfer(record);
    if (computes && rate == nullptr) unmeasured_.insert(record.name);
    if (computes && rate != nullptr) {
      kernels += rate->seconds(of_record, record.work.flops, bytes);
      continue;
    }
    const bool between_stages = at_.tensor == 1 || record.name == "send";
    const costs::RecordedTime time = elsewhere.of({&record, 1}, between_stages ? stages : tensor);
    kernels += time.kernels;
    wire += time.wire;
  }
  const clusters::KernelRate* const outside =
      cluster_.find_serving(clusters::kOutsideKernels, at_.products, 0);
  const double beside = outside != nullptr ? outside->seconds(calls, 0, 4 * logits) : 0;
  const auto ranks = static_cast<double>(at_.tensor * at_.pipeline);
  return (kernels + beside) * cluster_.sharing(ranks) + wire;
}

std::vector<double> MeasuredPasses::stages(std::span<const Rows> rows) {
  const auto split = std::ranges::find_if(
      rows, [](const Rows& r) { return r.times > 1 && r.times != std::floor(r.times); });
  if (split == rows.end()) return of_whole_sequences(rows);
  std::vector<Rows> fewer(rows.begin(), rows.end());
  const auto at = static_cast<size_t>(split - rows.begin());
  fewer[at].times = std::floor(split->times);
  std::vector<Rows> more = fewer;
  more[at].times += 1;
  std::vector<double> seconds = stages(fewer);
  const std::vector<double> above = stages(more);
  for (size_t i = 0; i < seconds.size(); ++i)
    seconds[i] += (split->times - fewer[at].times) * (above[i] - seconds[i]);
  return seconds;
}

std::vector<double> MeasuredPasses::of_whole_sequences(std::span<const Rows> rows) {
  Key key;
  double chosen = 0;
  std::vector<inference::ShapedRows> shaped;
  for (const Rows& r : rows) {
    const inference::ShapedRows whole{
        .sequences = std::max<int64_t>(1, std::llround(std::ceil(r.times))),
        .count = std::llround(std::ceil(r.count)),
        .past = kRoundedTo * std::llround(r.past / static_cast<double>(kRoundedTo)),
        .chooses = r.chooses};
    if (r.chooses) chosen += static_cast<double>(whole.sequences);
    shaped.push_back(whole);
    key.push_back({whole.sequences, whole.count, whole.past, whole.chooses});
  }
  const auto [place, is_new] = known_.try_emplace(key);
  if (!is_new) return place->second;
  std::vector<double> seconds;
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    const bool is_last = stage + 1 == stages_.size();
    seconds.push_back(seconds_of(stages_[stage]->records(shaped),
                                 is_last ? chosen * static_cast<double>(spec_.vocab) : 0));
  }
  place->second = seconds;
  return seconds;
}

}  // namespace megalith::serving_plan
