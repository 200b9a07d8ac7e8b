// SPDX-License-Identifier: Apache-2.0
// Calls of functions in what a model writes, as it comes: in a text that was forced to be calls,
// and in one that may hold some.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace megalith::chat {

/// What a piece of text adds to a message.
struct MessagePiece {
  struct Call {
    size_t index = 0;
    std::string name{};       // of the function; empty but in a call's first piece
    std::string arguments{};  // a piece of JSON's text
  };
  std::string content{};
  std::vector<Call> calls{};
};

class CallReader {
 public:
  virtual ~CallReader() = default;
  virtual MessagePiece push(std::string_view text) = 0;
  /// What was held back, when the text has ended.
  virtual MessagePiece finish() { return {}; }
  /// Whether there are calls, and all that was begun has ended.
  virtual bool has_called() const = 0;
};

/// The text is calls alone: the arguments of one function, or a list of {"name", "arguments"}, in
/// that order.
class ForcedCalls final : public CallReader {
 public:
  /// `function`: the one; empty: a list.
  explicit ForcedCalls(std::string function) : function_(std::move(function)) {}
  MessagePiece push(std::string_view text) override;
  bool has_called() const override { return has_begun_ && depth_ == 0; }

 private:
  void take(char c, MessagePiece& piece);
  void take_in_string(char c, MessagePiece& piece);
  void take_bracket(char c);

  std::string function_;
  bool has_begun_ = false, in_string_ = false, is_escaped_ = false;
  int depth_ = 0;     // of lists and objects
  int strings_ = 0;   // of a call in a list, outside its arguments
  std::string name_;  // the second of these
  size_t call_ = 0;
};

/// A text that may hold calls, each {"name", "arguments"} between <tool_call> and </tool_call>, as
/// the templates of Hermes and Qwen ask for. What is not exactly that is content.
class TaggedCalls final : public CallReader {
 public:
  static constexpr std::string_view kBegin = "<tool_call>", kEnd = "</tool_call>";
  /// The functions that may be called.
  explicit TaggedCalls(std::vector<std::string> functions) : functions_(std::move(functions)) {}
  MessagePiece push(std::string_view text) override;
  MessagePiece finish() override;
  bool has_called() const override { return call_ > 0; }

 private:
  bool add_call(std::string_view json, MessagePiece& piece);
  void add_content(std::string_view text, MessagePiece& piece);

  std::vector<std::string> functions_;
  std::string held_;  // what may become a call, or the beginning of its tag
  size_t call_ = 0;
  bool skips_space_ = false;  // behind a call
};

}  // namespace megalith::chat
