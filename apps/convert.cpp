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
      app, invocation, "convert", "between Megalith checkpoints and Hugging Face folders",
      "  megalith convert --from runs/demo --to demo-hf --format hf\n"
      "  megalith convert --from gpt2 --to gpt2-megalith --format megalith --dtype bf16\n");
  struct Options {
    std::string from, to, format = "hf", dtype;
  };
  auto o = std::make_shared<Options>();
  c.add_option("--from", o->from, "run folder, checkpoint folder or Hugging Face folder")
      ->required();
  c.add_option("--to", o->to, "folder to make")->required();
  c.add_option("--format", o->format, "what to write")
      ->check(CLI::IsMember({"megalith", "hf"}))
      ->capture_default_str();
  c.add_option("--dtype", o->dtype, "storage type to write (default: as it is)")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  c.callback([=, &invocation] {
    invocation.run = [=, &invocation] {
      const store::ConvertResult r = store::convert(o->from, o->to, o->format, o->dtype);
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
