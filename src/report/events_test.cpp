// SPDX-License-Identifier: Apache-2.0
// The file as a whole: name, first record, resume, torn tails.
#include "report/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "report/test_folder.h"

namespace megalith::report {
namespace {

std::vector<int64_t> steps_of(const std::filesystem::path& path) {
  std::vector<int64_t> steps;
  for (const Event& event : read_events(path).events) {
    if (event.file_version.empty()) steps.push_back(event.step);
  }
  return steps;
}

TEST(Events, NewFileHasTheNameAndFirstRecordThatTensorBoardExpects) {
  const TestFolder folder;
  const EventWriter writer = EventWriter::create(folder.path(), 1234.5);
  EXPECT_THAT(writer.path().filename().string(),
              testing::MatchesRegex("events\\.out\\.tfevents\\.0000001234\\..*\\.[0-9]+\\.0"));
  const EventFile file = read_events(writer.path());
  ASSERT_EQ(file.events.size(), 1u);
  EXPECT_EQ(file.events[0].file_version, "brain.Event:2");
  EXPECT_EQ(file.events[0].wall, 1234.5);
  EXPECT_FALSE(file.torn);
  const EventWriter second = EventWriter::create(folder.path(), 1234.5);
  EXPECT_NE(second.path(), writer.path());
}

TEST(Events, ScalarsAndTextsAreReadBack) {
  const TestFolder folder;
  EventWriter writer = EventWriter::create(folder.path());
  writer.scalar("loss", 1, 2.5, 10);
  writer.text("sample", 1, "hello", 11);
  const int64_t position = writer.position();
  const EventFile file = read_events(writer.path());
  ASSERT_EQ(file.events.size(), 3u);
  EXPECT_EQ(file.events[1].values.at(0).tag, "loss");
  EXPECT_EQ(file.events[1].values.at(0).scalar, 2.5f);
  EXPECT_EQ(file.events[1].wall, 10);
  EXPECT_EQ(file.events[2].values.at(0).text, "hello");
  EXPECT_EQ(file.whole_bytes, position);
  EXPECT_EQ(file.events[2].end, position);
}

TEST(Events, NothingIsLostWhenTheWriterIsDestroyedOrMoved) {
  const TestFolder folder;
  std::filesystem::path path;
  {
    EventWriter first = EventWriter::create(folder.path());
    path = first.path();
    first.scalar("loss", 1, 1);
    EventWriter second = std::move(first);
    second.scalar("loss", 2, 1);
  }
  EXPECT_THAT(steps_of(path), testing::ElementsAre(1, 2));
}

TEST(Events, ReopeningCutsBackToThePosition) {
  const TestFolder folder;
  std::filesystem::path path;
  int64_t position = 0;
  {
    EventWriter writer = EventWriter::create(folder.path());
    path = writer.path();
    for (int64_t step = 1; step <= 5; ++step) {
      writer.scalar("loss", step, 1);
      if (step == 3) position = writer.position();
    }
  }
  const std::string kept = read_file(path).substr(0, static_cast<size_t>(position));
  File(path, File::Mode::append).write("torn");
  EXPECT_EQ(event_position_after(path, 3), position);
  {
    EventWriter writer = EventWriter::reopen(path, position);
    writer.scalar("loss", 4, 1);
  }
  EXPECT_THAT(steps_of(path), testing::ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(read_file(path).starts_with(kept));
}

TEST(Events, ReopeningInsideARecordOrPastTheEndIsDamage) {
  const TestFolder folder;
  EventWriter writer = EventWriter::create(folder.path());
  writer.scalar("loss", 1, 1);
  const int64_t position = writer.position();
  const std::string whole = read_file(writer.path());
  EXPECT_THROW(EventWriter::reopen(writer.path(), position - 1), IntegrityError);
  EXPECT_THROW(EventWriter::reopen(writer.path(), position + 1), IntegrityError);
  EXPECT_THROW(EventWriter::reopen(folder / "absent", position), IntegrityError);
  EXPECT_EQ(read_file(writer.path()), whole);
}

TEST(Events, ReopeningAtZeroBeginsTheFileAnew) {
  const TestFolder folder;
  folder.put("events.out.tfevents.1", "rubbish");
  { EventWriter writer = EventWriter::reopen(folder / "events.out.tfevents.1", 0, 5); }
  const EventFile file = read_events(folder / "events.out.tfevents.1");
  ASSERT_EQ(file.events.size(), 1u);
  EXPECT_EQ(file.events[0].file_version, "brain.Event:2");
  EXPECT_FALSE(file.torn);
}

TEST(Events, ReaderStopsAtATornTailWhereverItIs) {
  const TestFolder folder;
  EventWriter writer = EventWriter::create(folder.path());
  const int64_t first = writer.position();
  writer.scalar("loss", 1, 1);
  const int64_t second = writer.position();
  const std::string whole = read_file(writer.path());
  for (int64_t size = 0; size <= second; ++size) {
    folder.put("cut", whole.substr(0, static_cast<size_t>(size)));
    const EventFile file = read_events(folder / "cut");
    const int64_t kept = size == second ? second : size >= first ? first : 0;
    ASSERT_EQ(file.whole_bytes, kept) << size;
    ASSERT_EQ(file.torn, size != kept) << size;
  }
}

}  // namespace
}  // namespace megalith::report
