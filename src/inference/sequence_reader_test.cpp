// SPDX-License-Identifier: Apache-2.0
#include "inference/sequence_reader.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace megalith::inference {
namespace {

TEST(SequenceReader, OutputsThatAreNotFiniteAreRefused) {
  std::vector<std::vector<std::vector<double>>> outputs = {{{1, -2}}, {{3, 4}, {5, 6}}};
  EXPECT_NO_THROW(require_finite(outputs));
  EXPECT_NO_THROW(require_finite({}));  // nothing on the trace kind
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()}) {
    outputs[1][1][0] = bad;
    EXPECT_THROW(require_finite(outputs), UserError);
  }
}

}  // namespace
}  // namespace megalith::inference
