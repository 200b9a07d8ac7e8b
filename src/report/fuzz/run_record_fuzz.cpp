// SPDX-License-Identifier: Apache-2.0
// A run folder as `report` reads it: run.json, behind a line "%%" recipe.yaml.
#include "base/fuzz/fuzz_input.h"
#include "report/run_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  static const fuzz::ScratchFolder scratch;
  std::string_view text = fuzz::text_of(data, size), recipe;
  if (const size_t split = text.find("\n%%\n"); split != std::string_view::npos) {
    recipe = text.substr(split + 4);
    text = text.substr(0, split + 1);
  }
  scratch.put("run.json", text);
  scratch.put("recipe.yaml", recipe);
  scratch.put("metrics.jsonl", "");
  fuzz::accepts([&] {
    const report::RunRecord record = report::read_run(scratch.path());
    fuzz::accepts([&] { record.text("/machine/cpu"); });
    fuzz::accepts([&] { record.number("/seconds"); });
    fuzz::accepts([&] { record.integer("/memory/planned/total"); });
  });
  return 0;
}
