// SPDX-License-Identifier: Apache-2.0
#include "tune/example_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/line_reader.h"

namespace megalith::tune {
namespace {

/// Of two lists of ids, how many are the same from the beginning on.
size_t common_beginning(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

/// Each range that is learned is an answer to all that stands before it.
void add_two_sides(const ExampleForm& form, const MarkedText& text,
                   std::vector<Example>& examples) {
  for (const Range& range : text.learned) {
    const auto begin = static_cast<size_t>(range.begin), end = static_cast<size_t>(range.end);
    examples.push_back(encode_two_sides(
        form, {text.text.substr(0, begin), text.text.substr(begin, end - begin)}, false));
  }
}

std::vector<Example> texts_of(const ExampleLine& line, const ExampleForm& form) {
  if (const auto* answer = std::get_if<PromptAndAnswer>(&line)) {
    return {form.decoder_start ? encode_two_sides(form, *answer, true)
                               : encode_answer(form, *answer)};
  }
  std::vector<Example> examples;
  for (const MarkedText& text : marked_texts(form.chats, std::get<ChatExample>(line))) {
    if (form.decoder_start) {
      add_two_sides(form, text, examples);
    } else {
      examples.push_back(encode_marked(form.tokenizer, text));
    }
  }
  return examples;
}

/// Puts virtual tokens in place of the marks of what an encoder reads.
void expand_read(const ExampleForm& form, Example& example) {
  form.marks->expand(example.read, form.first_row);
  if (std::ranges::any_of(example.ids, [&](int32_t id) { return id >= form.marks->vocab(); }))
    throw UserError("its answer has a mark of virtual tokens, which stand in what is read");
}

/// What of an example is longer than a sample, as an error says it; and the key to set.
[[noreturn]] void refuse_length(const Example& example, const LengthRule& rule) {
  const char* const others = example.target ? "" : " or truncate";
  if (example.read.empty()) {
    throw UserError(
        "is {} tokens long, and samples have {}; set a larger train.sequence_length, or "
        "tune.overlong: drop{}",
        example.tokens(), rule.most_tokens, others);
  }
  const bool reads = std::ssize(example.read) > rule.most_read;
  throw UserError(
      "has {} of {} tokens, and samples have {} for it; set a larger {}, or tune.overlong: drop{}",
      reads ? "a prompt" : "an answer", reads ? std::ssize(example.read) : example.tokens(),
      reads ? rule.most_read : rule.most_tokens,
      reads ? "train.sequence_length" : "tune.answer_length", others);
}

/// The first ids of a text, the last of them the one that ends it where it has that.
void keep_first(std::vector<int32_t>& ids, int64_t most, std::optional<int32_t> end_id) {
  if (std::ssize(ids) <= most) return;
  const bool ends = ids.back() == end_id;
  ids.resize(static_cast<size_t>(most));
  if (ends) ids.back() = *end_id;
}

}  // namespace

ExampleCounts& ExampleCounts::operator+=(const ExampleCounts& other) {
  lines += other.lines;
  dropped += other.dropped;
  truncated += other.truncated;
  long_read += other.long_read;
  unlabelled += other.unlabelled;
  return *this;
}

bool has_answer(const Example& example) {
  return example.tokens() >= 1 &&
         std::find(example.learned.begin() + 1, example.learned.end(), 1) != example.learned.end();
}

std::vector<Example> encode_line(const ExampleLine& line, const ExampleForm& form) {
  std::vector<Example> examples = texts_of(line, form);
  for (Example& example : examples) {
    if (form.decoder_start) {  // the text is what the encoder reads
      if (form.marks != nullptr) expand_read(form, example);
      example.read.insert(example.read.begin(), form.before.begin(), form.before.end());
      continue;
    }
    if (form.marks != nullptr) form.marks->expand(example.ids, form.first_row, &example.learned);
    example.ids.insert(example.ids.begin(), form.before.begin(), form.before.end());
    example.learned.insert(example.learned.begin(), form.before.size(), 0);
  }
  return examples;
}

Example encode_marked(const text::Tokenizer& tokenizer, const MarkedText& text) {
  Example example{tokenizer.encode(text.text, false), {}};
  example.learned.assign(example.ids.size(), 0);
  // What stands before a place is the beginning of the whole, unless a token crosses the place.
  const auto ids_before = [&](int64_t place) {
    const auto head = std::string_view(text.text).substr(0, static_cast<size_t>(place));
    return common_beginning(tokenizer.encode(head, false), example.ids);
  };
  for (const Range& range : text.learned) {
    const size_t begin = ids_before(range.begin), end = ids_before(range.end);
    std::fill(example.learned.begin() + static_cast<std::ptrdiff_t>(begin),
              example.learned.begin() + static_cast<std::ptrdiff_t>(std::max(begin, end)), 1);
  }
  return example;
}

Example encode_answer(const ExampleForm& form, const PromptAndAnswer& text) {
  Example example{form.tokenizer.encode(text.prompt + text.answer, true), {}};
  const size_t prompt = common_beginning(form.tokenizer.encode(text.prompt, true), example.ids);
  if (example.ids.empty() || example.ids.back() != form.end_id) example.ids.push_back(form.end_id);
  example.learned.assign(example.ids.size(), 1);
  std::fill_n(example.learned.begin(), static_cast<std::ptrdiff_t>(prompt), 0);
  return example;
}

Example encode_two_sides(const ExampleForm& form, const PromptAndAnswer& text, bool adds_special) {
  const std::string answer =
      text.answer.substr(std::min(text.answer.find_first_not_of(' '), text.answer.size()));
  if (answer.find_first_not_of(" \t\r\n\f\v") == std::string::npos)
    throw UserError("has nothing to learn: its answer is white space alone");
  Example example{{*form.decoder_start}, {}};
  const std::vector<int32_t> said = form.tokenizer.encode(answer, adds_special);
  example.ids.insert(example.ids.end(), said.begin(), said.end());
  if (said.empty() || said.back() != form.end_id) example.ids.push_back(form.end_id);
  example.learned.assign(example.ids.size(), 1);
  example.learned[0] = 0;
  example.read = form.tokenizer.encode(text.prompt, adds_special);
  if (example.read.empty()) example.read.push_back(form.end_id);
  return example;
}

void for_each_line(const std::string& file, int64_t most_bytes,
                   FunctionRef<void(std::string_view line)> take) {
  LineReader reader(file, most_bytes);
  const auto take_line = [&](std::string_view line, int64_t number) {
    if (is_blank(line)) return;
    try {
      take(line);
    } catch (const UserError& error) {
      throw UserError("{}:{}: {}", file, number, error.what());
    }
  };
  std::string_view line;
  while (reader.next(line)) take_line(line, reader.number());
  if (reader.is_too_long())
    throw UserError("{}:{}: is longer than {} bytes", file, reader.number() + 1, most_bytes);
  take_line(reader.rest(), reader.number() + 1);
}

bool keep_length(Example& example, const LengthRule& rule, ExampleCounts& counts) {
  const bool is_read_long = !example.read.empty() && std::ssize(example.read) > rule.most_read;
  if (example.tokens() <= rule.most_tokens && !is_read_long) return true;
  if (is_read_long) ++counts.long_read;
  switch (rule.overlong) {
    case config::Overlong::refuse:
      refuse_length(example, rule);
    case config::Overlong::drop:
      ++counts.dropped;
      return false;
    case config::Overlong::truncate:
      break;
  }
  const bool has_sides = !example.read.empty();
  keep_first(example.ids, rule.most_tokens + 1,
             has_sides ? std::optional(rule.end_id) : std::nullopt);
  example.learned.resize(example.ids.size());
  keep_first(example.read, rule.most_read, rule.end_id);
  ++(has_answer(example) ? counts.truncated : counts.dropped);
  return has_answer(example);
}

void require_examples(bool are_some, const LengthRule& rule, const ExampleCounts& counts) {
  if (are_some) return;
  if (counts.unlabelled > 0 && counts.unlabelled == counts.lines)
    throw UserError("recipe: {}: no text has a word whose tag could be learned", rule.key);
  const bool reads = rule.most_read > 0;
  const char* const longer = counts.dropped == 0 ? ""
                             : reads && counts.long_read < counts.dropped
                                 ? "; set a larger tune.answer_length"
                                 : "; set a larger train.sequence_length";
  const std::string tokens =
      reads ? fmt::format("{} tokens to read and {} to answer", rule.most_read, rule.most_tokens)
            : fmt::format("{} tokens", rule.most_tokens);
  throw UserError("recipe: {}: no example that fits into a sample of {} among {} lines{}", rule.key,
                  tokens, counts.lines, longer);
}

int64_t add_examples(const ExampleLine& line, const ExampleForm& form, const LengthRule& rule,
                     ExampleCounts& counts, std::vector<Example>& examples) {
  ++counts.lines;
  const int64_t before = std::ssize(examples);
  for (Example& example : encode_line(line, form)) {
    if (!has_answer(example))
      throw UserError("has nothing to learn: its answer is no token of its own");
    example.task = form.task;
    if (keep_length(example, rule, counts)) examples.push_back(std::move(example));
  }
  return std::ssize(examples) - before;
}

std::vector<Example> read_examples(const std::vector<std::string>& files, const ExampleForm& form,
                                   const LengthRule& rule, ExampleCounts& counts) {
  std::vector<Example> examples;
  for (const std::string& file : files) {
    for_each_line(file, kMostLineBytes, [&](std::string_view line) {
      add_examples(parse_example_line(line, form.fields, form.only_fields), form, rule, counts,
                   examples);
    });
  }
  require_examples(!examples.empty(), rule, counts);
  return examples;
}

}  // namespace megalith::tune
