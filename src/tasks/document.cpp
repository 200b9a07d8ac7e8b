// SPDX-License-Identifier: Apache-2.0
#include "tasks/document.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/json_fault.h"
#include "base/line_reader.h"
#include "chat/conversation.h"
#include "chat_values/python_text.h"

namespace megalith::tasks {
namespace {

/// A document of a data set, an article with all its questions included.
constexpr int64_t kMostLineBytes = int64_t{16} << 20;
constexpr int64_t kMostFileBytes = int64_t{4} << 30;

Document document_of(std::string_view line, std::string where) {
  if (const auto fault = json_fault(line)) throw UserError("{}: {}", where, *fault);
  const auto json = nlohmann::ordered_json::parse(line);
  if (!json.is_object())
    throw UserError("{}: is no JSON object with the fields of a document", where);
  Document document;
  document.where = std::move(where);
  chat::Budget budget = document_budget();
  try {
    document.record = chat::value_of(json, budget);
  } catch (const chat::Fault& fault) {
    throw UserError("{}: {}", document.where, fault.what());
  }
  document.variables = *document.record.dict();
  return document;
}

/// A file is a table to `datasets`: the fields of all records stand in the order in which they are
/// first seen.
void align(std::vector<Document>& documents) {
  std::unordered_map<std::string, size_t> places;
  for (const Document& document : documents)
    for (const auto& [key, value] : document.record.dict()->entries)
      places.emplace(key.bytes(), places.size());
  const auto place_of = [&](const auto& entry) { return places.at(entry.first.bytes()); };
  for (Document& document : documents) {
    auto entries = document.record.dict()->entries;
    if (std::ranges::is_sorted(entries, {}, place_of)) continue;
    std::ranges::sort(entries, {}, place_of);
    chat::Budget budget = document_budget();
    chat::Dict record;
    for (auto& [key, value] : entries) record.set(key, std::move(value), budget);
    document.record = chat::make_dict(std::move(record), budget);
  }
}

}  // namespace

chat::Budget document_budget() { return chat::Budget(chat::Limits{}); }

const chat::Value& Document::field(std::string_view name) const {
  if (const chat::Value* const value = find(name)) return *value;
  std::string known;
  for (const auto& [key, value] : variables.entries)
    known += (known.empty() ? "" : ", ") + (key.is_text() ? key.bytes() : "?");
  throw UserError("{}: there is no field \"{}\"; the fields are {}", where, name, known);
}

const std::string& Document::text(std::string_view name) const {
  const chat::Value& value = field(name);
  if (!value.is_text())
    throw UserError("{}: the field \"{}\" is no text, but of type {}", where, name,
                    chat::type_name(value));
  return value.bytes();
}

std::vector<std::string> Document::texts(std::string_view name) const {
  const chat::Value& value = field(name);
  std::vector<std::string> result;
  if (const chat::Sequence* const list = value.sequence()) {
    for (const chat::Value& item : list->items) {
      if (!item.is_text()) throw UserError("{}: the list \"{}\" has what is no text", where, name);
      result.push_back(item.bytes());
    }
    return result;
  }
  throw UserError("{}: the field \"{}\" is no list of texts", where, name);
}

std::vector<Document> read_documents(const std::filesystem::path& file) {
  std::vector<Document> documents;
  LineReader reader(file, kMostLineBytes);
  int64_t bytes = 0;
  const auto take = [&](std::string_view line, int64_t number) {
    bytes += std::ssize(line);
    if (bytes > kMostFileBytes)
      throw UserError("{}: more than {} bytes of documents", file.string(), kMostFileBytes);
    if (chat::strip(line, chat::Side::both).empty()) return;
    documents.push_back(document_of(line, fmt::format("{}:{}", file.string(), number)));
  };
  for (std::string_view line; reader.next(line);) take(line, reader.number());
  if (reader.is_too_long()) {
    throw UserError("{}:{}: a line longer than {} bytes", file.string(), reader.number() + 1,
                    kMostLineBytes);
  }
  if (!reader.rest().empty()) take(reader.rest(), reader.number() + 1);
  if (documents.empty()) throw UserError("{}: has no documents", file.string());
  align(documents);
  return documents;
}

void set_field(Document& document, std::string_view name, chat::Value value, bool logged) {
  chat::Budget budget = document_budget();
  const chat::Value key = text_value(std::string(name));
  if (logged) {
    chat::Dict record = *document.record.dict();
    record.set(key, value, budget);
    document.record = chat::make_dict(std::move(record), budget);
  }
  document.variables.set(key, std::move(value), budget);
}

chat::Value text_value(std::string text) {
  chat::Budget budget = document_budget();
  return chat::Value::text(std::move(text), budget);
}

chat::Value list_value(const std::vector<std::string>& texts) {
  chat::Budget budget = document_budget();
  chat::Items items;
  for (const std::string& text : texts) items.push_back(chat::Value::text(text, budget));
  return chat::make_list(std::move(items), budget);
}

}  // namespace megalith::tasks
