// SPDX-License-Identifier: Apache-2.0
// Packs with an encoder of one id per byte, so that the expected tokens are plain to see.
#include "data/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "data/indexed.h"
#include "data/test_compress.h"
#include "data/test_corpus.h"
#include "text/tokenizer_fixture.h"

namespace megalith::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int32_t kEnd = 256;

EncodeFunction byte_encoder() {
  return [](std::string_view text, std::vector<int32_t>& ids) {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  };
}

PackOptions options(std::vector<std::filesystem::path> inputs, std::filesystem::path output) {
  PackOptions options;
  options.inputs = std::move(inputs);
  options.output_prefix = std::move(output);
  options.threads = 2;
  return options;
}

PackResult pack_bytes(const PackOptions& options, int64_t vocab_size = 257) {
  return pack_with(byte_encoder, vocab_size, kEnd, options);
}

/// The documents of a corpus as text, '$' for the end of document.
std::vector<std::string> packed(const std::filesystem::path& prefix) {
  const IndexedDataset dataset(prefix);
  dataset.verify(257);
  std::vector<std::string> documents;
  for (int64_t d = 0; d < dataset.num_documents(); ++d) {
    const int64_t begin = dataset.document_begin(d);
    std::vector<int32_t> ids(static_cast<size_t>(dataset.document_begin(d + 1) - begin));
    dataset.read(begin, ids, 257);
    std::string text;
    for (const int32_t id : ids) text += id == kEnd ? '$' : static_cast<char>(id);
    documents.push_back(text);
  }
  return documents;
}

// One sentence a line, no ends: what sentence pairs are made of.
TEST(Pack, SentencesAreSequences) {
  const TemporaryFolder folder;
  write_text(folder / "a.txt", "one.\r\ntwo.\n \nthree.");
  write_text(folder / "b.jsonl", "{\"text\": \"four.\\n\\nfive.\\n\"}\n{\"text\": \"\"}\n");
  PackOptions o = options({folder / "a.txt", folder / "b.jsonl"}, folder / "out");
  o.document = DocumentMode::paragraph;
  o.sentences = true;
  const PackResult result = pack_bytes(o);
  EXPECT_THAT(packed(folder / "out"), ElementsAre("one.two.", "three.", "four.five.", ""));
  EXPECT_EQ(result.documents, 4);
  EXPECT_EQ(result.tokens, 24);
  const IndexedDataset dataset(folder / "out");
  EXPECT_THAT(dataset.document_sequences({0, 4}), ElementsAre(0, 2, 3, 5, 5));
  EXPECT_THAT(dataset.sequence_lengths({0, 5}), ElementsAre(4, 4, 6, 5, 5));
  EXPECT_EQ(dataset.sequence_begin(3), 14);
}

TEST(Pack, SentencesAreOfDocumentsWithSeveral) {
  const TemporaryFolder folder;
  write_text(folder / "a.txt", "one.\n");
  PackOptions o = options({folder / "a.txt"}, folder / "out");
  o.sentences = true;
  o.document = DocumentMode::line;
  EXPECT_THAT(error_of([&] { pack_bytes(o); }), HasSubstr("have one each"));
  o.document = DocumentMode::paragraph;
  o.special_tokens = true;
  EXPECT_THAT(error_of([&] { pack_bytes(o); }), HasSubstr("pack without them"));
}

TEST(Pack, EveryDocumentEndsWithTheEndOfDocument) {
  const TemporaryFolder folder;
  write_text(folder / "a.txt", "one\n\ntwo\n");
  write_text(folder / "b.jsonl", "{\"text\": \"three\"}\n{\"text\": \"\"}\n");
  PackOptions o = options({folder / "a.txt", folder / "b.jsonl"}, folder / "out");
  const PackResult result = pack_bytes(o);
  EXPECT_THAT(packed(folder / "out"), ElementsAre("one\n\ntwo\n$", "three$", "$"));
  EXPECT_EQ(result.documents, 3);
  EXPECT_EQ(result.bytes, 14);
  EXPECT_EQ(result.tokens, 17);
  EXPECT_GT(result.seconds, 0);
  o.document = DocumentMode::line;
  pack_bytes(o);
  EXPECT_THAT(packed(folder / "out"), ElementsAre("one$", "two$", "three$", "$"));
}

TEST(Pack, FieldAndSecondCompressionAreUnderstood) {
  const TemporaryFolder folder;
  write_text(folder / "b.jsonl.zst", zstd("{\"body\": \"b\", \"text\": \"t\"}\n"));
  PackOptions o = options({folder / "b.jsonl.zst"}, folder / "out");
  o.field = "body";
  pack_bytes(o);
  EXPECT_THAT(packed(folder / "out"), ElementsAre("b$"));
}

/// Several megabytes of JSON lines, with documents from nothing to 300 kB.
std::string many_lines() {
  std::mt19937 random(9);
  std::string text;
  for (int i = 0; i < 4000; ++i) {
    const size_t size = i % 500 == 7 ? 300000 : random() % 1500;
    text += "{\"text\": \"" + std::string(size, static_cast<char>('a' + i % 26)) + "\"}\n";
  }
  return text;
}

TEST(Pack, ThreadsAndCompressionDoNotChangeAByte) {
  const TemporaryFolder folder;
  const std::string text = many_lines();
  write_text(folder / "t.jsonl", text);
  write_text(folder / "t.jsonl.gz", gzip(text));
  write_text(folder / "t.jsonl.zst", zstd(text));
  std::string bin;
  std::string idx;
  for (const char* name : {"t.jsonl", "t.jsonl.gz", "t.jsonl.zst"}) {
    for (const int threads : {1, 2, 3}) {
      PackOptions o = options({folder / name}, folder / "out");
      o.threads = threads;
      EXPECT_EQ(pack_bytes(o).documents, 4000);
      if (bin.empty()) {
        bin = read_file(folder / "out.bin");
        idx = read_file(folder / "out.idx");
      }
      EXPECT_TRUE(read_file(folder / "out.bin") == bin) << name << " " << threads;
      EXPECT_TRUE(read_file(folder / "out.idx") == idx) << name << " " << threads;
    }
  }
}

TEST(Pack, SlowThreadsDoNotChangeTheOrder) {
  const TemporaryFolder folder;
  std::string text;
  std::vector<std::filesystem::path> inputs;
  std::vector<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    inputs.push_back(write_text(folder / fmt::format("{}.txt", i), fmt::format("{}", i)));
    expected.push_back(fmt::format("{}$", i));
  }
  PackOptions o = options(inputs, folder / "out");
  o.threads = 3;
  std::atomic<int> made = 0;
  const EncoderFactory uneven = [&made] {
    return [nap = 3 * made++](std::string_view bytes, std::vector<int32_t>& ids) {
      std::this_thread::sleep_for(std::chrono::milliseconds(nap));
      byte_encoder()(bytes, ids);
    };
  };
  pack_with(uneven, 257, kEnd, o);
  EXPECT_EQ(packed(folder / "out"), expected);
}

TEST(Pack, WidthFollowsTheVocabulary) {
  const TemporaryFolder folder;
  const PackOptions o = options({write_text(folder / "a.txt", "a")}, folder / "out");
  pack_bytes(o, 65499);
  EXPECT_EQ(IndexedDataset(folder / "out").token_type(), TokenType::u16);
  pack_bytes(o, 65500);
  EXPECT_EQ(IndexedDataset(folder / "out").token_type(), TokenType::i32);
}

TEST(Pack, FailureKeepsTheOldCorpusAndLeavesNothing) {
  const TemporaryFolder folder;
  write_text(folder / "good.txt", "good");
  pack_bytes(options({folder / "good.txt"}, folder / "out"));
  const std::string bin = read_file(folder / "out.bin");
  const std::string text = many_lines();
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"bad.jsonl", text + "{\"text\": 1}\n" + text},
      {"bad.txt", "a\xff"},
      {"bad.jsonl.gz", gzip(text).substr(0, 5000)}};
  for (const auto& [name, content] : faults) {
    write_text(folder / name, content);
    EXPECT_THAT(error_of([&, &name = name] {
                  pack_bytes(options({folder / "good.txt", folder / name}, folder / "out"));
                }),
                AllOf(StartsWith("2: "), HasSubstr(name)));
    std::filesystem::remove(folder / name);
    EXPECT_TRUE(read_file(folder / "out.bin") == bin);
    EXPECT_THAT(folder.names(), ElementsAre("good.txt", "out.bin", "out.fingerprint", "out.idx"));
  }
}

TEST(Pack, FirstFaultInTheInputIsTheOneReported) {
  const TemporaryFolder folder;
  std::string text = many_lines();
  write_text(folder / "a.jsonl", text + "{}\n" + text + "[]\n" + text);
  for (const int threads : {1, 2, 3}) {
    PackOptions o = options({folder / "a.jsonl"}, folder / "out");
    o.threads = threads;
    EXPECT_THAT(error_of([&] { pack_bytes(o); }), HasSubstr("a.jsonl:4001: no field"));
  }
}

TEST(Pack, WhatCannotBeMeantIsRefusedBeforeWork) {
  const TemporaryFolder folder;
  const auto text = write_text(folder / "a.txt", "a");
  const auto json = write_text(folder / "a.jsonl", "{\"text\": \"a\"}");
  const auto error = [&](PackOptions o) { return error_of([&] { pack_bytes(o); }); };
  EXPECT_THAT(error(options({}, folder / "out")), StartsWith("2: no input"));
  EXPECT_THAT(error(options({folder / "no"}, folder / "out")), HasSubstr("no such file"));
  EXPECT_THAT(error(options({"-", "-"}, folder / "out")), HasSubstr("only once"));
  EXPECT_THAT(error(options({text}, folder / "no/out")), HasSubstr("no such folder"));
  PackOptions field = options({text}, folder / "out");
  field.field = "text";
  EXPECT_THAT(error(field), HasSubstr("no input is JSON lines"));
  PackOptions mode = options({json}, folder / "out");
  mode.document = DocumentMode::line;
  EXPECT_THAT(error(mode), HasSubstr("all inputs are JSON lines"));
  write_text(text, "");
  EXPECT_THAT(error(options({text}, folder / "out")), HasSubstr("no documents"));
  EXPECT_THAT(folder.names(), ElementsAre("a.jsonl", "a.txt"));
}

TEST(Pack, EncoderThatThrowsEndsThePackWithItsError) {
  const TemporaryFolder folder;
  write_text(folder / "a.jsonl", many_lines());
  const EncoderFactory planted = [] {
    return [](std::string_view text, std::vector<int32_t>&) {
      if (text.size() == 300000) throw UserError("planted");
    };
  };
  EXPECT_THAT(
      error_of([&] { pack_with(planted, 257, kEnd, options({folder / "a.jsonl"}, folder / "o")); }),
      HasSubstr("planted"));
}

TEST(Pack, ProgressEndsAtTheResult) {
  const TemporaryFolder folder;
  write_text(folder / "a.jsonl", many_lines());
  PackProgress last;
  int calls = 0;
  const PackResult result =
      pack_with(byte_encoder, 257, kEnd, options({folder / "a.jsonl"}, folder / "o"),
                [&](const PackProgress& now) {
                  EXPECT_GE(now.documents, last.documents);
                  last = now;
                  ++calls;
                });
  EXPECT_GE(calls, 5);
  EXPECT_EQ(last.documents, result.documents);
  EXPECT_EQ(last.tokens, result.tokens);
  EXPECT_EQ(last.bytes + result.documents, result.tokens);
}

nlohmann::json template_of(const std::vector<const char*>& parts) {
  nlohmann::json single = nlohmann::json::array();
  for (const std::string part : parts) {
    const bool text = part == "A";
    single.push_back({{text ? "Sequence" : "SpecialToken", {{"id", part}, {"type_id", 0}}}});
  }
  nlohmann::json tokens = nlohmann::json::object();
  for (const auto& [name, id] : {std::pair{"<|endoftext|>", 256}, std::pair{"[CLS]", 257}})
    tokens[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", nlohmann::json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                          {{"Sequence", {{"id", "B"}, {"type_id", 0}}}}})},
          {"special_tokens", tokens}};
}

TEST(Pack, DocumentsStandBetweenTheSpecialTokensOfTheTokenizer) {
  const TemporaryFolder folder;
  write_text(folder / "a.txt", "xy\nz\n");
  nlohmann::json json = text::small_tokenizer({});
  nlohmann::json cls = json["added_tokens"][0];
  cls["id"] = 257;
  cls["content"] = "[CLS]";
  json["added_tokens"].push_back(cls);
  const auto ids = [&](const std::vector<const char*>& parts, bool special_tokens) {
    json["post_processor"] = template_of(parts);
    PackOptions o = options({folder / "a.txt"}, folder / "out");
    o.document = DocumentMode::line;
    o.special_tokens = special_tokens;
    pack(text::parse(json), o);
    const IndexedDataset corpus(folder / "out");
    std::vector<int32_t> all(static_cast<size_t>(corpus.num_tokens()));
    corpus.read(0, all, 258);
    return all;
  };
  constexpr const char* kTheEnd = "<|endoftext|>";
  EXPECT_THAT(ids({"[CLS]", "A", kTheEnd}, true), ElementsAre(257, 'x', 'y', 256, 257, 'z', 256));
  EXPECT_THAT(ids({"[CLS]", "A"}, true), ElementsAre(257, 'x', 'y', 256, 257, 'z', 256));
  EXPECT_THAT(ids({"[CLS]", "A", kTheEnd}, false), ElementsAre('x', 'y', 256, 'z', 256));
  EXPECT_THAT(error_of([&] { ids({"A"}, true); }), HasSubstr("puts no special tokens"));
}

}  // namespace
}  // namespace megalith::data
