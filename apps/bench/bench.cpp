// SPDX-License-Identifier: Apache-2.0
// megalith bench gemm | train | layouts | machine | decode | embed | tokenizer | grammar |
// collective: this machine's figures, one JSON object per line. Inputs are made up, but for texts;
// sizes are options.
#include <fmt/format.h>

#include <memory>
#include <tuple>

#include "apps/bench/figures.h"
#include "apps/command.h"
#include "apps/tokenizer/argument.h"
#include "comm/backends.h"
#include "kernels/elementwise/pointwise.h"
#include "parallel/canonical.h"

namespace megalith::apps {
namespace {

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
  auto* const checkpoint =
      c.add_option("--checkpoint", d.checkpoint,
                   "run folder, checkpoint folder, Hugging Face folder or GGUF file; default: "
                   "made-up weights of a shape that the other options say");
  c.add_option("--family", d.family, "of models that write text, as in recipes")
      ->excludes(checkpoint)
      ->capture_default_str();
  // What a shape may be the model says; no product of these is too large to say it.
  const auto number = [&](const char* name, int64_t& value, const char* what, int64_t least) {
    return c.add_option(name, value, what)
        ->check(whole_number(least, int64_t{1} << 30))
        ->capture_default_str();
  };
  number("--prompt", d.prompt, "tokens", 1);
  number("--tokens", d.tokens, "new tokens", 1);
  for (const auto& [name, value] :
       {std::pair{"--layers", &d.sizes.layers}, std::pair{"--hidden", &d.sizes.hidden},
        std::pair{"--heads", &d.sizes.heads}, std::pair{"--vocab", &d.sizes.vocab},
        std::pair{"--context", &d.sizes.context}})
    number(name, *value, "", 1)->excludes(checkpoint);
  for (const auto& [name, value, what] :
       {std::tuple{"--kv-heads", &d.sizes.kv_heads, "0: as many as heads"},
        std::tuple{"--ffn", &d.sizes.ffn, "width of the MLP; 0: the family's own"}}) {
    number(name, *value, what, 0)->excludes(checkpoint);
  }
  auto* const profile =
      c.add_flag("--profile", d.profile, "time by kernel of as many further tokens");
  c.add_option("--batch", d.batch,
               "so many prompts read and continued together by the server's generator: time to the "
               "first token of all, and between tokens")
      ->check(whole_number(1, 4096))
      ->excludes(profile);
  c.add_option("--dtype", d.dtype)->check(CLI::IsMember({"f32", "bf16"}))->capture_default_str();
  c.add_option("--quantize", d.quantize, "hold the weights of products in blocks of 8 or 4 bits")
      ->check(CLI::IsMember({"q8_0", "q4_0", "q4_1", "fp8"}));
  c.add_option("--numerics", d.numerics, "fast: rows that meet blocks are rounded to 8 bits")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
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
    invocation.run = [=, &invocation] { return bench_gemm(*o, invocation.json); };
  });
}

void add_bench_train(CLI::App& parent, Invocation& invocation) {
  auto [c, o] =
      add_bench_command(parent, invocation, "train", "steps of a recipe's model, under its layout",
                        "  megalith bench train recipes/gpt2_124m.yaml --json\n"
                        "  megalith bench train recipes/gpt2_124m.yaml --set "
                        "parallel.tensor=2\n"
                        "  mpirun -n 2 megalith bench train recipes/gpt2_124m.yaml --set "
                        "parallel.tensor=2\n");
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

void add_bench_machine(CLI::App& parent, Invocation& invocation) {
  CLI::App& c = add_command(
      parent, invocation, "machine",
      "this machine as a cluster file, measured, for plan --search and --inference here",
      "  megalith bench machine --output here.yaml\n"
      "  megalith bench machine --output here4.yaml --ranks 4\n"
      "  megalith plan recipe.yaml --search --cluster here.yaml\n"
      "  megalith bench machine --output one.yaml --ranks 1 --threads 1\n");
  auto o = std::make_shared<BenchOptions>();
  auto output = std::make_shared<MachineOutput>();
  c.add_option("--output", output->path, "the file to write")->required();
  c.add_option("--ranks", output->ranks,
               "number of ranks that the file describes: a divisor of the cores, or more, which "
               "then take turns; 0: one for each core")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  c.add_option("--threads", output->threads, "of each rank; 0: its part of the cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  c.add_option("--samples", o->samples, "timed repetitions; the fastest counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  c.callback([=, &invocation] {
    invocation.run = [=, &invocation] { return bench_machine(*output, *o, invocation.json); };
  });
}

void add_bench_decode(CLI::App& parent, Invocation& invocation) {
  auto [c, o] = add_bench_command(parent, invocation, "decode",
                                  "prefill and decoding of a model, its own or made-up weights",
                                  "  megalith bench decode --dtype bf16\n"
                                  "  megalith bench decode --checkpoint model.gguf\n"
                                  "  megalith bench decode --dtype f32 --quantize q8_0\n"
                                  "  megalith bench decode --batch 16 --quantize q4_0\n");
  auto d = std::make_shared<DecodeShape>();
  add_decode_options(*c, *d);
  c->callback([=, &invocation] {
    invocation.run = [=, &invocation] { return bench_decode(*d, *o, invocation.json); };
  });
}

void add_bench_embed(CLI::App& parent, Invocation& invocation) {
  auto [c, o] =
      add_bench_command(parent, invocation, "embed", "vectors of texts, their tokens included",
                        "  megalith bench embed --checkpoint minilm --input lines.jsonl\n");
  auto e = std::make_shared<EmbedInput>();
  c->add_option("--checkpoint", e->checkpoint,
                "run folder, checkpoint folder, Hugging Face folder or GGUF file")
      ->required();
  c->add_option("--input", e->input, "lines as of evaluate embed")->required();
  c->add_option("--dtype", e->dtype)->check(CLI::IsMember({"f32", "bf16"}))->capture_default_str();
  c->add_flag("--profile", e->profile, "time by kernel of one more pass");
  c->callback([=, &invocation] {
    invocation.run = [=, &invocation] { return bench_embed(*e, *o, invocation.json); };
  });
}

void add_bench_tokenizer(CLI::App& parent, Invocation& invocation) {
  auto [c, o] = add_bench_command(
      parent, invocation, "tokenizer", "encoding of a text: one thread, then as many as asked",
      "  megalith bench tokenizer --tokenizer t.json --input text.txt\n");
  auto paths = std::make_shared<std::pair<TokenizerArgument, std::string>>();
  paths->first.declare(*c);
  c->add_option("--input", paths->second, "text file")->required();
  c->callback([=, &invocation] {
    invocation.run = [=, &invocation] {
      return bench_tokenizer(paths->first.load(), paths->second, *o, invocation.json);
    };
  });
}

void add_bench_grammar(CLI::App& parent, Invocation& invocation) {
  auto [c, o] = add_bench_command(
      parent, invocation, "grammar", "masks of the tokens of a text that keeps to a JSON schema",
      "  megalith bench grammar --tokenizer t.json --json-schema s.json --input text.json\n");
  auto input = std::make_shared<std::pair<TokenizerArgument, GrammarInput>>();
  input->first.declare(*c);
  auto* const schema =
      c->add_option("--json-schema", input->second.schema, "one of ours if absent");
  auto* const text = c->add_option("--input", input->second.text, "a text that fits the schema");
  schema->needs(text);
  text->needs(schema);
  c->callback([=, &invocation] {
    invocation.run = [=, &invocation] {
      return bench_grammar(input->first.load(), input->second, *o, invocation.json);
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
  add_bench_machine(parent, invocation);
  add_bench_decode(parent, invocation);
  add_bench_embed(parent, invocation);
  add_bench_tokenizer(parent, invocation);
  add_bench_grammar(parent, invocation);
  add_bench_collective(parent, invocation);
}

}  // namespace megalith::apps
