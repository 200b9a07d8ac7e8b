// SPDX-License-Identifier: Apache-2.0
#include "grammars/schema_document.h"

#include <algorithm>
#include <array>

#include "base/json_fault.h"
#include "base/one_line.h"
#include "grammars/grammar.h"
#include "grammars/schema_joining.h"

namespace megalith::grammars {
namespace {

constexpr std::string_view kAnnotations[] = {"title",     "description",  "default",     "examples",
                                             "example",   "$schema",      "$id",         "$comment",
                                             "$defs",     "deprecated",   "definitions", "readOnly",
                                             "writeOnly", "discriminator"};

constexpr size_t kShownPath = 300;  // bytes, in messages; no longer ones are kept

/// Steps of a copy: its values, and the bytes of its strings and names.
size_t cost_of_copy(const Json& value) {
  size_t cost = 20;
  if (value.is_string()) cost += value.get_ref<const std::string&>().size() / 8;
  if (value.is_array())
    for (const Json& child : value) cost += cost_of_copy(child);
  if (value.is_object())
    for (const auto& [name, child] : value.items()) cost += name.size() / 8 + cost_of_copy(child);
  return cost;
}

/// Spends for names: each is looked for among all those before it in its object.
class NameCosts final : public nlohmann::json_sax<Json> {
 public:
  explicit NameCosts(WorkBudget& budget) : budget_(budget) {}
  bool key(string_t&) override {
    budget_.spend(1 + names_.back()++ / 4);
    return true;
  }
  bool start_object(size_t) override { return names_.push_back(0), true; }
  bool end_object() override { return names_.pop_back(), true; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  WorkBudget& budget_;
  std::vector<size_t> names_;  // of what is open
};

/// A key of a JSON pointer in a URI fragment; nothing if it is broken.
std::optional<std::string> pointer_key(std::string_view token) {
  std::string key;
  for (size_t at = 0; at < token.size(); ++at) {
    const std::string_view rest = token.substr(at);
    if (rest.starts_with("~0") || rest.starts_with("~1")) {
      key += rest[1] == '0' ? '~' : '/';
      at += 1;
    } else if (rest[0] == '%') {
      const std::string digits(rest.substr(1, 2));
      if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos ||
          digits.size() != 2)
        return std::nullopt;
      key += static_cast<char>(std::stoi(digits, nullptr, 16));
      at += 2;
    } else if (rest[0] == '~') {
      return std::nullopt;
    } else {
      key += rest[0];
    }
  }
  return key;
}

}  // namespace

bool is_annotation(std::string_view keyword) {
  return keyword.starts_with("x-") ||
         std::ranges::find(kAnnotations, keyword) != std::end(kAnnotations);
}

SchemaDocument::SchemaDocument(std::string_view text, std::string_view where, WorkBudget& budget)
    : budget_(budget), where_(where) {
  if (text.size() > kMostGrammarBytes)
    throw UserError("{}: a schema of more than {} bytes", where_, kMostGrammarBytes);
  if (const auto fault = json_fault(text, kMostLevels)) throw UserError("{} {}", where_, *fault);
  NameCosts costs(budget_);
  Json::sax_parse(text, &costs);
  root_ = Json::parse(text);
}

void SchemaDocument::fail_at(const std::string& path, const std::string& what) const {
  throw UserError("{}, {}: {}", where_, one_line(path, kShownPath), one_line(what, 600));
}

Place SchemaDocument::member(const Place& place, std::string_view key) {
  return {&place.schema->at(std::string(key)), path_below(place.path, key)};
}

std::string SchemaDocument::path_below(const std::string& path, std::string_view key) {
  return path.size() >= kShownPath ? path : fmt::format("{}/{}", path, key.substr(0, kShownPath));
}

Place SchemaDocument::keep(Json schema, std::string path) {
  budget_.spend(cost_of_copy(schema));
  return {&made_.emplace_back(std::move(schema)), std::move(path)};
}

Place SchemaDocument::follow(const Place& from, const Json& reference) {
  const std::string name = reference.is_string() ? reference.get<std::string>() : "";
  if (name != "#" && !name.starts_with("#/"))
    fail(from, "$ref {} is not supported: only '#' and '#/...' are", reference.dump());
  const Json* at = &root_;
  std::string_view rest = std::string_view(name).substr(1);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('/', 1), rest.size());
    const auto key = pointer_key(rest.substr(1, end - 1));
    const Json* next = nullptr;
    if (key && at->is_object() && at->contains(*key)) next = &at->at(*key);
    if (key && at->is_array() && !key->empty() && key->size() < 7 &&
        key->find_first_not_of("0123456789") == std::string::npos && std::stoul(*key) < at->size())
      next = &at->at(std::stoul(*key));
    if (next == nullptr) fail(from, "$ref '{}' leads nowhere", name);
    at = next;
    rest.remove_prefix(end);
  }
  return {at, name.substr(0, kShownPath)};
}

Place SchemaDocument::resolved(const Place& place) { return resolve(place, 0); }

Place SchemaDocument::resolve(const Place& place, size_t levels) {
  if (const auto found = resolved_.find(place.schema); found != resolved_.end())
    return found->second;
  budget_.spend(50);
  if (levels > kMostLevels)
    fail(place, "it refers to itself, or through more than {} schemas", kMostLevels);
  const Json& schema = *place.schema;
  if (!schema.is_object() ||
      !(schema.contains("$ref") || schema.contains("allOf") || schema.contains("nullable")))
    return resolved_[place.schema] = place;
  std::vector<Place> parts;
  Json rest = Json::object();
  bool has_rest = false;
  for (const auto& [key, value] : schema.items()) {
    if (key == "$ref") {
      parts.push_back(resolve(follow(place, value), levels + 1));
    } else if (key == "allOf") {
      if (!value.is_array() || value.empty()) fail(place, "'allOf' must be a list of schemas");
      const std::string list = path_below(place.path, key);
      for (size_t i = 0; i < value.size(); ++i)
        parts.push_back(resolve({&value[i], path_below(list, std::to_string(i))}, levels + 1));
    } else if (!is_annotation(key)) {
      rest[key] = value;
      has_rest = true;
    }
  }
  if (has_rest) parts.insert(parts.begin(), keep(with_null(std::move(rest)), place.path));
  if (parts.empty()) parts.push_back(keep(Json::object(), place.path));
  Place whole = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) whole = keep(joined(whole, parts[i]), place.path);
  return resolved_[place.schema] = whole;
}

const std::vector<Place>& SchemaDocument::alternatives(const Place& place,
                                                       const std::string& keyword) {
  const Json& list = place.schema->at(keyword);
  if (!list.is_array() || list.empty()) fail(place, "'{}' must be a list of schemas", keyword);
  const auto [known, is_new] = alternatives_.try_emplace(&list);
  std::vector<Place>& result = known->second;
  if (!is_new) return result;
  Json beside = Json::object();
  for (const auto& [key, value] : place.schema->items())
    if (key != keyword && !is_annotation(key)) beside[key] = value;
  const std::string list_path = path_below(place.path, keyword);
  for (size_t i = 0; i < list.size(); ++i) {
    budget_.spend(50);
    Place alternative = {&list[i], path_below(list_path, std::to_string(i))};
    if (!beside.empty()) {
      const Place rest = keep(beside, place.path);
      alternative = keep(joined(rest, resolved(alternative)), alternative.path);
    }
    result.push_back(alternative);
  }
  return result;
}

Json SchemaDocument::joined(const Place& a, const Place& b) {
  const auto fail_join = [&](const std::string& what) { fail(b, "{}", what); };
  // What both hold is compared each with each.
  for (const auto& [key, value] : a.schema->items())
    if (b.schema->contains(key)) budget_.spend(value.size() * b.schema->at(key).size() / 16);
  return join_schemas(*a.schema, *b.schema, fail_join);
}

}  // namespace megalith::grammars
