// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/deployment_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "generate/block_plan.h"
#include "report/quantity.h"

namespace megalith::serving_plan {
namespace {

using generate::RankMemory;
using generate::Scheduler;

constexpr double kTail = 0.95;  // of the requests
constexpr double kMostGrowth =
    1.5;  // of latencies, from the second quarter of the load to the last

RankMemory largest_of(std::span<const RankMemory> ranks) {
  return *std::ranges::max_element(ranks, {},
                                   [](const RankMemory& rank) { return rank.weights + rank.pass; });
}

class Predictor {
 public:
  Predictor(const models::ModelSpec& spec, const clusters::Cluster& cluster,
            const Workload& workload)
      : spec_(spec), cluster_(cluster), work_(workload) {
    const bool has_bf16 = cluster.find(clusters::ProductType::bf16) != nullptr;
    products_ = has_bf16 ? clusters::ProductType::bf16 : clusters::ProductType::f32;
  }

  /// UserError when nothing can be predicted of the model or on the cluster.
  static void check(const models::ModelSpec& spec, const clusters::Cluster& cluster) {
    const Predictor one(spec, cluster, {});
    PassTimes(spec, cluster, {.products = one.products_});
  }

  /// All batches and chunks of one layout and format.
  void add(const SearchSpace& space, int64_t tensor, int64_t pipeline, Format weights,
           std::vector<Candidate>& all) {
    Deployment at{tensor, pipeline, weights, products_};
    if (products_ == clusters::ProductType::f32 && weights == Format::bf16)
      at.weights = Format::f32;
    const inference::InferenceModel::Options options = options_of(spec_, at);
    try {
      inference::InferenceModel::check(spec_, options, "plan --inference");
    } catch (const UserError&) {
      return;
    }
    const PassTimes times(spec_, cluster_, at);
    for (const int64_t chunk : space.chunks) {
      for (const int64_t batch : space.batches) {
        if (batch > chunk) continue;
        Candidate c{.tensor = tensor, .pipeline = pipeline, .batch = batch};
        c.details = Candidate::Details{.weights = std::string(name_of(at.weights)), .chunk = chunk};
        predict(options, times, c);
        c.details->unmeasured = times.unmeasured();
        all.push_back(std::move(c));
      }
    }
  }

 private:
  void predict(const inference::InferenceModel::Options& options, const PassTimes& times,
               Candidate& c) const {
    Candidate::Details& details = *c.details;
    const Scheduler::Limits limits{
        .sequences = c.batch, .tokens = details.chunk, .waiting = work_.requests};
    const int64_t context = work_.input + work_.output;
    // Each rank has a device of its own; the one that takes most decides.
    const RankMemory most = largest_rank(spec_, options, limits, context);
    generate::BlockPlan plan;
    try {
      plan = generate::plan_blocks(spec_, {&most, 1}, limits, context, cluster_.usable_memory());
    } catch (const UserError&) {
      c.failure = fmt::format(
          "no room: weights {} and the largest pass {} leave nothing of {} for a request",
          report::human_bytes(most.weights), report::human_bytes(most.pass),
          report::human_bytes(cluster_.usable_memory()));
      return;
    }
    details.memory = plan.model_bytes + plan.block_bytes;
    details.blocks = plan.blocks;
    details.sequences = plan.sequences;
    if (work_.arrivals > 0) {
      predict_load(times, limits, c);
    } else {
      predict_batch(times, limits, c);
    }
  }

  /// Through the scheduler, which reads prompts between the steps of texts that have begun.
  void predict_batch(const PassTimes& times, const Scheduler::Limits& limits, Candidate& c) const {
    if (c.details->sequences < static_cast<double>(c.batch)) {
      c.failure = fmt::format("no room: keys and values of {:.1f} requests of {} tokens fit",
                              c.details->sequences, work_.input + work_.output);
      return;
    }
    const ServedLatencies served = serve_load(
        times, inference::kv_groups(spec_), c.details->blocks, limits,
        {.arrivals = 0, .input = work_.input, .output = work_.output, .requests = c.batch});
    const double whole = served.whole.back(), first = served.first.back();
    c.latency_ms = 1e3 * whole;
    c.ttft_ms = 1e3 * first;
    c.tpot_ms = 1e3 * served.between.back();
    c.throughput = throughput_of(c);
  }

  void predict_load(const PassTimes& times, const Scheduler::Limits& limits, Candidate& c) const {
    const ServedLatencies served =
        serve_load(times, inference::kv_groups(spec_), c.details->blocks, limits,
                   {.arrivals = work_.arrivals,
                    .input = work_.input,
                    .output = work_.output,
                    .requests = std::max(work_.requests, 8 * c.batch),
                    .seed = work_.seed});
    if (served.growth > kMostGrowth) {
      c.failure = fmt::format("the queue grows: more than it answers arrive at {:.4g} a second",
                              work_.arrivals);
      return;
    }
    c.latency_ms = 1e3 * quantile(served.whole, kTail);
    c.ttft_ms = 1e3 * quantile(served.first, kTail);
    c.tpot_ms = 1e3 * quantile(served.between, kTail);
    c.throughput = work_.arrivals / static_cast<double>(c.gpus());
    c.details->mean_running = served.mean_running;
    c.details->preemptions = served.preemptions;
  }

  const models::ModelSpec& spec_;
  const clusters::Cluster& cluster_;
  Workload work_;
  clusters::ProductType products_;
};

}  // namespace

RankMemory largest_rank(const models::ModelSpec& spec,
                        const inference::InferenceModel::Options& options,
                        const Scheduler::Limits& limits, int64_t context) {
  const device::Target target = device::cpu_target(1);
  const int64_t stages = options.layout.pipeline, of_stage = spec.num_layers() / stages;
  const auto planned = [&](const models::ModelSpec& model) {
    return largest_of(generate::plan_memory(model, options, target, limits, context));
  };
  if (!spec.is_uniform() || spec.num_layers() % stages != 0 || of_stage <= 2 ||
      spec.shares_weights())
    return planned(spec);
  models::ModelSpec small = spec;
  small.set_num_layers(stages);
  const RankMemory one = planned(small);
  small.set_num_layers(2 * stages);
  RankMemory memory = planned(small);
  memory.weights += (of_stage - 2) * (memory.weights - one.weights);
  for (size_t g = 0; g < memory.block.size(); ++g)
    memory.block[g] += (of_stage - 2) * (memory.block[g] - one.block[g]);
  return memory;
}

std::vector<Candidate> predict_all(const models::ModelSpec& spec, const clusters::Cluster& cluster,
                                   const SearchSpace& space, const Workload& workload) {
  Predictor::check(spec, cluster);
  if (workload.input + workload.output > spec.context)
    throw UserError(
        "--input-tokens {} and --output-tokens {} are more than the context of the "
        "model, {}",
        workload.input, workload.output, spec.context);
  const int64_t most =
      std::min(cluster.devices(), space.most_gpus > 0 ? space.most_gpus : cluster.node.devices);
  Predictor predictor(spec, cluster, workload);
  std::vector<Candidate> all;
  for (const Format weights : space.weights)
    for (int64_t tensor = 1; tensor <= most; tensor *= 2)
      for (int64_t pipeline = 1; tensor * pipeline <= most; ++pipeline)
        if (spec.num_layers() % pipeline == 0) predictor.add(space, tensor, pipeline, weights, all);
  if (all.empty())
    throw UserError("no number of ranks up to {} divides the {} heads of the model", most,
                    spec.layer(0).attention.heads);
  return all;
}

std::vector<std::string> assumptions(const clusters::Cluster& cluster, const Workload& workload,
                                     std::span<const Candidate> candidates) {
  std::vector<std::string> all = {
      fmt::format("cluster {}: {} of {}, {:.3g} TB/s reached of memory, {:.3g} us a kernel",
                  cluster.name, cluster.devices(), cluster.device.name,
                  cluster.device.bandwidth * cluster.device.bandwidth_share / 1e12,
                  1e6 * cluster.device.launch_seconds),
      cluster.device.serving.empty()
          ? "seven kernels a layer; products by the roofline, weights read once a pass"
          : "this program's passes, each kernel at the rate that was measured here with weights "
            "that no cache holds",
      "memory: the largest passes of this program, traced; blocks of the cache are what is left"};
  std::set<std::string> unmeasured;
  for (const Candidate& c : candidates)
    if (c.details) unmeasured.insert(c.details->unmeasured.begin(), c.details->unmeasured.end());
  if (!unmeasured.empty())
    all.push_back(fmt::format("no rate was measured here of {}: by the roofline",
                              fmt::join(unmeasured, ", ")));
  all.push_back(
      workload.arrivals > 0
          ? fmt::format("{} requests arrive at random, {:.4g} a second at one copy of the "
                        "model; figures hold for 95 % of them",
                        workload.requests, workload.arrivals)
          : "all requests of a batch come at once; --arrivals says how they come instead");
  return all;
}

}  // namespace megalith::serving_plan
