// SPDX-License-Identifier: Apache-2.0
// megalith tokenizer convert
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/tokenizer/argument.h"

namespace megalith::apps {

void add_tokenizer_convert(CLI::App& parent, Invocation& invocation) {
  CLI::App& c = add_command(
      parent, invocation, "convert", "any kind of tokenizer to a tokenizer.json",
      "  megalith tokenizer convert --tokenizer tokenizer.model --output tokenizer.json\n"
      "  megalith tokenizer convert --tokenizer cl100k_base.tiktoken --pattern cl100k --output "
      "cl100k.json\n"
      "  megalith tokenizer convert --tokenizer model.gguf --output tokenizer.json\n");
  struct Options {
    TokenizerArgument tokenizer;
    std::string output;
  };
  auto o = std::make_shared<Options>();
  o->tokenizer.declare(c);
  c.add_option("--output", o->output, "the tokenizer.json to write")->required();
  c.callback([o, &invocation] {
    invocation.run = [o, &invocation] {
      const text::Tokenizer tokenizer = o->tokenizer.load();
      tokenizer.save(o->output);
      if (invocation.json) {
        print_json({{"vocab_size", tokenizer.vocab_size()}});
      } else {
        fmt::print(stderr, "{} entries: {}\n", tokenizer.vocab_size(), o->output);
      }
      return 0;
    };
  });
}

}  // namespace megalith::apps
