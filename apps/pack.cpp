// SPDX-License-Identifier: Apache-2.0
// megalith pack
#include "data/pack.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/tokenizer/argument.h"
#include "base/clock.h"
#include "text/tokenizer.h"

namespace megalith::apps {
namespace {

struct PackOptions {
  TokenizerArgument tokenizer;
  std::string output, field, document;
  std::vector<std::string> inputs;
  bool special_tokens = false, sentences = false;
  int threads = 0;
};

data::PackOptions pack_options(const PackOptions& o) {
  data::PackOptions options;
  options.inputs.assign(o.inputs.begin(), o.inputs.end());
  options.output_prefix = o.output;
  options.special_tokens = o.special_tokens;
  options.sentences = o.sentences;
  options.threads = o.threads;
  if (!o.field.empty()) options.field = o.field;
  if (o.document == "file") options.document = data::DocumentMode::file;
  if (o.document == "line") options.document = data::DocumentMode::line;
  if (o.document == "paragraph") options.document = data::DocumentMode::paragraph;
  return options;
}

int run(const PackOptions& o, bool json) {
  const text::Tokenizer tokenizer = o.tokenizer.load();
  const double begin = monotonic_seconds();
  double shown = begin;
  const bool terminal = isatty(STDERR_FILENO) == 1;
  const auto progress = [&](const data::PackProgress& p) {
    if (json || !terminal || monotonic_seconds() - shown < 0.25) return;
    shown = monotonic_seconds();
    fmt::print(stderr, "\r{} documents  {} tokens  {:.1f} MB/s", p.documents, p.tokens,
               static_cast<double>(p.bytes) / 1e6 / (shown - begin));
  };
  const data::PackResult r = data::pack(tokenizer, pack_options(o), progress);
  if (json) {
    print_json({{"documents", r.documents},
                {"tokens", r.tokens},
                {"bytes", r.bytes},
                {"seconds", r.seconds}});
  } else {
    fmt::print(stderr, "{}{} documents, {} tokens from {} bytes in {:.1f} s: {}.bin, {}.idx\n",
               terminal ? "\r" : "", r.documents, r.tokens, r.bytes, r.seconds, o.output, o.output);
  }
  return 0;
}

}  // namespace

void add_pack(CLI::App& app, Invocation& invocation) {
  CLI::App& c = add_command(
      app, invocation, "pack", "text files to an indexed corpus of tokens (.bin, .idx)",
      "  megalith pack --tokenizer tokenizer.json --input a.txt b.jsonl.zst --output data/corpus\n"
      "  cat lines.txt | megalith pack --tokenizer t.json --input - --document line --output "
      "data/l\n");
  auto o = std::make_shared<PackOptions>();
  o->tokenizer.declare(c);
  c.add_option("--input", o->inputs,
               ".txt or .jsonl files, plain, .gz or .zst; - is standard input")
      ->required();
  c.add_option("--output", o->output, "prefix of the two files to write")->required();
  c.add_option("--field", o->field, "JSON lines: the field that holds the text (default: text)");
  c.add_option("--document", o->document, "text files: what one document is (default: file)")
      ->check(CLI::IsMember({"file", "line", "paragraph"}));
  c.add_flag("--special-tokens", o->special_tokens,
             "documents stand between the special tokens of the tokenizer's post-processor, as "
             "[CLS] and [SEP]");
  c.add_flag(
      "--sentences", o->sentences,
      "each line of a document is a sentence, for train.sentence_pairs; no end of document is "
      "put behind them");
  c.add_option("--threads", o->threads, "encoders; 0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  c.callback(
      [o, &invocation] { invocation.run = [o, &invocation] { return run(*o, invocation.json); }; });
}

}  // namespace megalith::apps
