// SPDX-License-Identifier: Apache-2.0
// Python's operators on values. All throw a Fault for types that Python refuses.
#pragma once

#include <string_view>

#include "chat_values/value.h"

namespace megalith::chat {

/// `+ - * / // % **`. Whole numbers beyond 64 bits are refused.
Value arithmetic(std::string_view sign, const Value& left, const Value& right, Budget& budget);
Value negative(const Value& value);

/// The text of a value as safe text; what is none yet with & < > ' " as HTML spells them.
Value escaped(const Value& value, Budget& budget);

bool equal(const Value& left, const Value& right, Budget& budget);
/// left < right.
bool less(const Value& left, const Value& right, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);
/// `== != < <= > >= in`, `not in`.
bool compare(std::string_view sign, const Value& left, const Value& right, Budget& budget);

/// `object.name`: a method, then an item; undefined if there is neither.
Value attribute_of(const Value& object, std::string_view name, Budget& budget);
/// `object[key]`: an item, then a method.
Value item_of(const Value& object, const Value& key, Budget& budget);
Value slice_of(const Value& object, const Value& begin, const Value& end, const Value& step,
               Budget& budget);
/// The item of a path "a.b.0", as filters take it; what is undefined on the way is `otherwise`
/// unless that is none.
Value item_at_path(const Value& object, const Value& path, Budget& budget,
                   const Value& otherwise = Value::none());

int64_t length_of(const Value& value, Budget& budget);
/// A whole number; Fault naming `what` otherwise.
int64_t whole_of(const Value& value, std::string_view what);

}  // namespace megalith::chat
