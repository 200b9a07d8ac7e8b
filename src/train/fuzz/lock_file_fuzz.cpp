// SPDX-License-Identifier: Apache-2.0
// A lock file as whoever wrote it last left it: it names a process or nobody, and a folder is
// judged by it.
#include "base/fuzz/fuzz_input.h"
#include "base/log.h"
#include "train/run_lock.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  megalith::log::set_level(megalith::log::Level::error);  // not a line for each input
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  const train::LockHolder holder = train::holder_in(fuzz::text_of(data, size));
  MEGA_CHECK(holder.pid >= 0 && holder.ticks >= 0);
  for (const bool shared : {false, true})
    fuzz::accepts([&] { train::judge_left_over("/run/lock", holder, shared); });
  return 0;
}
