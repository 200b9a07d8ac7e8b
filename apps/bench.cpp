// SPDX-License-Identifier: Apache-2.0
// megalith bench gemm | train | layouts | decode | tokenizer | collective: this machine's figures,
// one JSON object per line. Inputs are made up; sizes are options.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <tuple>

#include "apps/bench_figures.h"
#include "apps/command.h"
#include "apps/cpu_target.h"
#include "base/file.h"
#include "comm/backends.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/linear.h"
#include "kernels/matmul/product_class.h"
#include "parallel/canonical.h"

namespace megalith::apps {
namespace {

struct Size {
  int64_t t, i, o;
};

/// The three products of a linear layer, `exact` and the library's, which `fast` may take instead,
/// in turn so that both see the same machine.
void gemm_of(device::Device& device, DType dtype, const Size& size, const BenchOptions& o,
             bool json) {
  const auto& [t, i, out] = size;
  device::Arena& arena = device.arena(device::MemoryClass::workspace);
  const device::Tensor x = arena.tensor(dtype, Shape{t, i}), w = arena.tensor(dtype, Shape{out, i});
  const device::Tensor y = arena.tensor(dtype, Shape{t, out}),
                       dw = arena.tensor(DType::f32, Shape{out, i});
  kernels::Exec exact(device, kernels::Numerics::exact), library(device, kernels::Numerics::fast);
  library.only = "onednn";
  const bool has_library = kernels::library_multiplies(dtype);
  kernels::fill(exact, x, 0.5);
  kernels::fill(exact, w, 0.25);
  kernels::fill(exact, dw, 0);
  const double work =
      2e-9 * static_cast<double>(t) * static_cast<double>(i) * static_cast<double>(out);
  const auto measure = [&](const char* what, auto product) {
    product(exact);
    if (has_library) product(library);
    std::vector<double> exact_rates, library_rates, shares;
    for (int sample = 0; sample < o.samples; ++sample) {
      exact_rates.push_back(rate(work, [&] { product(exact); }));
      if (!has_library) continue;
      library_rates.push_back(rate(work, [&] { product(library); }));
      shares.push_back(100 * exact_rates.back() / library_rates.back());
    }
    const std::string shape = fmt::format("{}.{}.{}x{}x{}", dtype, what, t, i, out);
    report("gemm.exact." + shape, exact_rates, "GFLOP/s", true, o.count(), json);
    if (!has_library) return;
    report("gemm.library." + shape, library_rates, "GFLOP/s", true, o.count(), json);
    report("gemm.exact_over_library." + shape, shares, "%", true, o.count(), json);
  };
  measure("forward", [&](kernels::Exec& exec) {
    kernels::linear_forward(exec, {.x_TI = x, .w_OI = w, .y_TO = y});
  });
  measure("backward_input", [&](kernels::Exec& exec) {
    kernels::linear_backward_input(exec, {.dy_TO = y, .w_OI = w, .dx_TI = x});
  });
  measure("backward_weight", [&](kernels::Exec& exec) {
    kernels::linear_backward_weight(exec, {y, x, dw});
  });
}

int gemm(const BenchOptions& o, bool json) {
  const auto device = device::make_device(cpu_target(o.count(), kernels::Numerics::fast));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Size& size : {Size{4096, 768, 3072}, Size{4096, 3072, 768}, Size{1024, 256, 1024},
                             Size{2048, 2048, 2048}})
      gemm_of(*device, dtype, size, o, json);
  }
  for (const auto& [name, rates] : BestGemm(o.count()).ceilings(o.samples))
    report("gemm.ceiling." + name, rates, "GFLOP/s", true, o.count(), json);
  return 0;
}

/// Pieces of whole lines, about `bytes` long.
std::vector<std::string_view> pieces_of(std::string_view text, size_t bytes) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t end = bytes < text.size() ? text.find('\n', bytes) : std::string_view::npos;
    pieces.push_back(text.substr(0, end == std::string_view::npos ? end : end + 1));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

/// Encoding by one thread, the text whole, and in turn by as many as asked, each taking the next
/// piece of it.
int tokenizer(const std::string& path, const std::string& input, const BenchOptions& o, bool json) {
  constexpr double kSeconds = 1;  // of a sample by one thread, at least
  constexpr size_t kPieceBytes = size_t{64} << 10;
  constexpr int64_t kMostTextBytes = int64_t{1} << 30;
  const text::Tokenizer tokenizer = text::Tokenizer::load(path);
  const std::string document = read_file(input, kMostTextBytes);
  const std::vector<std::string_view> pieces = pieces_of(document, kPieceBytes);
  const int threads = o.count();
  ThreadPool pool(threads);
  struct alignas(64) Lane {  // no two threads write to one cache line
    text::Encoder encoder;
    std::vector<int32_t> ids;
  };
  std::vector<Lane> lanes;
  for (int i = 0; i < threads; ++i) lanes.push_back({text::Encoder(tokenizer), {}});
  const auto alone = [&] {
    lanes[0].ids.clear();
    lanes[0].encoder.encode(document, lanes[0].ids, false);
  };
  const auto together = [&] {
    std::atomic<size_t> next = 0;
    pool.run([&](int thread) {
      Lane& lane = lanes[static_cast<size_t>(thread)];
      lane.ids.clear();
      for (size_t i = next++; i < pieces.size(); i = next++)
        lane.encoder.encode(pieces[i], lane.ids, false);
    });
  };
  const double megabytes = static_cast<double>(document.size()) / 1e6;
  together();
  alone();
  const int passes =
      1 + static_cast<int>(std::min(1e6, kSeconds * rate(megabytes, alone) / megabytes));
  std::vector<double> one, all, speedups;
  for (int i = 0; i < o.samples; ++i) {
    // Pass by pass in turn: what else the machine does then meets both alike.
    double alone_seconds = 0, together_seconds = 0;
    for (int pass = 0; pass < passes; ++pass) {
      alone_seconds += 1 / rate(1, alone);
      if (threads > 1) together_seconds += 1 / rate(1, together);
    }
    one.push_back(megabytes * passes / alone_seconds);
    if (threads == 1) continue;
    all.push_back(megabytes * passes / together_seconds);
    speedups.push_back(alone_seconds / together_seconds);
  }
  report("tokenizer.encode.1_threads", one, "MB/s", true, 1, json);
  if (threads == 1) return 0;
  report(fmt::format("tokenizer.encode.{}_threads", threads), all, "MB/s", true, threads, json);
  report("tokenizer.encode.speedup", speedups, "x", true, threads, json);
  return 0;
}

int collective(int ranks, int64_t elements, const BenchOptions& o, bool json) {
  std::vector<double> samples;
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    const auto device = device::make_device({.isa = device::detect_isa()});
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

void add_decode_options(CLI::App& c, DecodeShape& d) {
  c.add_option("--family", d.family, "gpt2 or llama")->capture_default_str();
  // What a shape may be the model says; no product of these is too large to say it.
  for (const auto& [name, value, what] :
       {std::tuple{"--layers", &d.sizes.layers, ""}, std::tuple{"--hidden", &d.sizes.hidden, ""},
        std::tuple{"--heads", &d.sizes.heads, ""}, std::tuple{"--vocab", &d.sizes.vocab, ""},
        std::tuple{"--context", &d.sizes.context, ""}, std::tuple{"--prompt", &d.prompt, "tokens"},
        std::tuple{"--tokens", &d.tokens, "new tokens"}}) {
    c.add_option(name, *value, what)
        ->check(whole_number(1, int64_t{1} << 30))
        ->capture_default_str();
  }
  for (const auto& [name, value, what] :
       {std::tuple{"--kv-heads", &d.sizes.kv_heads, "0: as many as heads"},
        std::tuple{"--ffn", &d.sizes.ffn, "width of the MLP; 0: the family's own"}}) {
    c.add_option(name, *value, what)
        ->check(whole_number(0, int64_t{1} << 30))
        ->capture_default_str();
  }
  c.add_option("--numerics", d.numerics)
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  c.add_flag("--profile", d.profile, "time by kernel of as many further tokens");
  c.add_option("--dtype", d.dtype)->check(CLI::IsMember({"f32", "bf16"}))->capture_default_str();
}

/// A command below `bench`, with the options that all of them have.
std::pair<CLI::App*, std::shared_ptr<BenchOptions>> add_bench_command(CLI::App& parent,
                                                                      Invocation& invocation,
                                                                      const char* name,
                                                                      const char* what,
                                                                      const char* example) {
  CLI::App& c = add_command(parent, invocation, name, what, example);
  auto o = std::make_shared<BenchOptions>();
  c.add_option("--threads", o->threads, "0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  c.add_option("--samples", o->samples, "timed repetitions")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  return {&c, o};
}

void add_bench_gemm(CLI::App& parent, Invocation& invocation) {
  auto [c, o] = add_bench_command(parent, invocation, "gemm",
                                  "matrix products: the ceiling of everything else",
                                  "  megalith bench gemm --json\n");
  c->callback([=, &invocation] {
    invocation.run = [=, &invocation] { return gemm(*o, invocation.json); };
  });
}

void add_bench_train(CLI::App& parent, Invocation& invocation) {
  auto [c, o] = add_bench_command(parent, invocation, "train", "steps of a recipe's model",
                                  "  megalith bench train recipes/gpt2_124m.yaml --json\n");
  auto recipe = std::make_shared<RecipeOptions>();
  recipe->declare(*c);
  c->callback([=, &invocation] {
    invocation.run = [=, &invocation] { return bench_train(*recipe, *o, invocation.json); };
  });
}

void add_bench_layouts(CLI::App& parent, Invocation& invocation) {
  auto [c, o] = add_bench_command(
      parent, invocation, "layouts",
      "a recipe under its layout beside the same on one rank, in turn",
      "  megalith bench layouts recipes/gpt2_124m.yaml --set parallel.tensor=2\n");
  auto recipe = std::make_shared<RecipeOptions>();
  recipe->declare(*c);
  auto comparison = std::make_shared<LayoutsComparison>();
  c->add_option("--beside", comparison->beside,
                "key.path=value: what the other side changes of the recipe (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  c->add_flag("--passes", comparison->passes, "forward and backward alone, no update");
  c->callback([=, &invocation] {
    invocation.run = [=, &invocation] {
      return bench_layouts(*recipe, *comparison, *o, invocation.json);
    };
  });
}

void add_bench_decode(CLI::App& parent, Invocation& invocation) {
  auto [c, o] = add_bench_command(parent, invocation, "decode",
                                  "prefill and decoding of a model with made-up weights",
                                  "  megalith bench decode --dtype bf16\n");
  auto d = std::make_shared<DecodeShape>();
  add_decode_options(*c, *d);
  c->callback([=, &invocation] {
    invocation.run = [=, &invocation] { return bench_decode(*d, *o, invocation.json); };
  });
}

void add_bench_tokenizer(CLI::App& parent, Invocation& invocation) {
  auto [c, o] = add_bench_command(
      parent, invocation, "tokenizer", "encoding of a text: one thread, then as many as asked",
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

void add_bench_collective(CLI::App& parent, Invocation& invocation) {
  auto [c, o] =
      add_bench_command(parent, invocation, "collective", "sums over ranks that are threads",
                        "  megalith bench collective --ranks 2\n");
  auto ranks = std::make_shared<int>(2);
  auto elements = std::make_shared<int64_t>(int64_t{1} << 22);
  c->add_option("--ranks", *ranks)->check(CLI::IsMember({1, 2, 4, 8, 16}))->capture_default_str();
  c->add_option("--elements", *elements, "f32 numbers")
      ->check(whole_number(1, int64_t{1} << 40))
      ->capture_default_str();
  c->callback([=, &invocation] {
    invocation.run = [=, &invocation] {
      return collective(*ranks, *elements, *o, invocation.json);
    };
  });
}

}  // namespace

void add_bench(CLI::App& app, Invocation& invocation) {
  CLI::App& parent = *app.add_subcommand("bench", "speed of this machine with this program");
  parent.require_subcommand(1);
  add_bench_gemm(parent, invocation);
  add_bench_train(parent, invocation);
  add_bench_layouts(parent, invocation);
  add_bench_decode(parent, invocation);
  add_bench_tokenizer(parent, invocation);
  add_bench_collective(parent, invocation);
}

}  // namespace megalith::apps
