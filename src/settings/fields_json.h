// SPDX-License-Identifier: Apache-2.0
// Structs with a list of fields, to JSON and back.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "settings/field.h"

namespace megalith::settings {

/// All fields, in order.
nlohmann::ordered_json fields_json(VisitFields visit);

/// Only the fields that differ from their defaults. A file needs no others, and a program that does
/// not know a key can still read the file if the key is not used.
template <class S>
nlohmann::ordered_json changed_fields_json(S value);

/// Sets the fields that a JSON object gives and leaves the others. UserError with every fault,
/// unknown keys among them, in one line that begins with `where`.
void read_fields_json(std::string_view text, const std::string& where, VisitFields visit);

/// `object` without the entries that equal those of `defaults`, section by section.
nlohmann::ordered_json without_defaults(const nlohmann::ordered_json& object,
                                        const nlohmann::ordered_json& defaults);

template <class S>
nlohmann::ordered_json changed_fields_json(S value) {
  S defaults;
  return without_defaults(fields_json([&](FieldVisitor& v) { value.visit(v); }),
                          fields_json([&](FieldVisitor& v) { defaults.visit(v); }));
}

}  // namespace megalith::settings
