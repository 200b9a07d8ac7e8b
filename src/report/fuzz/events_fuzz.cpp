// SPDX-License-Identifier: Apache-2.0
// TensorBoard event files, as a resume cuts them back. With an odd first byte the rest is one
// record's message, framed here with good check sums, so that the message's own reader is reached.
#include "base/fuzz/fuzz_input.h"
#include "report/events.h"

namespace {
std::string framed(std::string_view message) {
  using megalith::report::masked_crc32c;
  std::string record;
  const auto put = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) record.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  };
  put(message.size(), 8);
  put(masked_crc32c(record), 4);
  record += message;
  put(masked_crc32c(message), 4);
  return record;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  static const fuzz::ScratchFolder scratch;
  if (size == 0) return 0;
  std::string content(fuzz::text_of(data + 1, size - 1));
  if (data[0] % 2 == 1) content = framed(content);
  const auto path = scratch.put("events", content);
  fuzz::accepts([&] {
    const report::EventFile file = report::read_events(path);
    MEGA_CHECK(file.whole_bytes >= 0 && file.whole_bytes <= static_cast<int64_t>(content.size()));
    MEGA_CHECK_EQ(file.torn, file.whole_bytes != static_cast<int64_t>(content.size()));
    const int64_t cut = report::event_position_after(path, data[0]);
    MEGA_CHECK(cut >= 0 && cut <= file.whole_bytes);
    report::EventWriter::reopen(path, file.whole_bytes, 1.0).scalar("x", 1, 1.0, 1.0);
  });
  return 0;
}
