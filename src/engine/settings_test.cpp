// SPDX-License-Identifier: Apache-2.0
// Settings that no recipe's rules have seen are refused before anything computes with them.
#include "engine/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "testing/toy_model.h"

namespace megalith::engine {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Settings, TokensAreSharedInWholeShards) {
  Settings s = megalith::testing::toy_settings();
  s.model.context = 18;
  s.layout = {.tensor = 2, .sequence = true};
  EXPECT_THAT(
      [&] { check(s, "toy"); },
      ThrowsMessage<UserError>(EndsWith("parallel.tensor_shards 4 to divide model.context 18")));
  s.layout.sequence = false;
  EXPECT_NO_THROW(check(s, "toy"));
}

TEST(Settings, SoAreThoseOfADecoder) {
  Settings s = megalith::testing::toy_encoder_decoder_settings();
  s.layout = {.tensor = 2, .sequence = true};
  EXPECT_NO_THROW(check(s, "toy"));
  s.decoder_length = 7;
  EXPECT_THAT([&] { check(s, "toy"); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("to divide the decoder's 7 tokens"),
                                             HasSubstr("train.spans.mean_length"))));
}

}  // namespace
}  // namespace megalith::engine
