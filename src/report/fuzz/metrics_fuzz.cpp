// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl and samples.jsonl, as a resume and the report read them. A line that is taken must
// be written such that it is taken again.
#include "base/fuzz/fuzz_input.h"
#include "report/metrics.h"
#include "report/samples.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  static const fuzz::ScratchFolder scratch;
  const auto path = scratch.put("lines.jsonl", fuzz::text_of(data, size));
  fuzz::accepts([&] {
    for (const report::StepMetrics& m : report::read_metrics(path))
      MEGA_CHECK_EQ(report::StepMetrics::parse(m.to_json_line()).step, m.step);
  });
  fuzz::accepts([&] {
    const report::SampleTexts texts = report::read_samples(path);
    for (const report::TextSample& s : texts.newest)
      MEGA_CHECK(report::TextSample::parse(s.to_json_line()).text == s.text);
  });
  fuzz::accepts([&] {
    const int64_t end = report::end_of_whole_lines(path);
    MEGA_CHECK(end >= 0 && end <= static_cast<int64_t>(size));
    report::open_lines(path, end);
    report::open_lines(path, static_cast<int64_t>(size / 2));
  });
  return 0;
}
