// SPDX-License-Identifier: Apache-2.0
// Calls of functions in chats: what a request offers and forces, the form of a text that is forced
// to be calls, and the calls in such a text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "protocols/text_form.h"

namespace megalith::protocols {

inline constexpr size_t kMostTools = 128;
/// Calls in one text.
inline constexpr int64_t kMostCalls = 16;

struct ToolFields {
  const Json* tools = nullptr;  // for the template; null: none is offered
  bool forces = false;          // the text is calls alone
  std::string function;         // of this one, once; empty: of any
  TextForm form;                // if it is forced
};

/// Reads tools, tool_choice and parallel_tool_calls. ApiError naming the field that is wrong, and
/// the place in a schema of parameters.
ToolFields read_tools(Fields& fields, const ServedModel& model);

/// An assistant's message with calls: their arguments, which are JSON's text, as templates want
/// them. ApiError if they are no object's text.
void read_past_calls(Json& message, const std::string& where);

/// The calls in a text that was forced to be calls, as it comes: the arguments of one function, or
/// a list of {"name", "arguments"}, in that order.
class CallReader {
 public:
  /// `function`: see ToolFields.
  explicit CallReader(std::string function) : function_(std::move(function)) {}

  /// What a text adds to a call.
  struct Piece {
    size_t call = 0;
    std::string name{};  // of the function; empty but in a call's first piece
    std::string arguments{};
  };
  std::vector<Piece> push(std::string_view text);
  /// All that was begun has ended.
  bool is_whole() const { return has_begun_ && depth_ == 0; }

 private:
  void take(char c, std::vector<Piece>& pieces);
  void take_in_string(char c, std::vector<Piece>& pieces);
  void take_bracket(char c);
  static Piece& piece_of(std::vector<Piece>& pieces, size_t call);

  std::string function_;
  bool has_begun_ = false, in_string_ = false, is_escaped_ = false;
  int depth_ = 0;     // of lists and objects
  int strings_ = 0;   // of a call in a list, outside its arguments
  std::string name_;  // the second of these
  size_t call_ = 0;
};

}  // namespace megalith::protocols
