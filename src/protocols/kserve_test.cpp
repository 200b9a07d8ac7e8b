// SPDX-License-Identifier: Apache-2.0
#include "protocols/kserve.h"

#include <gmock/gmock.h>

#include <cstring>

#include "protocols/kserve_tensor.h"
#include "protocols/protocols_fixture.h"

namespace megalith::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json tensor(const char* name, const char* type, const Json& shape, const Json& data) {
  return {{"name", name}, {"datatype", type}, {"shape", shape}, {"data", data}};
}

Json two_rows(const std::vector<Json>& more = {}) {
  Json inputs = Json::array({tensor("input_ids", "UINT32", {2, 3}, {{0, 1, 3}, {4, 0, 0}}),
                             tensor("input_lengths", "UINT32", {2, 1}, {3, 1}),
                             tensor("request_output_len", "UINT32", {2, 1}, {2, 2})});
  for (const Json& one : more) inputs.push_back(one);
  return {{"id", "x\"y"}, {"inputs", inputs}};
}

Prepared infer(const Json& body, int64_t context = 32) {
  ServedModel model = small_model();
  model.context = context;
  return prepare_infer(body.dump(), "", "fastertransformer", model);
}

std::string infer_fault(const Json& body, int64_t context = 32) {
  try {
    infer(body, context);
    return "no fault";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    return error.what();
  }
}

std::vector<Written> two_texts() {
  std::vector<Written> written(2);
  written[0].result = generated("", {1, 2}, {-1, -2}, "length");
  written[1].result = generated("", {6}, {-0.5}, "stop");
  return written;
}

TEST(Infer, ReadsFasterTransformersTensors) {
  const Prepared made =
      infer(two_rows({tensor("runtime_top_k", "UINT32", {2, 1}, {4, 0}),
                      tensor("runtime_top_p", "FP32", {2, 1}, {0.0, 0.5}),
                      tensor("random_seed", "UINT64", {2, 1}, {5, 18446744073709551615u}),
                      tensor("end_id", "UINT32", {2, 1}, {3, 7}),
                      tensor("stop_words_list", "INT32", {2, 2, 2}, {1, 0, 1, -1, 0, 1, 2, -1}),
                      tensor("bad_words_list", "INT32", {2, 2, 2}, {5, 6, 1, 2, 0, 0, -1, -1})}));
  ASSERT_EQ(made.sequences.size(), 2u);
  EXPECT_THAT(made.sequences[0].prompt, ElementsAre(0, 1, 3));
  EXPECT_THAT(made.sequences[1].prompt, ElementsAre(4));
  const auto &first = made.sequences[0].options, &second = made.sequences[1].options;
  EXPECT_EQ(first.max_new_tokens, 2);
  EXPECT_EQ(first.sampling.top_k, 4);
  EXPECT_EQ(first.sampling.top_p, 1);
  EXPECT_EQ(second.sampling.top_k, 0);
  EXPECT_EQ(second.sampling.top_p, 0.5);
  EXPECT_EQ(second.sampling.seed, UINT64_MAX);
  EXPECT_THAT(first.end_ids, ElementsAre(3, 1));
  EXPECT_THAT(second.stop, ElementsAre("ab"));
  EXPECT_THAT(first.sampling.bad_words, ElementsAre(ElementsAre(5), ElementsAre(6)));
  EXPECT_TRUE(second.sampling.bad_words.empty());
}

TEST(Infer, TellsOfParametersThatAreUnknown) {
  Json body = two_rows();
  body["parameters"] = {{"timeout", 2'000'000}, {"binary_data_output", false}, {"sequence_id", 3}};
  const Prepared made = infer(body);
  EXPECT_EQ(made.timeout, 2);
  EXPECT_THAT(made.unknown_fields, ElementsAre("parameters.sequence_id"));
}

TEST(Infer, IsGreedyWithoutTopKAndTopP) {
  EXPECT_EQ(infer(two_rows()).sequences[0].options.sampling.top_k, 1);
}

TEST(Infer, AnswersWithThePromptAndThePadding) {
  const Json body = Json::parse(infer(two_rows()).reply->finish(two_texts()).text);
  EXPECT_EQ(body["id"], "x\"y");
  EXPECT_EQ(body["model_name"], "fastertransformer");
  const Json& outputs = body["outputs"];
  ASSERT_EQ(outputs.size(), 5u);
  EXPECT_EQ(outputs[0]["shape"], Json({2, 1, 5}));
  EXPECT_EQ(outputs[0]["data"], Json({0, 1, 3, 1, 2, 4, 6, 7, 7, 7}));
  EXPECT_EQ(outputs[1]["data"], Json({5, 2}));
  EXPECT_EQ(outputs[2]["data"], Json({3, 1}));
  EXPECT_EQ(outputs[3]["data"], Json({-3.0, -0.5}));
  EXPECT_EQ(outputs[4]["data"], Json({-1.0, -2.0, -0.5, 0.0}));
}

TEST(Infer, SearchesWithBeams) {
  const Prepared made = infer(two_rows({tensor("beam_width", "UINT32", {2, 1}, {2, 2}),
                                        tensor("len_penalty", "FP32", {2, 1}, {0.5, 2}),
                                        tensor("runtime_top_k", "UINT32", {2, 1}, {1, 1})}));
  ASSERT_EQ(made.sequences.size(), 2u);
  const generate::GenerateOptions& options = made.sequences[0].options;
  EXPECT_EQ(options.beams, 2);
  EXPECT_EQ(options.best, 2);
  EXPECT_EQ(options.length_penalty, 0.5);
  EXPECT_EQ(made.sequences[1].options.length_penalty, 2);
  generate::check(options);
  std::vector<Written> written = two_texts();
  written[0].result.others = {generated("", {3}, {-4}, "stop")};
  const Json outputs = Json::parse(made.reply->finish(std::move(written)).text)["outputs"];
  EXPECT_EQ(outputs[0]["shape"], Json({2, 2, 5}));
  // Of the second row one text alone was found.
  EXPECT_EQ(outputs[0]["data"], Json({0, 1, 3, 1, 2, 0, 1, 3, 3, 7, 4, 6, 7, 7, 7, 7, 7, 7, 7, 7}));
  EXPECT_EQ(outputs[1]["data"], Json({5, 4, 2, 0}));
  EXPECT_EQ(outputs[2]["data"], Json({3, 1}));
  EXPECT_EQ(outputs[3]["data"], Json({-3.0, -4.0, -0.5, -9999.0}));
  EXPECT_EQ(outputs[4]["data"], Json({-1.0, -2.0, -4.0, 0.0, -0.5, 0.0, 0.0, 0.0}));
}

TEST(Infer, SpeaksBinaryBothWays) {
  Json body{{"inputs", Json::array()},
            {"outputs", {{{"name", "output_ids"}, {"parameters", {{"binary_data", true}}}}}}};
  std::string bytes;
  const auto add = [&](const char* name, const Json& shape, std::vector<uint32_t> values) {
    body["inputs"].push_back({{"name", name},
                              {"datatype", "UINT32"},
                              {"shape", shape},
                              {"parameters", {{"binary_data_size", values.size() * 4}}}});
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  };
  add("input_ids", {1, 2}, {3, 1});
  add("request_output_len", {1, 1}, {1});
  const std::string json = body.dump();
  const Prepared made =
      prepare_infer(json + bytes, std::to_string(json.size()), "small", small_model());
  EXPECT_THAT(made.sequences.at(0).prompt, ElementsAre(3, 1));
  Written written;
  written.result = generated("", {2}, {-1}, "length");
  const Body answer = made.reply->finish({written});
  ASSERT_EQ(answer.headers.size(), 1u);
  const size_t length = std::stoul(answer.headers[0].second);
  const Json head = Json::parse(answer.text.substr(0, length));
  EXPECT_EQ(head["outputs"][0]["parameters"]["binary_data_size"], 12);
  std::vector<uint32_t> ids(3);
  ASSERT_EQ(answer.text.size(), length + 12);
  std::memcpy(ids.data(), answer.text.data() + length, 12);
  EXPECT_THAT(ids, ElementsAre(3, 1, 2));
  EXPECT_THROW(
      prepare_infer(json + bytes + "x", std::to_string(json.size()), "small", small_model()),
      ApiError);
  for (const char* wrong : {"99999999999999999999", "-1", "0x5", "1000000"})
    EXPECT_THROW(prepare_infer(json + bytes, wrong, "small", small_model()), ApiError) << wrong;
}

TEST(Infer, NamesTheTensorThatIsWrong) {
  EXPECT_THAT(infer_fault({{"inputs", Json::array()}}), HasSubstr("inputs"));
  EXPECT_THAT(infer_fault(two_rows({tensor("what", "UINT32", {2, 1}, {1, 1})})), HasSubstr("what"));
  EXPECT_THAT(infer_fault(two_rows({tensor("input_ids", "UINT32", {1, 1}, {1})})),
              HasSubstr("comes twice"));
  const auto with_ids = [](const Json& shape, const Json& data, const char* type = "UINT32") {
    Json body = two_rows();
    body["inputs"][0] = tensor("input_ids", type, shape, data);
    return infer_fault(body);
  };
  EXPECT_THAT(with_ids({2, 3}, {1, 2, 3, 4, 5}), HasSubstr("5 values"));
  EXPECT_THAT(with_ids({2, 3}, {1, 2, 3, 4, 5, 6, 7}), HasSubstr("more data"));
  EXPECT_THAT(with_ids({2, -5}, {1}), HasSubstr("shape"));
  EXPECT_THAT(with_ids({16, (int64_t{1} << 60) + 2}, {1}), HasSubstr("shape"));
  EXPECT_THAT(with_ids({1, 1, 1, 1, 1, 1, 1, 1, 1}, {1}), HasSubstr("shape"));
  EXPECT_THAT(with_ids(Json::array(), {1}), HasSubstr("input_ids must be"));
  EXPECT_THAT(with_ids({2, 3}, {1, 2, 3, 4, 5, -6}), HasSubstr("no UINT32"));
  EXPECT_THAT(with_ids({2, 3}, {1, 2, 3, 4, 5, 8}), HasSubstr("no fault"));  // beyond its length
  EXPECT_THAT(with_ids({2, 3}, {1, 2, 8, 4, 5, 5}), HasSubstr("no token"));
  EXPECT_THAT(with_ids({2, 3}, {1, 2, 3, 4, 5, 6}, "INT32"), HasSubstr("UINT32"));
  EXPECT_THAT(with_ids({2, 3}, {1, 2, 3, 4, 5, 6}, "FP16"), HasSubstr("FP16"));
  EXPECT_THAT(infer_fault(two_rows({tensor("beam_width", "UINT32", {2, 1}, {4, 3})})),
              HasSubstr("beam_width must be"));
  EXPECT_THAT(infer_fault(two_rows({tensor("beam_width", "UINT32", {2, 1}, {65, 65})})),
              HasSubstr("beam_width must be"));
  Json large = two_rows({tensor("beam_width", "UINT32", {2, 1}, {40, 40})});
  EXPECT_THAT(infer_fault(large, 60'000), HasSubstr("no fault"));
  large["inputs"][2] = tensor("request_output_len", "UINT32", {2, 1}, {52'427, 52'000});
  EXPECT_THAT(infer_fault(large, 60'000), HasSubstr("output_ids would have 4194400 elements"));
  EXPECT_THAT(infer_fault(two_rows({tensor("beam_width", "UINT32", {2, 1}, {2, 2}),
                                    tensor("runtime_top_k", "UINT32", {2, 1}, {4, 4})})),
              HasSubstr("beams draw nothing"));
  EXPECT_THAT(infer_fault(two_rows(
                  {tensor("beam_width", "UINT32", {2, 1}, {2, 2}),
                   tensor("stop_words_list", "INT32", {2, 2, 2}, {0, 1, 2, -1, 0, 1, 2, -1})})),
              HasSubstr("single tokens"));
  EXPECT_THAT(infer_fault(two_rows({tensor("len_penalty", "FP32", {2, 1}, {1, 0})})),
              HasSubstr("no fault"));
  EXPECT_THAT(infer_fault(two_rows({tensor("len_penalty", "FP32", {2, 1}, {1, 0.5})})),
              HasSubstr("len_penalty must be 0 or 1"));
  EXPECT_THAT(
      infer_fault(two_rows({tensor("beam_search_diversity_rate", "FP32", {2, 1}, {0, 0.1})})),
      HasSubstr("beam_search_diversity_rate must be 0"));
  EXPECT_THAT(infer_fault(two_rows({tensor("temperature", "FP32", {2, 1}, {-1, 1})})),
              HasSubstr("temperature"));
  EXPECT_THAT(infer_fault(two_rows({tensor("stop_words_list", "INT32", {2, 2, 1}, {9, 1, 9, 1})})),
              HasSubstr("vocabulary"));
  Json twice = two_rows();
  twice["outputs"] = {{{"name", "output_ids"}}, {{"name", "output_ids"}}};
  EXPECT_THAT(infer_fault(twice), HasSubstr("asked for twice"));
  twice["outputs"] = {{{"name", "logits"}}};
  EXPECT_THAT(infer_fault(twice), HasSubstr("no output 'logits'"));
}

TEST(Kserve, KnowsTheModelByTwoNames) {
  const ServedModel model = small_model();
  require_kserve_model(model, "small", "");
  require_kserve_model(model, "fastertransformer", "1");
  EXPECT_THROW(require_kserve_model(model, "../small", ""), ApiError);
  EXPECT_THROW(require_kserve_model(model, "small", "2"), ApiError);
  EXPECT_EQ(Json::parse(kserve_model_json("small"))["inputs"][0],
            Json({{"name", "input_ids"}, {"datatype", "UINT32"}, {"shape", {-1, -1}}}));
}

TEST(Kserve, GeneratesTextFromText) {
  const Json body{
      {"id", "7"}, {"text_input", "ab"}, {"max_tokens", 3}, {"parameters", {{"temperature", 0}}}};
  const Prepared made = prepare_kserve_generate(body, "small", false, small_model());
  EXPECT_EQ(made.sequences.at(0).options.sampling.temperature, 0);
  EXPECT_EQ(made.sequences[0].options.max_new_tokens, 3);
  Written written;
  written.result.text = "c";
  EXPECT_EQ(made.reply->finish({written}).text,
            R"({"id":"7","model_name":"small","model_version":"1","text_output":"c"})");
}

}  // namespace
}  // namespace megalith::protocols
