// SPDX-License-Identifier: Apache-2.0
#include "protocols/text_form.h"

#include <gmock/gmock.h>

#include "protocols/chat_completion.h"
#include "protocols/completion.h"
#include "protocols/kserve.h"
#include "protocols/protocols_fixture.h"

namespace megalith::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Prepared form_prepared(const Json& changes, const ServedModel& model = small_model()) {
  Json body{{"model", "small"}, {"prompt", "ab c"}};
  body.update(changes);
  return prepare_completion(body, model);
}

/// The field that is wrong and why.
std::pair<std::string, std::string> form_fault(const Json& changes) {
  try {
    form_prepared(changes);
    return {"", "no fault"};
  } catch (const ApiError& error) {
    return {error.param(), error.what()};
  }
}

/// The ids that may come first.
std::vector<int32_t> first_ids(const PreparedSequence& sequence) {
  uint64_t mask = 0;
  sequence.allowed->mask(std::span(&mask, 1));
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < 64; ++id)
    if ((mask >> id & 1) != 0) ids.push_back(id);
  return ids;
}

TEST(TextForm, IsNoneUnlessAskedFor) {
  EXPECT_EQ(form_prepared(Json::object()).sequences[0].allowed, nullptr);
  EXPECT_EQ(form_prepared({{"response_format", {{"type", "text"}}}}).sequences[0].allowed, nullptr);
  EXPECT_EQ(form_prepared({{"structured_outputs", Json::object()}}).sequences[0].allowed, nullptr);
}

// Of the small vocabulary a, b, "ab", c, a space, "?", an e with an accent.
TEST(TextForm, HoldsTheFirstToken) {
  const auto allowed = [](const Json& changes) {
    return first_ids(form_prepared(changes).sequences.at(0));
  };
  EXPECT_THAT(allowed({{"guided_choice", {"abc", "c", "?"}}}), ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(allowed({{"guided_regex", "b+|a"}}), ElementsAre(0, 1));
  EXPECT_THAT(allowed({{"structured_outputs", {{"choice", {"b"}}}}}), ElementsAre(1));
  EXPECT_THAT(allowed({{"structured_outputs", {{"regex", "c"}}}}), ElementsAre(3));
  // JSON's first byte is none that this vocabulary has.
  EXPECT_THAT(allowed({{"response_format", {{"type", "json_object"}}}}), IsEmpty());
  EXPECT_THAT(allowed({{"structured_outputs", {{"json_object", true}}}}), IsEmpty());
  EXPECT_THAT(allowed({{"guided_json", {{"type", "string"}}}}), IsEmpty());
}

TEST(TextForm, IsTheSameForTheSameSchema) {
  const ServedModel model = small_model();
  const Json schema{{"type", "object"}, {"properties", {{"a", {{"type", "integer"}}}}}};
  const Json named{{"name", "n"}, {"strict", true}, {"schema", schema}};
  const auto form = [&](const Json& changes) {
    const Json body = changes;
    Fields fields(body);
    return read_text_form(fields, model);
  };
  const TextForm first = form({{"guided_json", schema}});
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(form({{"guided_json", schema.dump()}}), first);
  EXPECT_EQ(form({{"response_format", {{"type", "json_schema"}, {"json_schema", named}}}}), first);
  EXPECT_EQ(form({{"structured_outputs", {{"json", schema}}}}), first);
  EXPECT_NE(form({{"guided_json", {{"type", "object"}}}}), first);
  EXPECT_NE(form({{"guided_regex", "a"}}), form({{"guided_choice", {"a"}}}));
}

TEST(TextForm, OfAllTextsOfARequestAndOfEveryInterface) {
  const Json choice{{"guided_choice", {"c"}}};
  const Prepared several =
      form_prepared({{"guided_choice", {"c"}}, {"n", 2}, {"prompt", {"a", "b"}}});
  ASSERT_EQ(several.sequences.size(), 4u);
  for (const PreparedSequence& sequence : several.sequences)
    EXPECT_THAT(first_ids(sequence), ElementsAre(3));
  Json chat{{"model", "small"}, {"messages", {{{"role", "user"}, {"content", "ab"}}}}};
  chat.update(choice);
  EXPECT_THAT(first_ids(prepare_chat_completion(chat, small_model()).sequences.at(0)),
              ElementsAre(3));
  const Json triton{{"text_input", "ab"}, {"parameters", choice}};
  EXPECT_THAT(
      first_ids(prepare_kserve_generate(triton, "small", false, small_model()).sequences.at(0)),
      ElementsAre(3));
}

TEST(TextForm, NamesTheFieldAndThePlaceThatIsWrong) {
  const auto schema = [](const Json& json) {
    return Json{{"response_format",
                 {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", json}}}}}};
  };
  const Json deep{{"type", "object"}, {"properties", {{"age", {{"multipleOf", 5}}}}}};
  const auto [field, why] = form_fault(schema(deep));
  EXPECT_EQ(field, "response_format.json_schema.schema");
  EXPECT_THAT(why, HasSubstr("#/properties/age"));
  EXPECT_THAT(why, HasSubstr("multipleOf"));
  const std::vector<std::pair<const char*, Json>> wrong{
      {"response_format", {{"response_format", 5}}},
      {"response_format.type", {{"response_format", Json::object()}}},
      {"response_format.type", {{"response_format", {{"type", "xml"}}}}},
      {"response_format.json_schema", {{"response_format", {{"type", "json_schema"}}}}},
      {"response_format.json_schema.schema",
       {{"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "n"}}}}}}},
      {"response_format.json_schema.strict",
       {{"response_format", {{"type", "json_schema"}, {"json_schema", {{"strict", 1}}}}}}},
      {"guided_json", {{"guided_json", 5}}},
      {"guided_json", {{"guided_json", "{"}}},
      {"guided_json", {{"guided_json", {{"type", "king"}}}}},
      {"guided_regex", {{"guided_regex", "("}}},
      {"guided_regex", {{"guided_regex", 5}}},
      {"guided_choice", {{"guided_choice", Json::array()}}},
      {"guided_choice", {{"guided_choice", {1}}}},
      {"guided_choice", {{"guided_choice", "a"}}},
      {"guided_grammar", {{"guided_grammar", "root ::= x"}}},
      {"guided_whitespace_pattern", {{"guided_whitespace_pattern", " "}}},
      {"structured_outputs", {{"structured_outputs", "x"}}},
      {"structured_outputs.regex", {{"structured_outputs", {{"regex", "["}}}}},
      {"structured_outputs.grammar", {{"structured_outputs", {{"grammar", "x"}}}}},
      {"guided_regex", {{"guided_regex", "a"}, {"structured_outputs", {{"regex", "a"}}}}},
      {"structured_outputs.choice", {{"structured_outputs", {{"regex", "a"}, {"choice", {"a"}}}}}},
      {"guided_choice", {{"guided_choice", {"a"}}, {"guided_json", true}}}};
  for (const auto& [param, changes] : wrong)
    EXPECT_EQ(form_fault(changes).first, param) << changes.dump();
}

TEST(TextForm, AsManyAtOnceAsMayBe) {
  ServedModel model = small_model();
  model.grammars = std::make_shared<grammars::MatcherCache>(
      small_tokenizer(), grammars::MatcherCache::Limits{.grammars = 1});
  std::optional<Prepared> first = form_prepared({{"guided_regex", "a"}}, model);
  try {
    form_prepared({{"guided_regex", "b"}}, model);
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 503);
    EXPECT_EQ(error.retry_after(), 1);
  }
  first.reset();
  EXPECT_NE(form_prepared({{"guided_regex", "b"}}, model).sequences[0].allowed, nullptr);
}

}  // namespace
}  // namespace megalith::protocols
