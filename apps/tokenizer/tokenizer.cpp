// SPDX-License-Identifier: Apache-2.0
// megalith tokenizer train | encode | decode | chat
#include <fmt/ranges.h>

#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/chat_text.h"
#include "apps/command.h"
#include "apps/tokenizer/argument.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "characters/utf8.h"
#include "gguf/reader.h"
#include "text/ids_json.h"
#include "text/tokenizer.h"
#include "text_training/bpe_trainer.h"
#include "text_training/unigram_trainer.h"
#include "text_training/wordpiece_trainer.h"
#include "vocabularies/gguf_vocabulary.h"

namespace megalith::apps {
namespace {

/// A text is held in memory whole; a corpus is any number of files.
constexpr int64_t kMostTextBytes = int64_t{4} << 30;

struct TokenizerOptions {
  std::vector<std::string> inputs;
  int64_t vocab_size = 0;
  std::string output;
  std::string kind = "bytelevel";
  std::string pattern = "gpt2";
  int64_t min_frequency = 1;
  int threads = 0;
};

text::BpeTrainer bpe_trainer(const TokenizerOptions& o, bool json) {
  text::BpeTrainer::Options options;
  options.vocab_size = o.vocab_size;
  options.pattern =
      o.pattern == "llama3" ? tokenize::SplitPattern::llama3 : tokenize::SplitPattern::gpt2;
  options.min_frequency = o.min_frequency;
  if (!json) {
    options.progress = [](const text::BpeTrainer::Progress& p) {
      fmt::print(stderr, "\r{} of {} entries", p.entries, p.vocab_size);
    };
  }
  return text::BpeTrainer(options);
}

/// Calls add(document) for each input; returns their bytes.
template <typename Add>
int64_t add_documents(const TokenizerOptions& o, const Add& add) {
  int64_t bytes = 0;
  for (const std::string& input : o.inputs) {
    const std::string document = read_file(input, kMostTextBytes);
    bytes += static_cast<int64_t>(document.size());
    try {
      add(std::string_view(document));
    } catch (const UserError& error) {
      throw UserError("{}: {}", input, error.what());
    }
  }
  return bytes;
}

int train(const TokenizerOptions& o, bool json) {
  const double begin = monotonic_seconds();
  ThreadPool pool(o.threads > 0 ? o.threads : available_cores());
  int64_t bytes = 0;
  const text::Tokenizer tokenizer = [&] {
    if (o.kind == "wordpiece") {
      text::WordPieceTrainer trainer(
          {.vocab_size = o.vocab_size, .min_frequency = o.min_frequency});
      bytes = add_documents(o, [&](std::string_view document) { trainer.add(document); });
      return trainer.train(pool);
    }
    if (o.kind == "unigram") {
      text::UnigramTrainer trainer({.vocab_size = o.vocab_size});
      bytes = add_documents(o, [&](std::string_view document) { trainer.add(document); });
      return trainer.train(pool);
    }
    text::BpeTrainer trainer = bpe_trainer(o, json);
    bytes = add_documents(
        o, [&](std::string_view document) { trainer.add(std::span(&document, 1), pool); });
    return trainer.train(pool);
  }();
  tokenizer.save(o.output);
  const double seconds = monotonic_seconds() - begin;
  if (json) {
    print_json({{"vocab_size", tokenizer.vocab_size()}, {"bytes", bytes}, {"seconds", seconds}});
  } else {
    fmt::print(stderr, "\r{} entries from {} bytes in {:.1f} s: {}\n", tokenizer.vocab_size(),
               bytes, seconds, o.output);
  }
  return 0;
}

void add_train_command(CLI::App& parent, Invocation& invocation) {
  CLI::App& c = add_command(
      parent, invocation, "train",
      "train a vocabulary: byte-level BPE, BERT's WordPiece, T5's Unigram",
      "  megalith tokenizer train --input a.txt b.txt --vocab-size 8192 --output tokenizer.json\n");
  auto o = std::make_shared<TokenizerOptions>();
  c.add_option("--input", o->inputs, "text files; each is one document")->required();
  c.add_option("--vocab-size", o->vocab_size,
               "entries, bytes (bytelevel), characters (the others) and special tokens included")
      ->check(whole_number(1, std::numeric_limits<int32_t>::max()))
      ->required();
  c.add_option("--output", o->output, "the tokenizer.json to write")->required();
  c.add_option("--kind", o->kind, "of the vocabulary")
      ->check(CLI::IsMember({"bytelevel", "wordpiece", "unigram"}))
      ->capture_default_str();
  c.add_option("--pattern", o->pattern, "how text is cut into words (bytelevel)")
      ->check(CLI::IsMember({"gpt2", "llama3"}))
      ->capture_default_str();
  c.add_option("--min-frequency", o->min_frequency,
               "rarer pairs do not become tokens (not unigram)")
      ->check(whole_number(1))
      ->capture_default_str();
  c.add_option("--threads", o->threads, "0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  c.callback([o, &invocation] {
    invocation.run = [o, &invocation] { return train(*o, invocation.json); };
  });
}

struct EncodeOptions {
  TokenizerArgument tokenizer;
  std::string input, pair;
};

int encode(const EncodeOptions& o, bool json) {
  const text::Tokenizer tokenizer = o.tokenizer.load();
  const std::string document = read_file(o.input, kMostTextBytes);
  std::optional<std::string> pair;
  if (!o.pair.empty()) pair = read_file(o.pair, kMostTextBytes);
  const double begin = monotonic_seconds();
  text::Encoding encoding;
  try {
    if (pair) {
      characters::require_utf8(*pair, o.pair);
      encoding = tokenizer.encode_typed(document, *pair, true);
    } else {
      encoding.ids = tokenizer.encode(document, true);
    }
  } catch (const UserError& error) {
    throw UserError("{}: {}", o.input, error.what());
  }
  const double seconds = monotonic_seconds() - begin;
  if (json) {
    nlohmann::ordered_json result = {{"ids", encoding.ids}};
    if (pair) result["type_ids"] = encoding.type_ids;
    result["seconds"] = seconds;
    print_json(result);
  } else {
    fmt::print("{}\n", fmt::join(encoding.ids, " "));
    if (pair) fmt::print("{}\n", fmt::join(encoding.type_ids, " "));
  }
  return 0;
}

void add_encode_command(CLI::App& parent, Invocation& invocation) {
  CLI::App& c = add_command(
      parent, invocation, "encode", "text to token ids; the file is one document",
      "  megalith tokenizer encode --tokenizer tokenizer.json --input text.txt --json\n"
      "  megalith tokenizer encode --tokenizer o200k_base.tiktoken --pattern o200k --input "
      "text.txt\n"
      "  megalith tokenizer encode --tokenizer bert/tokenizer.json --input question.txt --pair "
      "answer.txt\n");
  auto o = std::make_shared<EncodeOptions>();
  o->tokenizer.declare(c);
  c.add_option("--input", o->input, "text file")->required();
  c.add_option(
      "--pair", o->pair,
      "a second text, which the post-processor joins to the first; type ids are given too");
  c.callback([o, &invocation] {
    invocation.run = [o, &invocation] { return encode(*o, invocation.json); };
  });
}

int decode(const text::Tokenizer& tokenizer, const std::string& input, bool keep_special,
           bool json) {
  const std::vector<int32_t> ids =
      text::parse_ids_json(read_file(input, text::kMaxIdsBytes), input);
  const double begin = monotonic_seconds();
  const std::string decoded = [&] {
    try {
      return tokenizer.decode(ids, keep_special);
    } catch (const UserError& error) {
      throw UserError("{}: {}", input, error.what());
    }
  }();
  const double seconds = monotonic_seconds() - begin;
  if (json) {
    print_json({{"text", decoded}, {"seconds", seconds}});
  } else {
    fmt::print("{}", decoded);
  }
  return 0;
}

void add_decode_command(CLI::App& parent, Invocation& invocation) {
  CLI::App& c = add_command(
      parent, invocation, "decode", "token ids to text",
      "  megalith tokenizer decode --tokenizer tokenizer.json --input ids.json --json\n");
  struct Options {
    TokenizerArgument tokenizer;
    std::string input;
    bool keep_special = false;
  };
  auto o = std::make_shared<Options>();
  o->tokenizer.declare(c);
  c.add_option("--input", o->input, "JSON: {\"ids\": [...]} or a list")->required();
  c.add_flag("--keep-special", o->keep_special, "show special tokens too");
  c.callback([o, &invocation] {
    invocation.run = [o, &invocation] {
      return decode(o->tokenizer.load(), o->input, o->keep_special, invocation.json);
    };
  });
}

struct ChatOptions {
  TokenizerArgument tokenizer;
  std::string input;
  bool no_generation_prompt = false;
};

/// Those in the GGUF file, or beside the tokenizer.
chat::ChatFolder templates_of(const std::filesystem::path& path) {
  if (gguf::is_gguf_file(path))
    return chat::ChatFolder::parse(vocabularies::gguf_texts(gguf::Reader(path).metadata()), path);
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(path, error);
  return chat::ChatFolder::load(is_folder ? path : path.parent_path());
}

int render_chat(const ChatOptions& o, bool json) {
  const text::Tokenizer tokenizer = o.tokenizer.load();
  const chat::ChatFolder folder = templates_of(o.tokenizer.path);
  const std::string text = chat_text(folder, o.input, !o.no_generation_prompt);
  if (json) {
    // The template has put the special tokens where they belong.
    print_json({{"text", text}, {"ids", tokenizer.encode(text, false)}});
  } else {
    fmt::print("{}", text);
  }
  return 0;
}

void add_chat_command(CLI::App& parent, Invocation& invocation) {
  CLI::App& c = add_command(
      parent, invocation, "chat",
      "messages as the text and ids that a chat model expects, by the template beside its "
      "tokenizer",
      "  echo '[{\"role\": \"user\", \"content\": \"Hello\"}]' > messages.json\n"
      "  megalith tokenizer chat --tokenizer model/tokenizer.json --input messages.json --json\n");
  auto o = std::make_shared<ChatOptions>();
  o->tokenizer.declare(c);
  c.add_option("--input", o->input, kMessagesHelp)->required();
  c.add_flag("--no-generation-prompt", o->no_generation_prompt,
             "do not begin the answer of the model");
  c.callback([o, &invocation] {
    invocation.run = [o, &invocation] { return render_chat(*o, invocation.json); };
  });
}

}  // namespace

void add_tokenizer(CLI::App& app, Invocation& invocation) {
  CLI::App& c = *app.add_subcommand("tokenizer", "train and use tokenizers");
  c.require_subcommand(1);
  add_train_command(c, invocation);
  add_encode_command(c, invocation);
  add_decode_command(c, invocation);
  add_chat_command(c, invocation);
  add_tokenizer_convert(c, invocation);
}

}  // namespace megalith::apps
