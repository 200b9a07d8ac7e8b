// SPDX-License-Identifier: Apache-2.0
// One list of fields per struct. A struct of settings has defaults and a member
// `void visit(FieldVisitor&)` that names each field once, with its meaning and the values it may
// take. Everything else follows from that list: parsing, `--set`, printing, documentation,
// comparison and fingerprint.
//
//   struct Model {
//     int64_t layers = 12;
//     void visit(FieldVisitor& v) { v.field("layers", layers, "number of blocks", at_least(1)); }
//   };
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/format.h"
#include "base/function_ref.h"

namespace megalith::settings {

/// The names of an enum's values in order; the values must be 0, 1, 2, ... (or of a class that
/// converts to and from these numbers explicitly). Specialised beside each enum, and the only place
/// where the names are spelled.
template <class E>
struct EnumNames;

template <class E>
std::string_view name_of(E value) {
  return EnumNames<E>::names[static_cast<size_t>(value)];
}

/// Makes these enums printable with fmt.
template <class E>
requires requires { EnumNames<E>::names; }
std::string_view format_as(E value) { return name_of(value); }

/// An enum with its type erased: index and names.
struct EnumReference {
  void* value;
  std::span<const std::string_view> names;
  size_t (*get)(const void* value);
  void (*set)(void* value, size_t index);
};

/// Where a field's value lies.
using ValueReference = std::variant<int64_t*, double*, bool*, std::string*, std::optional<double>*,
                                    std::optional<bool>*, std::vector<std::string>*,
                                    std::vector<double>*, EnumReference>;

/// The range of a number. Bounds belong to it unless open.
struct Constraint {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;

  bool allows(double value) const {
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
  }
  /// "at least 1", "from 0 to below 1"; empty when everything is allowed.
  std::string text() const;
};
constexpr Constraint at_least(double low) { return {.low = low}; }
constexpr Constraint above(double low) { return {.low = low, .low_open = true}; }
constexpr Constraint between(double low, double high) { return {.low = low, .high = high}; }
/// [low, high)
constexpr Constraint from_below(double low, double high) {
  return {.low = low, .high = high, .high_open = true};
}

/// Whether a field is part of the fingerprint: `no` for what cannot change the result of a run
/// (names, paths, threads, layout, logging).
enum class InFingerprint { yes, no };

struct FieldInfo {
  std::string_view name;
  std::string_view meaning;
  Constraint constraint;
  InFingerprint in_fingerprint = InFingerprint::yes;
};

class FieldVisitor;

/// A list of structs with its type erased. `short_key` is the key that a plain text stands for
/// where an item should be a struct.
struct ListReference {
  std::string_view short_key;
  FunctionRef<size_t()> size;
  FunctionRef<void(size_t)> resize;
  FunctionRef<void(size_t index, FieldVisitor&)> visit_item;
  /// Visits an item that has its defaults: for documentation and lists of keys.
  FunctionRef<void(FieldVisitor&)> visit_default;
};

class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;

  template <class T>
  void field(std::string_view name, T& value, std::string_view meaning, Constraint constraint = {},
             InFingerprint in_fingerprint = InFingerprint::yes) {
    on_value({name, meaning, constraint, in_fingerprint}, reference(value));
  }
  template <class T>
  void field(std::string_view name, T& value, std::string_view meaning,
             InFingerprint in_fingerprint) {
    field(name, value, meaning, Constraint{}, in_fingerprint);
  }

  template <class S>
  void section(std::string_view name, S& value, std::string_view meaning) {
    on_section({name, meaning, {}}, [&](FieldVisitor& v) { value.visit(v); });
  }

  /// A section that may be absent: its key says that it is there.
  template <class S>
  void optional_section(std::string_view name, std::optional<S>& value, std::string_view meaning) {
    on_optional_section({name, meaning, {}}, value.has_value(), [&](FieldVisitor& v) {
      if (!value) value.emplace();
      value->visit(v);
    });
  }

  template <class S>
  void list(std::string_view name, std::vector<S>& values, std::string_view short_key,
            std::string_view meaning) {
    // Named, because a FunctionRef does not own what it refers to.
    auto size = [&] { return values.size(); };
    auto resize = [&](size_t n) { values.resize(n); };
    auto visit_item = [&](size_t index, FieldVisitor& v) { values.at(index).visit(v); };
    auto visit_default = [](FieldVisitor& v) {
      S item;
      item.visit(v);
    };
    on_list({name, meaning, {}}, {short_key, size, resize, visit_item, visit_default});
  }

 protected:
  virtual void on_value(const FieldInfo& info, const ValueReference& value) = 0;
  virtual void on_section(const FieldInfo& info, FunctionRef<void(FieldVisitor&)> visit) = 0;
  virtual void on_optional_section(const FieldInfo& info, bool present,
                                   FunctionRef<void(FieldVisitor&)> visit) {
    if (present) on_section(info, visit);
  }
  virtual void on_list(const FieldInfo& info, const ListReference& list) = 0;

 private:
  template <class T>
  static ValueReference reference(T& value) {
    if constexpr (requires { EnumNames<T>::names; }) {
      return EnumReference{
          &value, EnumNames<T>::names,
          [](const void* v) { return static_cast<size_t>(*static_cast<const T*>(v)); },
          [](void* v, size_t index) { *static_cast<T*>(v) = static_cast<T>(index); }};
    } else {
      return &value;
    }
  }
};

/// A visit of some struct, with its type erased.
using VisitFields = FunctionRef<void(FieldVisitor&)>;

/// The value as one word of YAML (texts double-quoted, numbers as the shortest text that gives the
/// same bits); lists in brackets; an absent optional number is `null`.
std::string value_text(const ValueReference& value);
/// "integer", "number", "one of a, b"...
std::string type_text(const ValueReference& value);
/// A path of keys: "model" and "layers" give "model.layers"; an empty prefix adds nothing.
std::string join_path(std::string_view prefix, std::string_view name);

}  // namespace megalith::settings
