// SPDX-License-Identifier: Apache-2.0
#include "tune/prompt_start.h"

#include <gmock/gmock.h>

#include <array>
#include <bit>
#include <map>
#include <set>

#include "checkpoint/safetensors_writer.h"
#include "families/hugging_face.h"
#include "store/convert_fixture.h"
#include "tune/file_fixture.h"

namespace megalith::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

config::TuneSection section(int64_t count, config::PromptInit init, const std::string& text = "") {
  config::TuneSection tune;
  tune.virtual_tokens = count;
  tune.prompt_init = init;
  tune.prompt_text = text;
  return tune;
}

class PromptStart : public FileTest {
 protected:
  std::vector<int32_t> ids(const config::TuneSection& tune, int64_t vocab = 20000,
                           uint64_t seed = 1) const {
    return first_tokens(tune, tokenizer_, vocab, seed);
  }
};

TEST_F(PromptStart, ATextIsTakenAgainAndAgain) {
  using config::PromptInit;
  EXPECT_THAT(ids(section(5, PromptInit::text, "xab")), ElementsAre('x', 256, 'x', 256, 'x'));
  EXPECT_THAT(ids(section(1, PromptInit::text, "xab")), ElementsAre('x'));
  EXPECT_THAT(ids(section(5, PromptInit::random)), IsEmpty());
}

/// As PEFT's prompt_tuning_init_text, which its tokenizer reads as any text.
TEST_F(PromptStart, ATextBeginsWithTheTokensThatTheTokenizerAdds) {
  nlohmann::json json = text::small_tokenizer({});
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair",
       {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
      {"special_tokens",
       {{"<|endoftext|>",
         {{"id", "<|endoftext|>"}, {"ids", {256}}, {"tokens", {"<|endoftext|>"}}}}}}};
  const auto tune = section(5, config::PromptInit::text, "xy");
  EXPECT_THAT(first_tokens(tune, text::parse(json), 257, 1), ElementsAre(256, 'x', 'y', 256, 'x'));
}

TEST_F(PromptStart, TokensOfATextThatTheModelHasNotAreRefused) {
  const auto tune = section(1, config::PromptInit::text, "xab");
  EXPECT_THAT(ids(tune, 257), ElementsAre('x'));
  EXPECT_THAT(fault_of([&] { ids(tune, 256); }),
              HasSubstr("tune.prompt_text has token 256, and the model has 256 tokens"));
}

/// Of several tasks each begins with its own text, or the common one.
TEST_F(PromptStart, TasksHaveTextsOfTheirOwn) {
  auto tune = section(3, config::PromptInit::text, "xy");
  tune.tasks = {{.name = "a"}, {.name = "b", .prompt_text = "zab"}};
  EXPECT_THAT(ids(tune), ElementsAre('x', 'y', 'x', 'z', 256, 'z'));
  EXPECT_THAT(fault_of([&] { ids(tune, 256); }),
              HasSubstr("tune.tasks.1.prompt_text has token 256"));
}

TEST_F(PromptStart, AnotherTaskChangesNoneBeforeIt) {
  auto tune = section(20, config::PromptInit::vocabulary);
  const std::vector<int32_t> one = ids(tune);
  tune.tasks = {{.name = "a"}, {.name = "b"}};
  const std::vector<int32_t> two = ids(tune);
  ASSERT_EQ(two.size(), 40u);
  EXPECT_EQ(std::vector(two.begin(), two.begin() + 20), one);
  EXPECT_NE(std::vector(two.begin() + 20, two.end()), one);
}

class PromptRows : public store::ConvertFolders {
 protected:
  /// Numbers that bf16 has, too.
  static float value_of(int64_t element) { return static_cast<float>(element % 97) * 0x1p-7F; }
  static checkpoint::TensorContent tensor(const std::string& name, const Shape& shape,
                                          DType dtype) {
    std::vector<std::byte> bytes;
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      const auto word = std::bit_cast<std::array<std::byte, 4>>(value_of(i));
      bytes.insert(bytes.end(), word.begin() + (dtype == DType::bf16 ? 2 : 0), word.end());
    }
    return {name, dtype, shape, [bytes](checkpoint::TensorContent::Sink sink) { sink(bytes); }};
  }
  store::ModelSource model(const models::ModelSpec& spec, DType dtype) const {
    const std::filesystem::path path = folder_ / spec.family / (dtype == DType::bf16 ? "b" : "f");
    std::filesystem::create_directories(path);
    std::map<std::string, Shape> shapes;
    const models::ForeignTable& table = models::family_named(spec.family, "test").tensors;
    for (const models::TensorMap& map : models::tensor_maps(spec, table))
      for (const models::RowMove& move : map.moves) shapes.emplace(move.name, move.shape);
    std::vector<checkpoint::TensorContent> list;
    for (const auto& [name, shape] : shapes) list.push_back(tensor(name, shape, dtype));
    checkpoint::write_safetensors(path / "model.safetensors", list);
    put(path / "config.json",
        models::hugging_face_config(spec, dtype, {}, std::nullopt, std::nullopt));
    return store::ModelSource::open(path);
  }
};

TEST_F(PromptRows, AreThoseOfTheTableBehindItsScale) {
  for (const char* const family : {"gpt2", "gemma"}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const models::ModelSpec spec =
          models::family_named(family, "test")
              .make({.layers = 1, .hidden = 32, .heads = 4, .ffn = 48, .context = 24, .vocab = 131},
                    "test");
      const store::ModelSource source = model(spec, dtype);
      ASSERT_EQ(source.weights().find("embedding.weight")->dtype, dtype);
      const std::vector<int32_t> ids = {130, 0, 7, 130};
      const std::vector<float> rows = rows_of_tokens(source, ids);
      ASSERT_EQ(rows.size(), 4u * 32);
      const auto scale = static_cast<float>(source.spec().embedding.scale);
      EXPECT_EQ(scale != 1, std::string_view(family) == "gemma");
      for (size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i], value_of(ids[i / 32] * 32 + static_cast<int64_t>(i % 32)) * scale)
            << family << " " << i;
      }
    }
  }
}

TEST_F(PromptStart, TheVocabularyIsDrawnFromAsTheSeedSays) {
  const auto tune = section(2000, config::PromptInit::vocabulary);
  const std::vector<int32_t> drawn = ids(tune);
  EXPECT_EQ(drawn, ids(tune));
  EXPECT_NE(drawn, ids(tune, 20000, 2));
  const std::set<int32_t> different(drawn.begin(), drawn.end());
  EXPECT_GE(*different.begin(), 0);
  EXPECT_LT(*different.rbegin(), 5000);
  EXPECT_GT(*different.rbegin(), 4900);
  EXPECT_GT(different.size(), 1500u);
  for (const int32_t id : ids(tune, 7)) EXPECT_LT(id, 7);
}

TEST(VirtualMark, StandsAtTheBeginningAlone) {
  EXPECT_EQ(without_virtual_mark("<|VIRTUAL_PROMPT_0|>Q: {q} {a}", "tune.template", true),
            "Q: {q} {a}");
  EXPECT_EQ(without_virtual_mark("Q: {q} {a}", "tune.template", true), "Q: {q} {a}");
  EXPECT_EQ(without_virtual_mark("Q: {q} {a}", "tune.template", false), "Q: {q} {a}");
  for (const char* const text : {"Q: <|VIRTUAL_PROMPT_0|>{q} {a}", "<|VIRTUAL_PROMPT_1|>{q} {a}",
                                 "<|VIRTUAL_PROMPT_0|>{q}<|VIRTUAL_PROMPT_1|> {a}"}) {
    EXPECT_THAT(fault_of([&] { without_virtual_mark(text, "tune.template", true); }),
                HasSubstr("stand before the text"))
        << text;
  }
  EXPECT_THAT(
      fault_of([] { without_virtual_mark("<|VIRTUAL_PROMPT_0|>{q} {a}", "tune.template", false); }),
      HasSubstr("are for tune.method: prompt"));
  EXPECT_THAT(fault_of([] { without_virtual_mark("<|VIRTUAL_PROMPT_0|>", "tune.template", true); }),
              HasSubstr("tune.template has no text after <|VIRTUAL_PROMPT_0|>"));
}

TEST(VirtualMark, EachStandsOnceWhereTheyAreSplit) {
  const auto fault = [](const char* text) {
    return fault_of([=] { require_virtual_marks(text, "tune.template", 2); });
  };
  EXPECT_EQ(fault("a<|VIRTUAL_PROMPT_0|>{q}<|VIRTUAL_PROMPT_1|> {a}"), "no fault");
  EXPECT_EQ(fault("<|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_1|>{a}"), "no fault");
  EXPECT_THAT(fault("{q} {a}"), HasSubstr("tune.template has no <|VIRTUAL_PROMPT_0|>"));
  EXPECT_THAT(fault("<|VIRTUAL_PROMPT_0|>{a}"), HasSubstr("has no <|VIRTUAL_PROMPT_1|>"));
  EXPECT_THAT(fault("<|VIRTUAL_PROMPT_1|><|VIRTUAL_PROMPT_0|>{a}"),
              HasSubstr("has no <|VIRTUAL_PROMPT_0|>"));
  EXPECT_THAT(fault("<|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_1|><|VIRTUAL_PROMPT_2|>{a}"),
              HasSubstr("has more marks than"));
}

TEST(VirtualMark, IsNoneOfAChatTemplate) {
  EXPECT_EQ(fault_of([] { refuse_virtual_mark("{{ messages }}", "tune.template", "a.jinja"); }),
            "no fault");
  EXPECT_THAT(fault_of([] {
                refuse_virtual_mark("<|VIRTUAL_PROMPT_0|>{{ messages }}", "tune.template",
                                    "a.jinja");
              }),
              HasSubstr("tune.template a.jinja: has <|VIRTUAL_PROMPT_..."));
}

}  // namespace
}  // namespace megalith::tune
