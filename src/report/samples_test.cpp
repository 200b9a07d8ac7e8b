// SPDX-License-Identifier: Apache-2.0
// Samples are what a model wrote: anything at all.
#include "report/samples.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "report/test_folder.h"

namespace megalith::report {
namespace {

TEST(Samples, AnyTextIsOneLineAndComesBack) {
  const TestFolder folder;
  const std::string nasty = "a\nb\r\t\"\\</script>\xE2\x80\xA8\xF0\x9F\x98\x80";
  SampleLog log(folder / "samples.jsonl");
  log.append({5, nasty, nasty + nasty});
  log.append({6, "", ""});
  const std::vector<TextSample> all = read_samples(folder / "samples.jsonl").newest;
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].step, 5);
  EXPECT_EQ(all[0].prompt, nasty);
  EXPECT_EQ(all[0].text, nasty + nasty);
  EXPECT_EQ(all[1].step, 6);
}

TEST(Samples, BrokenUtf8BecomesTheReplacementCharacter) {
  EXPECT_EQ(TextSample::parse(TextSample{1, "p", "a\xFF"}.to_json_line()).text, "a\xEF\xBF\xBD");
}

TEST(Samples, ResumeCutsBackAndDamageIsNamed) {
  const TestFolder folder;
  const auto path = folder / "samples.jsonl";
  const std::string one = TextSample{1, "p", "t"}.to_json_line();
  folder.put("samples.jsonl", one + one + "{\"step\":");
  EXPECT_EQ(read_samples(path).newest.size(), 2u);
  SampleLog log(path, static_cast<int64_t>(one.size()));
  EXPECT_EQ(read_file(path), one);
  folder.put("samples.jsonl", one + "{\"step\":1,\"prompt\":2,\"text\":\"\"}\n");
  try {
    read_samples(path);
    FAIL() << "a prompt that is a number was accepted";
  } catch (const IntegrityError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with(path.string() + ":2: ")) << error.what();
  }
}

TEST(Samples, TheNewestThatFitAreRead) {
  const TestFolder folder;
  std::string lines;
  for (int step = 1; step <= 5; ++step) lines += TextSample{step, "p", "t"}.to_json_line();
  folder.put("samples.jsonl", lines);
  const auto one = static_cast<int64_t>(lines.size()) / 5;  // with its '\n', which is not counted
  const SampleTexts all = read_samples(folder / "samples.jsonl", 5 * one);
  EXPECT_EQ(all.newest.size(), 5u);
  EXPECT_EQ(all.earlier, 0);
  const SampleTexts some = read_samples(folder / "samples.jsonl", 3 * one);
  ASSERT_EQ(some.newest.size(), 3u);
  EXPECT_EQ(some.newest.front().step, 3);
  EXPECT_EQ(some.newest.back().step, 5);
  EXPECT_EQ(some.earlier, 2);
  EXPECT_TRUE(read_samples(folder / "samples.jsonl", 0).newest.empty());
}

TEST(Samples, StepsBeyondSixtyThreeBitsAreRefused) {
  EXPECT_THROW(TextSample::parse(R"({"step":18446744073709551615,"prompt":"","text":""})"),
               IntegrityError);
  EXPECT_THROW(TextSample::parse(R"({"step":1.5,"prompt":"","text":""})"), IntegrityError);
}

}  // namespace
}  // namespace megalith::report
