// SPDX-License-Identifier: Apache-2.0
// megalith bench gemm | train | decode | tokenizer | collective: this machine's figures, one JSON
// object per line. Inputs are made up; sizes are options.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "account/plan.h"
#include "account/profile.h"
#include "apps/command.h"
#include "apps/cpu_target.h"
#include "apps/machine.h"
#include "apps/recipe_options.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "comm/backends.h"
#include "generate/inference_model.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/ceiling.h"
#include "kernels/matmul/linear.h"
#include "kernels/reduction/read_bandwidth.h"
#include "parallel/canonical.h"
#include "train/from_recipe.h"
#include "train/traced_step.h"

namespace megalith::apps {
namespace {

/// Reports one figure: the median of its samples.
void report(const std::string& name, std::vector<double> samples, const std::string& unit,
            bool higher_is_better, int threads, bool json) {
  std::vector<double> sorted = samples;
  std::ranges::sort(sorted);
  const double median = sorted[sorted.size() / 2];
  if (!json) {
    fmt::print("{:<44} {:>12.2f} {}  (best {:.2f}, {} samples)\n", name, median, unit,
               higher_is_better ? sorted.back() : sorted.front(), samples.size());
    return;
  }
  print_json({{"name", name},
              {"value", median},
              {"unit", unit},
              {"higher_is_better", higher_is_better},
              {"samples", samples},
              {"machine", machine_json({device::DeviceKind::cpu, device::detect_isa(), threads})}});
}

/// Rates of `work` units per call, after one call to warm up.
template <typename Body>
std::vector<double> rates(int count, double work, const Body& body) {
  body();
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) {
    const double begin = monotonic_seconds();
    body();
    samples.push_back(work / (monotonic_seconds() - begin));
  }
  return samples;
}

struct Options {
  int threads = 0;
  int samples = 5;
  int count() const { return threads > 0 ? threads : available_cores(); }
};

int gemm(const Options& o, bool json) {
  struct Size {
    int64_t t, i, o;
  };
  const auto device = device::make_cpu_device(cpu_target(o.count(), kernels::Numerics::fast));
  device::Arena& arena = device->arena(device::MemoryClass::workspace);
  for (const kernels::Numerics numerics : {kernels::Numerics::exact, kernels::Numerics::fast}) {
    kernels::Exec exec(*device, numerics);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const auto& [t, i, out] : {Size{4096, 768, 3072}, Size{4096, 3072, 768},
                                      Size{1024, 256, 1024}, Size{2048, 2048, 2048}}) {
        const device::Tensor x = arena.tensor(dtype, Shape{t, i}),
                             w = arena.tensor(dtype, Shape{out, i});
        const device::Tensor y = arena.tensor(dtype, Shape{t, out}),
                             dw = arena.tensor(DType::f32, Shape{out, i});
        kernels::fill(exec, x, 0.5);
        kernels::fill(exec, w, 0.25);
        kernels::fill(exec, dw, 0);
        const double work =
            2e-9 * static_cast<double>(t) * static_cast<double>(i) * static_cast<double>(out);
        const auto name = [&](const char* what) {
          return fmt::format("gemm.{}.{}.{}.{}x{}x{}",
                             numerics == kernels::Numerics::exact ? "exact" : "fast", dtype, what,
                             t, i, out);
        };
        report(name("forward"),
               rates(o.samples, work,
                     [&] { kernels::linear_forward(exec, {.x_TI = x, .w_OI = w, .y_TO = y}); }),
               "GFLOP/s", true, o.count(), json);
        report(name("backward_input"),
               rates(o.samples, work,
                     [&] {
                       kernels::linear_backward_input(exec, {.dy_TO = y, .w_OI = w, .dx_TI = x});
                     }),
               "GFLOP/s", true, o.count(), json);
        report(name("backward_weight"),
               rates(o.samples, work,
                     [&] {
                       kernels::linear_backward_weight(exec, {y, x, dw});
                     }),
               "GFLOP/s", true, o.count(), json);
      }
    }
  }
  return 0;
}

/// The best rate of matrix products here, whatever their type and arithmetic: what shares are of.
double best_gemm_rate(const device::Target& target) {
  const auto device = device::make_cpu_device(target);
  double best = 0;
  for (const kernels::Numerics numerics : {kernels::Numerics::exact, kernels::Numerics::fast}) {
    kernels::Exec exec(*device, numerics);
    for (const DType dtype : {DType::f32, DType::bf16})
      best = std::max(best, kernels::gemm_ceiling(exec, dtype, 0.3));
  }
  return best;
}

/// One data rank's batches with ids that jump about.
std::vector<data::HostBatch> made_up_batches(const train::Settings& settings) {
  std::vector<data::HostBatch> batches = train::shaped_batches(settings);
  int64_t id = 0;
  for (data::HostBatch& batch : batches) {
    for (size_t t = 0; t < batch.ids_T.size(); ++t) {
      batch.ids_T[t] = static_cast<int32_t>(id % settings.architecture.vocab);
      id = id * 31 + 17;
      id %= 1'000'003;
      batch.targets_T[t] = static_cast<int32_t>(id % settings.architecture.vocab);
    }
  }
  return batches;
}

/// Steps of a recipe's model on made-up tokens.
int train(const RecipeOptions& recipe_options, const Options& o, bool json) {
  const config::Recipe recipe = recipe_options.load();
  const train::Settings settings = train::settings_of(recipe, 0);
  train::require_one_rank(settings);
  const int threads = o.threads > 0 ? o.threads : threads_of(recipe);
  const device::Target target = cpu_target(threads, settings.numerics);
  const device::Work work = account::trace(target, [&](device::Device& traced) {
                              const auto world = comm::make_self_communicator(traced);
                              train::traced_step(settings, traced, *world, {});
                            }).work;
  const auto device = device::make_cpu_device(target);
  const auto world = comm::make_self_communicator(*device);
  const parallel::Mesh mesh(*world, settings.layout);
  train::Engine engine(settings, *device, mesh);
  engine.initialise();
  const std::vector<data::HostBatch> batches = made_up_batches(settings);
  const auto tokens = static_cast<double>(settings.batch.full * settings.sequence_length());
  int64_t step = 0;
  const std::vector<double> rate =
      rates(o.samples, tokens, [&] { engine.step(++step, 1e-4, batches, tokens); });
  report("train.tokens_per_second", rate, "tokens/s", true, threads, json);
  constexpr double kGiB = 1 << 30;
  report("train.peak_resident", {static_cast<double>(account::resident_memory().peak) / kGiB},
         "GiB", false, threads, json);
  const double best = best_gemm_rate(cpu_target(threads, kernels::Numerics::fast));
  report("gemm.best", {best * 1e-9}, "GFLOP/s", true, threads, json);
  std::vector<double> shares;
  for (const double r : rate) shares.push_back(100 * r / tokens * work.flops / best);
  report("train.share_of_best_gemm", shares, "%", true, threads, json);
  return 0;
}

struct DecodeOptions {
  models::Architecture architecture;
  std::string dtype = "bf16", numerics = "fast";
  int64_t prompt = 64, tokens = 128;
  bool profile = false;
};

/// Where the time of `tokens` decoded tokens goes.
void print_decode_profile(generate::InferenceModel& model, device::Device& device,
                          generate::KvCache& cache, std::span<const int32_t> id, int64_t tokens) {
  kernels::Exec exec(device);
  const account::Roofline roofline{kernels::gemm_ceiling(exec, DType::f32, 0.2),
                                   kernels::read_bandwidth(exec, int64_t{512} << 20, 0.2)};
  device::Recorder recorder;
  device.set_recorder(&recorder);
  const double begin = monotonic_seconds();
  for (int64_t n = 0; n < tokens; ++n) model.extend(cache, id);
  const double seconds = monotonic_seconds() - begin;
  device.set_recorder(nullptr);
  fmt::print(stderr, "{}",
             account::to_text(account::profile_of(recorder, tokens, seconds, roofline), roofline));
}

/// FLOPs of reading a prompt, as its kernels record them.
double prompt_flops(generate::InferenceModel& model, device::Device& device,
                    std::span<const int32_t> ids) {
  generate::KvCache cache = model.make_cache(static_cast<int64_t>(ids.size()));
  device::Recorder recorder;
  device.set_recorder(&recorder);
  model.extend(cache, ids);
  device.set_recorder(nullptr);
  return recorder.total().flops;
}

int decode(const DecodeOptions& d, const Options& o, bool json) {
  generate::InferenceModel::Options options;
  options.numerics = d.numerics == "fast" ? kernels::Numerics::fast : kernels::Numerics::exact;
  const auto device = device::make_cpu_device(cpu_target(o.count(), options.numerics));
  options.compute = d.dtype == "bf16" ? DType::bf16 : DType::f32;
  generate::InferenceModel model(d.architecture, *device, options);
  kernels::Exec exec(*device);
  for (auto& parameter : model.parameters().all())
    kernels::fill(exec, parameter.mutable_compute(), 0.01);
  const std::vector<int32_t> ids(static_cast<size_t>(d.prompt), 1);
  const auto one = std::span(ids).first(1);
  // What one token reads: every weight but the input tables (a tied table is the head), and the
  // cache up to the middle of the text.
  int64_t bytes = 0;
  for (const auto& parameter : model.parameters().all()) {
    if (!parameter.name().starts_with("position")) bytes += parameter.compute().bytes();
  }
  bytes += 2 * d.architecture.layers * d.architecture.hidden * bytes_of(options.compute) *
           (d.prompt + d.tokens / 2);
  std::vector<double> prompt_rates, decode_rates, bandwidths, shares;
  for (int i = 0; i < o.samples; ++i) {
    generate::KvCache cache = model.make_cache(d.prompt + (d.profile ? 2 : 1) * d.tokens);
    const double begin = monotonic_seconds();
    model.extend(cache, ids);
    const double middle = monotonic_seconds();
    for (int64_t n = 0; n < d.tokens; ++n) model.extend(cache, one);
    const double end = monotonic_seconds();
    prompt_rates.push_back(static_cast<double>(d.prompt) / (middle - begin));
    decode_rates.push_back(static_cast<double>(d.tokens) / (end - middle));
    bandwidths.push_back(1e-9 * kernels::read_bandwidth(exec, bytes, 0.2));
    shares.push_back(1e-7 * decode_rates.back() * static_cast<double>(bytes) / bandwidths.back());
    if (d.profile && i == o.samples - 1) print_decode_profile(model, *device, cache, one, d.tokens);
  }
  report("decode.prompt_tokens_per_second", prompt_rates, "tokens/s", true, o.count(), json);
  report("decode.tokens_per_second", decode_rates, "tokens/s", true, o.count(), json);
  report("decode.read_bandwidth", bandwidths, "GB/s", true, o.count(), json);
  report("decode.share_of_read_bandwidth", shares, "%", true, o.count(), json);
  const double flops = prompt_flops(model, *device, ids);
  const double best = best_gemm_rate(cpu_target(o.count(), kernels::Numerics::fast));
  std::vector<double> prompt_shares;
  for (const double rate : prompt_rates)
    prompt_shares.push_back(100 * rate / static_cast<double>(d.prompt) * flops / best);
  report("decode.prompt_share_of_best_gemm", prompt_shares, "%", true, o.count(), json);
  return 0;
}

/// Encoding by as many threads as asked, each with a part of the lines; one thread takes the text
/// whole.
int tokenizer(const std::string& path, const std::string& input, const Options& o, bool json) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(path);
  const std::string document = read_file(input);
  const int threads = std::max(1, o.threads);
  std::vector<std::string_view> parts;
  for (std::string_view rest = document; !rest.empty();) {
    const size_t left = static_cast<size_t>(threads) - parts.size();
    size_t end = left == 1 ? rest.size() : rest.find('\n', rest.size() / left);
    end = end == std::string_view::npos ? rest.size() : std::min(end + 1, rest.size());
    parts.push_back(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  ThreadPool pool(threads);
  std::vector<text::Encoder> encoders;
  for (int i = 0; i < threads; ++i) encoders.emplace_back(tokenizer);
  std::vector<std::vector<int32_t>> ids(static_cast<size_t>(threads));
  report(fmt::format("tokenizer.encode.{}_threads", threads),
         rates(o.samples, static_cast<double>(document.size()) / 1e6,
               [&] {
                 pool.run([&](int thread) {
                   const auto t = static_cast<size_t>(thread);
                   ids[t].clear();
                   if (t < parts.size()) encoders[t].encode(parts[t], ids[t], false);
                 });
               }),
         "MB/s", true, threads, json);
  return 0;
}

int collective(int ranks, int64_t elements, const Options& o, bool json) {
  std::vector<double> samples;
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    kernels::Exec exec(*device);
    const device::Tensor x = exec.workspace.tensor(DType::f32, Shape{elements});
    kernels::fill(exec, x, 0);
    const auto mine = rates(o.samples, static_cast<double>(elements) * 4e-9,
                            [&] { parallel::tree_all_reduce(exec, world, x, "bench"); });
    if (world.rank() == 0) samples = mine;
  });
  report(fmt::format("collective.tree_all_reduce.{}_ranks", ranks), samples, "GB/s", true, ranks,
         json);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Invocation& invocation) {
  CLI::App& parent = *app.add_subcommand("bench", "speed of this machine with this program");
  parent.require_subcommand(1);
  const auto add = [&](const char* name, const char* what,
                       const char* example) -> std::pair<CLI::App*, std::shared_ptr<Options>> {
    CLI::App& c = add_command(parent, invocation, name, what, example);
    auto o = std::make_shared<Options>();
    c.add_option("--threads", o->threads, "0: all cores")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    c.add_option("--samples", o->samples, "timed repetitions")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    return {&c, o};
  };
  {
    auto [c, o] = add("gemm", "matrix products: the ceiling of everything else",
                      "  megalith bench gemm --json\n");
    c->callback([=, &invocation] {
      invocation.run = [=, &invocation] { return gemm(*o, invocation.json); };
    });
  }
  {
    auto [c, o] = add("train", "steps of a recipe's model",
                      "  megalith bench train recipes/gpt2_124m.yaml --json\n");
    auto recipe = std::make_shared<RecipeOptions>();
    recipe->declare(*c);
    c->callback([=, &invocation] {
      invocation.run = [=, &invocation] { return train(*recipe, *o, invocation.json); };
    });
  }
  {
    auto [c, o] = add("decode", "prefill and decoding of a GPT-2 shape with made-up weights",
                      "  megalith bench decode --dtype bf16\n");
    auto d = std::make_shared<DecodeOptions>();
    c->add_option("--layers", d->architecture.layers)->capture_default_str();
    c->add_option("--hidden", d->architecture.hidden)->capture_default_str();
    c->add_option("--heads", d->architecture.heads)->capture_default_str();
    c->add_option("--vocab", d->architecture.vocab)->capture_default_str();
    c->add_option("--context", d->architecture.context)->capture_default_str();
    c->add_option("--prompt", d->prompt, "tokens")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    c->add_option("--tokens", d->tokens, "new tokens")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    c->add_option("--numerics", d->numerics)
        ->check(CLI::IsMember({"exact", "fast"}))
        ->capture_default_str();
    c->add_flag("--profile", d->profile, "time by kernel of as many further tokens");
    c->add_option("--dtype", d->dtype)
        ->check(CLI::IsMember({"f32", "bf16"}))
        ->capture_default_str();
    c->callback([=, &invocation] {
      invocation.run = [=, &invocation] {
        d->architecture.kv_heads = d->architecture.heads;
        d->architecture.ffn = 4 * d->architecture.hidden;
        return decode(*d, *o, invocation.json);
      };
    });
  }
  {
    auto [c, o] = add("tokenizer", "encoding of a text, one thread unless told",
                      "  megalith bench tokenizer --tokenizer t.json --input text.txt\n");
    auto paths = std::make_shared<std::pair<std::string, std::string>>();
    c->add_option("--tokenizer", paths->first, "tokenizer.json")->required();
    c->add_option("--input", paths->second, "text file")->required();
    c->callback([=, &invocation] {
      invocation.run = [=, &invocation] {
        return tokenizer(paths->first, paths->second, *o, invocation.json);
      };
    });
  }
  {
    auto [c, o] = add("collective", "sums over ranks that are threads",
                      "  megalith bench collective --ranks 2\n");
    auto ranks = std::make_shared<int>(2);
    auto elements = std::make_shared<int64_t>(int64_t{1} << 22);
    c->add_option("--ranks", *ranks)->check(CLI::IsMember({1, 2, 4, 8, 16}))->capture_default_str();
    c->add_option("--elements", *elements, "f32 numbers")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    c->callback([=, &invocation] {
      invocation.run = [=, &invocation] {
        return collective(*ranks, *elements, *o, invocation.json);
      };
    });
  }
}

}  // namespace megalith::apps
