// SPDX-License-Identifier: Apache-2.0
// The numbers of a checkpoint's state are believed only where they can be true.
#include "train/position.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "guards/run_guard.h"

namespace megalith::train {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

json sound_state() {
  const LogPositions logs{10, 20, "events.out.tfevents.1.host", 30};
  return {{"step", 4},
          {"samples", 32},
          {"tokens", 512},
          {"elapsed_seconds", 1.5},
          {"logs", to_json(logs)}};
}

const char* const kImpossible[] = {"-1",    "0.5",  "1e300", "-1e300", "18446744073709551615",
                                   "\"4\"", "null", "[4]",   "true"};

TEST(CheckpointState, SoundNumbersComeBack) {
  const Position p = position_from(sound_state());
  EXPECT_EQ(p.step, 4);
  EXPECT_EQ(p.samples, 32);
  EXPECT_EQ(p.tokens, 512);
  EXPECT_EQ(p.elapsed_seconds, 1.5);
  EXPECT_EQ(p.logs.metrics, 10);
  EXPECT_EQ(p.logs.samples, 20);
  EXPECT_EQ(p.logs.events, 30);
}

TEST(CheckpointState, ImpossibleNumbersAreNamed) {
  for (const char* value : kImpossible) {
    for (const char* key :
         {"/step", "/samples", "/tokens", "/logs/metrics", "/logs/samples", "/logs/events"}) {
      json state = sound_state();
      state[json::json_pointer(key)] = json::parse(value);
      const std::string name = json::json_pointer(key).back();
      EXPECT_THAT([&] { position_from(state); },
                  ThrowsMessage<IntegrityError>(HasSubstr("'" + name + "'")))
          << key << " " << value;
      state = sound_state();
      state[json::json_pointer(key).parent_pointer()].erase(name);
      EXPECT_THAT([&] { position_from(state); }, ThrowsMessage<IntegrityError>(HasSubstr(name)))
          << key;
    }
  }
  json state = sound_state();
  state["step"] = INT64_MAX;  // one more would be undefined
  EXPECT_THAT([&] { position_from(state); }, ThrowsMessage<IntegrityError>(HasSubstr("'step'")));
  state = sound_state();
  state["elapsed_seconds"] = "long";
  EXPECT_THAT([&] { position_from(state); },
              ThrowsMessage<IntegrityError>(HasSubstr("'elapsed_seconds'")));
}

TEST(CheckpointState, SoAreThoseOfTheGuard) {
  guards::RunGuard guard(config::TrainSection{});
  for (const char* value : kImpossible) {
    for (const char* key : {"skipped_steps", "overflowed_steps", "rewinds", "skipped_samples"}) {
      json state = guard.to_json();
      state[key] = json::parse(value);
      EXPECT_THAT([&] { guards::RunGuard(config::TrainSection{}).restore(state); },
                  ThrowsMessage<IntegrityError>(HasSubstr(std::string("'") + key + "'")))
          << value;
    }
  }
}

}  // namespace
}  // namespace megalith::train
