// SPDX-License-Identifier: Apache-2.0
// JSON from clients. What it may cost is bounded before a tree is made of it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace megalith::protocols {

/// Keeps the order of keys: chat templates print tools as they came.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t levels = 100;
  size_t values = 2'000'000;  // small ones too: each takes dozens of bytes
  size_t keys = 1024;         // of one object: they are searched one by one
  size_t number_digits = 64;
};

/// The object in a body. ApiError: not JSON, not UTF-8, a key twice, a number that no double holds,
/// beyond a limit, no object.
Json parse_body(std::string_view text, const JsonLimits& limits = {});

/// JSON on one line. Text that is not UTF-8 has U+FFFD where it is broken.
std::string text_of_json(const Json& json);

/// A log-probability: what is not finite, JSON cannot say.
Json json_of_logprob(double logprob);

}  // namespace megalith::protocols
