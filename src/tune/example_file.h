// SPDX-License-Identifier: Apache-2.0
// Files of examples as token ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adapters/prompt_marks.h"
#include "base/function_ref.h"
#include "chat/conversation.h"
#include "config/tune_section.h"
#include "text/tokenizer.h"
#include "tune/chat_turns.h"

namespace megalith::tune {

/// The target of a whole text: a class, a regression value, or the first and the last token of an
/// answer span.
struct Target {
  int32_t label = 0;  // class index; of a span the first token
  float number = 0;
  int32_t last = 0;
};

/// Ids of a text, and of each whether its prediction is learned, at least two; or with a target or
/// labels, the ids that are read. Of an encoder-decoder the ids are what the decoder reads and
/// says.
struct Example {
  std::vector<int32_t> ids;
  std::vector<uint8_t> learned;
  std::vector<int32_t> types = {};  // of the ids: which of two texts; empty: all 0
  std::optional<Target> target = {};
  std::vector<int32_t> labels = {};  // class indices of the ids, -1: none; empty: no id has one
  std::vector<int32_t> read = {};    // by an encoder, at least one; empty: there is none
  int32_t task = -1;                 // ExampleForm::task
  bool is_read() const { return target || !labels.empty(); }
  /// Tokens of the sequence that it makes: of one that is predicted without the last.
  int64_t tokens() const { return static_cast<int64_t>(ids.size()) - (is_read() ? 0 : 1); }
};

/// What makes ids of lines.
struct ExampleForm {
  const text::Tokenizer& tokenizer;
  const chat::ChatFolder& chats;
  /// Behind an answer to a prompt; a chat's template has its own.
  int32_t end_id = 0;
  /// Of the lines' fields, in NeMo's form; `only`: of all lines.
  FieldTemplate fields;
  bool only_fields = false;
  std::vector<int32_t> before = {};  // stand before every example; nobody learns them
  /// Of an encoder-decoder: what a decoder begins with. Its encoder reads what is given of a line,
  /// and the decoder's ids are this and what is learned.
  std::optional<int32_t> decoder_start = {};
  /// Of virtual tokens that stand inside texts, and not before: `tokenizer` is its own. Their rows
  /// are those from `first_row` on.
  const adapters::PromptMarks* marks = nullptr;
  int64_t first_row = 0;
  int32_t task = -1;  // of several in one run its number, which its examples get
};

/// Longest line of a file of texts.
inline constexpr int64_t kMostLineBytes = int64_t{64} << 20;

/// Whether a token but the first, which nothing predicts, is learned.
bool has_answer(const Example& example);
/// What becomes of a line: one example, or of a chat whose template shows earlier turns otherwise,
/// and for an encoder-decoder of any, one of each turn that is learned. Behind `form.before`.
std::vector<Example> encode_line(const ExampleLine& line, const ExampleForm& form);
/// The text as ids: a token is learned when it begins within a range that is, or, where a token
/// crosses a range's beginning, from that token on. Without special tokens of its own.
Example encode_marked(const text::Tokenizer& tokenizer, const MarkedText& text);
/// With the special tokens that begin a text.
Example encode_answer(const ExampleForm& form, const PromptAndAnswer& text);
/// Two texts, for an encoder and a decoder; `adds_special`: each with the special tokens that the
/// tokenizer adds to a text. Spaces before the answer are left out, and the end token stands behind
/// it; a prompt of no tokens is that token.
Example encode_two_sides(const ExampleForm& form, const PromptAndAnswer& text, bool adds_special);

/// What becomes of which examples.
struct LengthRule {
  const char* key = "";  // of the recipe, that names the files
  int64_t most_tokens = 0;
  config::Overlong overlong = config::Overlong::drop;
  int64_t most_read = 0;  // of an encoder-decoder: that the encoder reads
  int32_t end_id = -1;    // of an encoder-decoder: kept behind what is cut off of either side
};

/// How many of which length.
struct ExampleCounts {
  int64_t lines = 0;
  int64_t dropped = 0;     // longer than a sample
  int64_t truncated = 0;   // likewise
  int64_t long_read = 0;   // of these: because of what an encoder reads
  int64_t unlabelled = 0;  // left out: none of their words has a tag
  ExampleCounts& operator+=(const ExampleCounts& other);
};

/// Reads the lines of a file that are not blank; what UserErrors of `take` say is said of the file
/// and the line. UserError when one has more than `most_bytes`.
void for_each_line(const std::string& file, int64_t most_bytes,
                   FunctionRef<void(std::string_view line)> take);

/// False when an example is left out: of more tokens than the rule has, or with nothing left to
/// learn when it was truncated. UserError, worded as the end of a sentence about the line, when the
/// rule refuses it.
bool keep_length(Example& example, const LengthRule& rule, ExampleCounts& counts);
/// UserError naming the rule's key when there are none.
void require_examples(bool are_some, const LengthRule& rule, const ExampleCounts& counts);

/// Appends those of a line, as far as `rule` keeps them; how many. UserErrors are worded as the end
/// of a sentence about the line.
int64_t add_examples(const ExampleLine& line, const ExampleForm& form, const LengthRule& rule,
                     ExampleCounts& counts, std::vector<Example>& examples);
/// Of all lines of the files that are not blank, in order, as far as `rule` keeps them. UserError
/// with file:line when a line is no example, with the rule's key when there is none at all.
std::vector<Example> read_examples(const std::vector<std::string>& files, const ExampleForm& form,
                                   const LengthRule& rule, ExampleCounts& counts);

}  // namespace megalith::tune
