// SPDX-License-Identifier: Apache-2.0
// Tests and fuzz targets only: a served model of a few tokens, with a chat template.
#pragma once

#include "generate/continuation.h"
#include "protocols/served_model.h"

namespace megalith::protocols {

/// Each of these characters is a token; "ab" and an end of text are too.
inline const text::Tokenizer& small_tokenizer() {
  static const text::Tokenizer tokenizer = text::Tokenizer::parse(
      R"({"version": "1.0", "truncation": null, "padding": null, "normalizer": null,
          "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
          "added_tokens": [{"id": 7, "content": "<end>", "single_word": false, "lstrip": false,
              "rstrip": false, "normalized": false, "special": true}],
          "model": {"type": "BPE", "dropout": null, "unk_token": "?", "fuse_unk": false,
              "byte_fallback": false, "ignore_merges": false,
              "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3, " ": 4, "?": 5, "\u00e9": 6, "<end>": 7},
              "merges": ["a b"]}})",
      "small.json");
  return tokenizer;
}

inline const chat::ChatFolder& small_chat() {
  static const chat::ChatFolder folder =
      chat::ChatFolder::parse({{"chat_template.jinja",
                                "{% for m in messages %}{{ m.role[0] }}{{ m.content }}{% endfor %}"
                                "{% if tools %}{{ tools[0].function.name }}{% endif %}"
                                "{% if add_generation_prompt %}c{% endif %}"}},
                              "small");
  return folder;
}

inline ServedModel small_model() {
  ServedModel model;
  model.name = "small";
  model.created = 1700000000;
  model.vocab = 8;
  model.context = 32;
  model.embeds = true;
  model.end_ids = {7};
  model.tokenizer = &small_tokenizer();
  model.grammars = std::make_shared<grammars::MatcherCache>(small_tokenizer());
  model.chat = &small_chat();
  model.most_sequences = 40;
  model.most_beams = 40;
  return model;
}

/// With an adapter "plain" and two whose virtual tokens stand inside texts: of "marked" 8 and 9 in
/// place of one mark, 10 in place of another; of "single" 8 in place of its one mark.
inline ServedModel small_model_with_marks() {
  ServedModel model = small_model();
  const std::vector<std::string> names = {"plain", "marked", "single"};
  add_adapters(model, names);
  const auto set_marks = [&](ServedModel& adapter, const std::vector<int64_t>& splits) {
    adapter.marks = std::make_shared<adapters::PromptMarks>(small_tokenizer(), model.vocab, splits);
    adapter.context -= adapter.marks->tokens();
  };
  set_marks(model.adapters[1], {2, 1});
  set_marks(model.adapters[2], {1});
  return model;
}

inline generate::Generated generated(std::string text, std::vector<int32_t> ids,
                                     std::vector<double> logprobs, std::string reason) {
  generate::Generated result;
  result.text = std::move(text);
  result.ids = std::move(ids);
  result.logprobs = std::move(logprobs);
  result.finish_reason = std::move(reason);
  return result;
}

}  // namespace megalith::protocols
