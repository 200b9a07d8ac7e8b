// SPDX-License-Identifier: Apache-2.0
// Recipes: YAML, and behind a line "%%" one `--set` a line. A recipe that is taken must print to
// YAML that is taken again and means the same.
#include <vector>

#include "base/fuzz/fuzz_input.h"
#include "config/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  std::string_view text = fuzz::text_of(data, size);
  std::vector<std::string> overrides;
  if (const size_t split = text.find("\n%%\n"); split != std::string_view::npos) {
    std::string_view rest = text.substr(split + 4);
    text = text.substr(0, split + 1);
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      overrides.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  fuzz::accepts([&] {
    const config::Recipe recipe = config::parse_recipe(text, "recipe.yaml", overrides);
    const config::Recipe again = config::parse_recipe(config::to_yaml(recipe), "again.yaml");
    MEGA_CHECK(config::differences(recipe, again).empty());
    MEGA_CHECK_EQ(config::fingerprint(recipe), config::fingerprint(again));
  });
  return 0;
}
