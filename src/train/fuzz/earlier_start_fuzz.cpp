// SPDX-License-Identifier: Apache-2.0
// run.json as an earlier start, a crash or somebody left it: what a start goes on from. Whatever
// stands there, the run's own fields are written, and its accounts are times.
#include <cmath>

#include "base/fuzz/fuzz_input.h"
#include "base/log.h"
#include "train/goodput.h"
#include "train/run_record.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  megalith::log::set_level(megalith::log::Level::error);  // not a warning for each input
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  static const fuzz::ScratchFolder scratch;
  scratch.put("run.json", fuzz::text_of(data, size));
  fuzz::accepts([&] {
    train::RunRecord record(scratch.path());
    train::Goodput accounts({100, 1e9, 2});
    accounts.resume(record.json(), 3, 4);
    accounts.enter(train::Bucket::steps, 110);
    record.json()["accounts"] = accounts.to_json(7, 120);
    record.json()["memory"]["planned"] = 5;
    record.json()["machine"] = {{"threads", 2}};
    double sum = 0;
    for (int i = 0; i < train::kNumBuckets; ++i) {
      const double seconds = accounts.seconds(static_cast<train::Bucket>(i));
      MEGA_CHECK(std::isfinite(seconds) && seconds >= 0, "{} s", seconds);
      sum += seconds;
    }
    MEGA_CHECK_GE(sum, 22);
    record.write();
    train::RunRecord again(scratch.path());
    MEGA_CHECK_EQ(train::Goodput::recorded_step(again.json()), 7);
  });
  return 0;
}
