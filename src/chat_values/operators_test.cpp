// SPDX-License-Identifier: Apache-2.0
#include "chat_values/operators.h"

#include <gtest/gtest.h>

#include <limits>

namespace megalith::chat {
namespace {

class OperatorsTest : public testing::Test {
 protected:
  Value text(std::string bytes) { return Value::text(std::move(bytes), budget_); }
  Budget budget_{Limits()};
};

TEST_F(OperatorsTest, WholeNumbersNeverWrap) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  const auto of = [&](const char* sign, int64_t a, int64_t b) {
    return arithmetic(sign, Value::integer(a), Value::integer(b), budget_).whole();
  };
  EXPECT_EQ(of("+", kMost - 1, 1), kMost);
  EXPECT_THROW(of("+", kMost, 1), Fault);
  EXPECT_THROW(of("-", kLeast, 1), Fault);
  EXPECT_THROW(of("*", kLeast, -1), Fault);
  EXPECT_THROW(of("//", kLeast, -1), Fault);
  EXPECT_EQ(of("%", kLeast, -1), 0);
  EXPECT_THROW(of("**", 2, 63), Fault);
  EXPECT_EQ(of("**", 2, 62), int64_t{1} << 62);
  EXPECT_EQ(of("**", -1, kMost), -1);
  EXPECT_EQ(of("**", 1, kMost), 1);
  EXPECT_EQ(of("**", 0, 0), 1);
  EXPECT_THROW(negative(Value::integer(kLeast)), Fault);
}

TEST_F(OperatorsTest, DivisionIsTowardsMinusInfinity) {
  for (const int64_t a : {-7, -6, -1, 0, 1, 6, 7}) {
    for (const int64_t b : {-3, -2, -1, 1, 2, 3}) {
      const int64_t q = *arithmetic("//", Value::integer(a), Value::integer(b), budget_).whole();
      const int64_t r = *arithmetic("%", Value::integer(a), Value::integer(b), budget_).whole();
      EXPECT_EQ(q * b + r, a);
      EXPECT_TRUE(r == 0 || (r < 0) == (b < 0)) << a << " " << b;
      EXPECT_LT(std::abs(r), std::abs(b));
    }
  }
}

TEST_F(OperatorsTest, WholeAndRealNumbersCompareExactly) {
  constexpr int64_t kOdd = (int64_t{1} << 53) + 1;  // no double
  const Value whole = Value::integer(kOdd), real = Value::real(0x1p53);
  EXPECT_FALSE(equal(whole, real, budget_));
  EXPECT_TRUE(less(real, whole, budget_));
  const Value nan = Value::real(std::numeric_limits<double>::quiet_NaN());
  for (const char* sign : {"<", "<=", ">", ">=", "=="})
    EXPECT_FALSE(compare(sign, nan, whole, budget_)) << sign;
}

TEST_F(OperatorsTest, KeysAreOneAsInPython) {
  Dict dict;
  dict.set(Value::integer(1), text("a"), budget_);
  dict.set(Value::boolean(true), text("b"), budget_);
  dict.set(Value::real(1), text("c"), budget_);
  dict.set(text("1"), text("d"), budget_);
  dict.set(make_sequence(SequenceKind::tuple, {text("x"), Value::integer(1)}, budget_), text("e"),
           budget_);
  EXPECT_EQ(dict.entries.size(), 3u);
  EXPECT_EQ(dict.find(Value::integer(1), budget_)->bytes(), "c");
  EXPECT_EQ(dict.find("1")->bytes(), "d");
  EXPECT_EQ(dict.find("x"), nullptr);
  EXPECT_THROW(dict.set(make_list({}, budget_), text("f"), budget_), Fault);
}

TEST_F(OperatorsTest, SlicesFarBeyondTheEnds) {
  const Value list = make_list({Value::integer(0), Value::integer(1), Value::integer(2)}, budget_);
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  const auto count = [&](const Value& begin, const Value& end, int64_t step) {
    return slice_of(list, begin, end, Value::integer(step), budget_).sequence()->items.size();
  };
  EXPECT_EQ(count(Value::integer(-kFar - 1), Value::integer(kFar), 1), 3u);
  EXPECT_EQ(count(Value::integer(kFar), Value::integer(-kFar - 1), -1), 3u);
  EXPECT_EQ(count(Value::none(), Value::none(), kFar), 1u);
  EXPECT_EQ(count(Value::none(), Value::none(), -kFar - 1), 1u);
  EXPECT_EQ(count(Value::integer(1), Value::integer(1), 1), 0u);
}

}  // namespace
}  // namespace megalith::chat
