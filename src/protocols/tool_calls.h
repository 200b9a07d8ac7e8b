// SPDX-License-Identifier: Apache-2.0
// Calls of functions in chats: what a request offers and forces, and the form of a text that is
// forced to be calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat/call_reader.h"
#include "protocols/text_form.h"

namespace megalith::protocols {

inline constexpr size_t kMostTools = 128;
/// Calls in one text.
inline constexpr int64_t kMostCalls = 16;

struct ToolFields {
  const Json* tools = nullptr;         // for the template; null: none is offered
  std::vector<std::string> functions;  // their names
  bool forces = false;                 // the text is calls alone
  std::string function;                // of this one, once; empty: of any
  TextForm form;                       // if it is forced
  bool finds = false;                  // else the model's template does not put calls between tags
  /// Of one text; null: it is content alone.
  std::unique_ptr<chat::CallReader> reader() const;
};

/// Reads tools, tool_choice and parallel_tool_calls. ApiError naming the field that is wrong, and
/// the place in a schema of parameters.
ToolFields read_tools(Fields& fields, const ServedModel& model);

/// An assistant's message with calls: their arguments, which are JSON's text, as templates want
/// them. ApiError if they are no object's text.
void read_past_calls(Json& message, const std::string& where);

}  // namespace megalith::protocols
