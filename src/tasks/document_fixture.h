// SPDX-License-Identifier: Apache-2.0
// A document from a line of JSON, for tests.
#pragma once

#include <nlohmann/json.hpp>

#include "chat/conversation.h"
#include "tasks/document.h"

namespace megalith::tasks {

inline Document document_of(std::string_view json) {
  Document document;
  document.where = "sets/x.jsonl:3";
  chat::Budget budget = document_budget();
  document.record = chat::value_of(nlohmann::ordered_json::parse(json), budget);
  document.variables = *document.record.dict();
  return document;
}

}  // namespace megalith::tasks
