// SPDX-License-Identifier: Apache-2.0
// embed TOKENIZER RECIPE: the tokens of every line of standard input, and how many steps of the
// recipe the text would last.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "base/failure.h"
#include "config/recipe.h"
#include "text/tokenizer.h"

namespace {

int run(const char* tokenizer_path, const char* recipe_path) {
  const auto tokenizer = megalith::text::Tokenizer::load(tokenizer_path);
  const auto recipe = megalith::config::load_recipe(recipe_path);
  megalith::text::Encoder encoder(tokenizer);
  size_t tokens = 0;
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<int32_t> ids;
    encoder.encode(line, ids, false);
    tokens += ids.size();
    for (const int32_t id : ids)
      std::cout << id << " '" << tokenizer.decode(std::vector<int32_t>{id}) << "' ";
    std::cout << '\n';
  }
  const auto tokens_per_step = recipe.train.global_batch * recipe.model.context;
  std::cout << tokens << " tokens of a vocabulary of " << tokenizer.vocab_size() << ": "
            << static_cast<double>(tokens) / static_cast<double>(tokens_per_step) << " steps\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: embed TOKENIZER RECIPE < TEXT\n", stderr);
    return 2;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (...) {
    const megalith::Failure failure = megalith::failure_of(std::current_exception());
    std::fprintf(stderr, "embed: %s\n", failure.text.c_str());
    return static_cast<int>(failure.code);
  }
}
