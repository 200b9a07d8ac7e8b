// SPDX-License-Identifier: Apache-2.0
// BERT's tokenizer.json, from text to ids and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/tokenizer_fixture.h"

namespace megalith::text {
namespace {

using Ids = std::vector<int32_t>;
using nlohmann::json;

enum Id : int32_t { pad, unk, cls, sep, mask, the, cat, s, un, aff, able, comma, e, apostrophe };

json bert() {
  const auto special = [](int32_t id, const char* content) {
    return json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  const auto token = [](const char* name, int type) {
    return json{{"SpecialToken", {{"id", name}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, int type) {
    return json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const auto ids = [](const char* name, int32_t id) {
    return json{{"id", name}, {"ids", {id}}, {"tokens", {name}}};
  };
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           {special(pad, "[PAD]"), special(unk, "[UNK]"), special(cls, "[CLS]"),
            special(sep, "[SEP]"), special(mask, "[MASK]")}},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", true}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {token("[CLS]", 0), text("A", 0), token("[SEP]", 0)}},
            {"pair",
             {token("[CLS]", 0), text("A", 0), token("[SEP]", 0), text("B", 1), token("[SEP]", 1)}},
            {"special_tokens", {{"[CLS]", ids("[CLS]", cls)}, {"[SEP]", ids("[SEP]", sep)}}}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab",
             {{"[PAD]", pad},
              {"[UNK]", unk},
              {"[CLS]", cls},
              {"[SEP]", sep},
              {"[MASK]", mask},
              {"the", the},
              {"cat", cat},
              {"##s", s},
              {"un", un},
              {"##aff", aff},
              {"##able", able},
              {",", comma},
              {"e", e},
              {"'", apostrophe}}}}}};
}

TEST(WordPiece, EncodesAndDecodes) {
  const Tokenizer tokenizer = parse(bert());
  EXPECT_EQ(tokenizer.encode("The CATS, unaffable \xC3\xA9!", true),
            (Ids{cls, the, cat, s, comma, un, aff, able, e, unk, sep}));
  EXPECT_EQ(tokenizer.encode("the[MASK]cats", false), (Ids{the, mask, cat, s}));
  EXPECT_EQ(tokenizer.encode("", true), (Ids{cls, sep}));
  EXPECT_EQ(tokenizer.end_of_document(), sep);
  EXPECT_EQ(tokenizer.decode(Ids{cls, the, cat, s, comma, un, aff, able, sep}),
            "the cats, unaffable");
  EXPECT_EQ(tokenizer.decode(Ids{cls, the, s, sep}, true), "[CLS] thes [SEP]");
  EXPECT_EQ(tokenizer.decode(Ids{s, s}), "##ss");
}

TEST(WordPiece, PairsHaveTypes) {
  const Tokenizer tokenizer = parse(bert());
  const Encoding pair = tokenizer.encode_typed("the cats", "cat", true);
  EXPECT_EQ(pair.ids, (Ids{cls, the, cat, s, sep, cat, sep}));
  EXPECT_EQ(pair.type_ids, (Ids{0, 0, 0, 0, 0, 1, 1}));
  const Encoding bare = tokenizer.encode_typed("the cats", "cat", false);
  EXPECT_EQ(bare.ids, (Ids{the, cat, s, cat}));
  EXPECT_EQ(bare.type_ids, (Ids{0, 0, 0, 1}));
  const Encoding single = tokenizer.encode_typed("the", std::nullopt, true);
  EXPECT_EQ(single.ids, (Ids{cls, the, sep}));
  EXPECT_EQ(single.type_ids, (Ids{0, 0, 0}));
  EXPECT_THROW(tokenizer.encode_typed("the", "\xFF", true), UserError);

  json file = bert();
  file["post_processor"] = {
      {"type", "BertProcessing"}, {"sep", {"[SEP]", sep}}, {"cls", {"[CLS]", cls}}};
  const Encoding classic = parse(file).encode_typed("the cats", "cat", true);
  EXPECT_EQ(classic.ids, pair.ids);
  EXPECT_EQ(classic.type_ids, pair.type_ids);
  file["post_processor"]["type"] = "RobertaProcessing";
  const Encoding roberta = parse(file).encode_typed("the", "cat", true);
  EXPECT_EQ(roberta.ids, (Ids{cls, the, sep, sep, cat, sep}));
  EXPECT_EQ(roberta.type_ids, (Ids(6, 0)));
  file["post_processor"] = nullptr;
  EXPECT_EQ(parse(file).encode_typed("the", "cat", true).type_ids, (Ids{0, 1}));
}

TEST(WordPiece, WhatIsWrittenReadsAsTheSame) {
  const json original = bert();
  const std::string written = parse(original).to_json();
  EXPECT_EQ(json::parse(written), original);
  EXPECT_EQ(Tokenizer::parse(written, "again").to_json(), written);
}

TEST(WordPiece, BadFilesAreRefused) {
  const auto expect_refused = [](const char* pointer, const json& value, const char* reason) {
    json file = bert();
    file[json::json_pointer(pointer)] = value;
    EXPECT_THAT([&] { parse(file); }, testing::ThrowsMessage<UserError>(testing::HasSubstr(reason)))
        << pointer;
  };
  expect_refused("/model/unk_token", 3, "unk_token");
  expect_refused("/model/max_input_chars_per_word", -1, "max_input_chars_per_word");
  expect_refused("/normalizer/strip_accents", "yes", "strip_accents");
  expect_refused("/post_processor/pair/3/Sequence/id", "A", "\"pair\" has not each text once");
  expect_refused("/post_processor/single/1/Sequence/id", "C", "template of text C");
  expect_refused("/post_processor/pair/0/SpecialToken/type_id", -1, "type_id");
  expect_refused("/decoder/prefix", nullptr, "prefix");
}

}  // namespace
}  // namespace megalith::text
