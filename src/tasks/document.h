// SPDX-License-Identifier: Apache-2.0
// One example of a data set: a line of JSON, as `datasets` exports them, with Python's values.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "chat_values/value.h"

namespace megalith::tasks {

struct Document {
  chat::Value record = {};    // a dict, as it is logged
  chat::Dict variables = {};  // of templates: the record's fields, and what a task makes of them
  std::string where = {};     // "FILE:LINE"

  /// Null if there is none.
  const chat::Value* find(std::string_view field) const { return variables.find(field); }
  /// UserError naming place and field if it is absent, or is no text.
  const std::string& text(std::string_view field) const;
  const chat::Value& field(std::string_view field) const;
  /// A list of texts.
  std::vector<std::string> texts(std::string_view field) const;
};

/// One document: values take bounded memory.
chat::Budget document_budget();

/// All lines of a file (blank ones are passed over). Records have their fields in one order, as
/// `datasets` reads a file. UserError with FILE:LINE for what is no object, or not JSON.
std::vector<Document> read_documents(const std::filesystem::path& file);

/// Adds or replaces a variable; `logged`: in the record too.
void set_field(Document& document, std::string_view name, chat::Value value, bool logged);

chat::Value text_value(std::string text);
chat::Value list_value(const std::vector<std::string>& texts);

}  // namespace megalith::tasks
