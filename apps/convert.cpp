// SPDX-License-Identifier: Apache-2.0
// megalith convert
#include "store/convert.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command.h"

namespace megalith::apps {

void add_convert(CLI::App& app, Invocation& invocation) {
  CLI::App& c = add_command(
      app, invocation, "convert",
      "between Megalith checkpoints, Hugging Face folders and GGUF files",
      "  megalith convert --from runs/demo --to demo-hf --format hf\n"
      "  megalith convert --from gpt2 --to gpt2-megalith --format megalith --dtype bf16\n"
      "  megalith convert --from runs/demo --to demo.gguf --format gguf --quantize q8_0\n");
  struct Options {
    std::string from, to, format = "hf", dtype, quantize;
    bool weights_only = false;
  };
  auto o = std::make_shared<Options>();
  c.add_option("--from", o->from, "run folder, checkpoint folder, Hugging Face folder or GGUF file")
      ->required();
  c.add_option("--to", o->to, "folder, or GGUF file, to make")->required();
  c.add_option("--format", o->format, "what to write")
      ->check(CLI::IsMember({"megalith", "hf", "gguf"}))
      ->capture_default_str();
  auto* const dtype = c.add_option("--dtype", o->dtype, "storage type to write (default: as it is)")
                          ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  c.add_option("--quantize", o->quantize, "block format of the matrices of a GGUF file")
      ->check(CLI::IsMember({"q8_0", "q4_0", "q4_1"}))
      ->excludes(dtype);
  c.add_flag("--weights-only", o->weights_only, "write a GGUF file without the tokenizer");
  c.callback([=, &invocation] {
    invocation.run = [=, &invocation] {
      if (!o->quantize.empty() && o->format != "gguf")
        throw UserError("--quantize {} needs --format gguf", o->quantize);
      if (o->weights_only && o->format != "gguf")
        throw UserError("--weights-only needs --format gguf");
      const std::string& stored = o->quantize.empty() ? o->dtype : o->quantize;
      const store::ConvertResult r = store::convert(
          o->from, o->to, o->format, stored, store::kShardBytes,
          o->weights_only ? store::Tokenizers::left_out : store::Tokenizers::carried);
      if (invocation.json) {
        print_json({{"tensors", r.tensors}, {"parameters", r.parameters}, {"sha256", r.sha256}});
      } else {
        fmt::print(stderr, "{}: {} tensors, {} parameters\n", o->to, r.tensors, r.parameters);
      }
      return 0;
    };
  });
}

}  // namespace megalith::apps
