// SPDX-License-Identifier: Apache-2.0
// One schema of two that hold for the same value (`allOf`, or keywords beside `$ref` or `anyOf`).
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace megalith::grammars {

/// Says what cannot be joined; does not return.
using FailJoin = std::function<void(const std::string&)>;

/// The schema that holds where both do. Neither has `$ref`, `allOf` or `nullable`; what lies below
/// them is joined by `allOf`.
nlohmann::ordered_json join_schemas(const nlohmann::ordered_json& a,
                                    const nlohmann::ordered_json& b, const FailJoin& fail);
/// `nullable` as a type beside the others.
nlohmann::ordered_json with_null(nlohmann::ordered_json schema);

}  // namespace megalith::grammars
