// SPDX-License-Identifier: Apache-2.0
#include "generate/bad_words.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::generate {

std::vector<std::vector<int32_t>> runs_of_words(const text::Tokenizer& tokenizer,
                                                std::span<const std::string> words) {
  std::vector<std::vector<int32_t>> runs;
  for (const std::string& word : words) {
    const size_t begin = word.find_first_not_of(' ');
    if (begin == std::string::npos) throw UserError("a bad word \"{}\" has no letters", word);
    const std::string bare = word.substr(begin);
    for (const std::string& form : {bare, " " + bare}) {
      std::vector<int32_t> run = tokenizer.encode(form, false);
      if (!run.empty() && std::ranges::find(runs, run) == runs.end()) runs.push_back(run);
    }
  }
  return runs;
}

}  // namespace megalith::generate
