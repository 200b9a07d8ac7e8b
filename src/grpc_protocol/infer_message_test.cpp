// SPDX-License-Identifier: Apache-2.0
#include "grpc_protocol/infer_message.h"

#include <gmock/gmock.h>

#include "grpc_protocol/infer_message_fixture.h"
#include "grpc_protocol/methods.h"
#include "grpc_protocol/wire_values.h"
#include "protocols/protocols_fixture.h"

namespace megalith::grpc_protocol {
namespace {

using ::inference::ModelInferRequest;
using protocols::ApiError;
using protocols::Prepared;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Prepared prepared(const ModelInferRequest& request, bool streams = false) {
  InferNames names;
  Prepared made =
      prepare_infer_message(request.SerializeAsString(), protocols::small_model(), streams, names);
  EXPECT_EQ(names.id, request.id());
  EXPECT_EQ(names.adapter, "");
  return made;
}

std::string fault_of(const std::string& message) {
  try {
    InferNames names;
    prepare_infer_message(message, protocols::small_model(), false, names);
    return "no fault";
  } catch (const ApiError& error) {
    return error.what();
  }
}
std::string fault_of(const ModelInferRequest& request) {
  return fault_of(request.SerializeAsString());
}

::inference::ModelInferResponse answer_of(const Prepared& made,
                                          std::vector<protocols::Written> written) {
  ::inference::ModelInferResponse response;
  EXPECT_TRUE(response.ParseFromString(made.reply->finish(std::move(written)).text));
  return response;
}

std::vector<protocols::Written> one_text() {
  std::vector<protocols::Written> written(1);
  written[0].result = protocols::generated("", {1, 3}, {-1, -0.3}, "length");
  return written;
}

TEST(InferMessage, ReadsEveryTypeOfContents) {
  struct Case {
    const char* datatype;
    void (*put)(::inference::InferTensorContents&);
    std::string raw;
  };
  using Contents = ::inference::InferTensorContents;
  const Case cases[] = {
      {"BOOL", [](Contents& c) { c.add_bool_contents(true); }, std::string(1, '\1')},
      {"UINT8", [](Contents& c) { c.add_uint_contents(255); }, raw_bytes<uint8_t>({255})},
      {"UINT16", [](Contents& c) { c.add_uint_contents(65535); }, raw_bytes<uint16_t>({65535})},
      {"UINT32", [](Contents& c) { c.add_uint_contents(UINT32_MAX); },
       raw_bytes<uint32_t>({UINT32_MAX})},
      {"UINT64", [](Contents& c) { c.add_uint64_contents(UINT64_MAX); },
       raw_bytes<uint64_t>({UINT64_MAX})},
      {"INT8", [](Contents& c) { c.add_int_contents(-128); }, raw_bytes<int8_t>({-128})},
      {"INT16", [](Contents& c) { c.add_int_contents(-32768); }, raw_bytes<int16_t>({-32768})},
      {"INT32", [](Contents& c) { c.add_int_contents(INT32_MIN); },
       raw_bytes<int32_t>({INT32_MIN})},
      {"INT64", [](Contents& c) { c.add_int64_contents(INT64_MIN); },
       raw_bytes<int64_t>({INT64_MIN})},
      {"FP32", [](Contents& c) { c.add_fp32_contents(0.1F); }, raw_bytes<float>({0.1F})},
      {"FP64", [](Contents& c) { c.add_fp64_contents(0.1); }, raw_bytes<double>({0.1})},
      {"BYTES", [](Contents& c) { c.add_bytes_contents("ab"); }, raw_bytes<uint32_t>({2}) + "ab"}};
  for (const Case& one : cases) {
    ModelInferRequest typed, raw;
    one.put(*add_input(typed, "x", one.datatype, {1}).mutable_contents());
    add_input(raw, "x", one.datatype, {1});
    raw.add_raw_input_contents(one.raw);
    const auto first = request_of(typed), second = request_of(raw);
    EXPECT_EQ(first.inputs.at(0).data, second.inputs.at(0).data) << one.datatype;
    EXPECT_EQ(first.inputs[0].elements(), 1);
    EXPECT_FALSE(first.all_binary);
    EXPECT_TRUE(second.all_binary);
  }
}

TEST(InferMessage, IsTheSequenceThatHttpMakes) {
  for (const bool raw : {false, true}) {
    ModelInferRequest request = small_request(raw);
    request.set_model_name("fastertransformer");
    (*request.mutable_parameters())["timeout"].set_int64_param(2'000'000);
    (*request.mutable_parameters())["priority"].set_uint64_param(1);
    (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
    const Prepared made = prepared(request);
    EXPECT_THAT(made.sequences.at(0).prompt, ElementsAre(2, 4, 3));
    EXPECT_EQ(made.sequences[0].options.max_new_tokens, 2);
    EXPECT_EQ(made.sequences[0].options.sampling.top_k, 1);
    EXPECT_EQ(made.timeout, 2);
    EXPECT_THAT(made.unknown_fields, ElementsAre("parameters.priority"));
  }
}

TEST(InferMessage, NamesTheAdapterThatItAsksFor) {
  protocols::ServedModel model = protocols::small_model();
  protocols::add_adapters(model, std::vector<std::string>{"sql"});
  ModelInferRequest request = small_request();
  for (const char* name : {"small", "sql"}) {
    request.set_model_name(name);
    InferNames names;
    prepare_infer_message(request.SerializeAsString(), model, false, names);
    EXPECT_EQ(names.adapter, std::string_view(name) == "sql" ? "sql" : "");
  }
}

TEST(InferMessage, AnswersAsItWasAsked) {
  const auto typed = answer_of(prepared(small_request(false)), one_text());
  const auto raw = answer_of(prepared(small_request(true)), one_text());
  EXPECT_EQ(typed.id(), "7");
  EXPECT_EQ(typed.model_name(), "small");
  EXPECT_EQ(typed.raw_output_contents_size(), 0);
  ASSERT_EQ(typed.outputs_size(), 5);
  EXPECT_EQ(typed.outputs(0).name(), "output_ids");
  EXPECT_THAT(typed.outputs(0).shape(), ElementsAre(1, 1, 5));
  EXPECT_THAT(typed.outputs(0).contents().uint_contents(), ElementsAre(2, 4, 3, 1, 3));
  EXPECT_THAT(typed.outputs(1).contents().uint_contents(), ElementsAre(5));
  EXPECT_THAT(typed.outputs(2).contents().int_contents(), ElementsAre(3));
  EXPECT_THAT(typed.outputs(3).contents().fp32_contents(), ElementsAre(static_cast<float>(-1.3)));
  EXPECT_THAT(typed.outputs(4).contents().fp32_contents(), ElementsAre(-1.0F, -0.3F));
  ASSERT_EQ(raw.raw_output_contents_size(), 5);
  EXPECT_FALSE(raw.outputs(0).has_contents());
  EXPECT_EQ(raw.raw_output_contents(0), raw_bytes<uint32_t>({2, 4, 3, 1, 3}));
  EXPECT_EQ(raw.raw_output_contents(4), raw_bytes<float>({-1.0F, -0.3F}));
  ModelInferRequest one = small_request(true);
  one.add_outputs()->set_name("sequence_length");
  const auto alone = answer_of(prepared(one), one_text());
  ASSERT_EQ(alone.outputs_size(), 1);
  EXPECT_EQ(alone.raw_output_contents(0), raw_bytes<uint32_t>({5}));
}

TEST(InferMessage, StreamsTokensAndThenTheWhole) {
  ModelInferRequest request = small_request(true);
  const Prepared made = prepared(request, true);
  const auto read = [](const std::string& bytes) {
    ::inference::ModelStreamInferResponse response;
    EXPECT_TRUE(response.ParseFromString(bytes));
    EXPECT_EQ(response.error_message(), "");
    return response.infer_response();
  };
  ASSERT_TRUE(made.reply->streams);
  EXPECT_EQ(made.reply->begin(), "");
  const auto first = read(made.reply->on_token(0, {{1, -1}, {}, "b"}));
  const auto second = read(made.reply->on_token(0, {{3, -0.3}, {}, "c"}));
  EXPECT_EQ(made.reply->on_end(0, {}), "");
  EXPECT_EQ(first.id(), "7");
  EXPECT_FALSE(first.parameters().at("triton_final_response").bool_param());
  EXPECT_EQ(first.parameters().at("sequence_index").int64_param(), 0);
  EXPECT_THAT(first.outputs(0).shape(), ElementsAre(1, 1, 1));
  EXPECT_EQ(first.raw_output_contents(0), raw_bytes<uint32_t>({1}));
  EXPECT_EQ(second.raw_output_contents(0), raw_bytes<uint32_t>({3}));
  EXPECT_EQ(second.raw_output_contents(1), raw_bytes<uint32_t>({5}));
  EXPECT_EQ(second.raw_output_contents(2), raw_bytes<int32_t>({3}));
  EXPECT_EQ(second.raw_output_contents(3), raw_bytes<float>({static_cast<float>(-1.3)}));
  EXPECT_EQ(second.raw_output_contents(4), raw_bytes<float>({-0.3F}));
  auto last = read(made.reply->finish(one_text()).text);
  EXPECT_TRUE(last.parameters().at("triton_final_response").bool_param());
  EXPECT_EQ(last.parameters().count("sequence_index"), 0u);
  last.clear_parameters();
  EXPECT_EQ(last.SerializeAsString(),
            answer_of(prepared(small_request(true)), one_text()).SerializeAsString());
  ::inference::ModelStreamInferResponse broken;
  ASSERT_TRUE(broken.ParseFromString(made.reply->broken_off(ApiError("", "no\nmore"))));
  EXPECT_EQ(broken.error_message(), "no more");
  EXPECT_EQ(broken.infer_response().id(), "7");
}

TEST(InferMessage, StreamsOfASearchItsEndAlone) {
  ModelInferRequest request = small_request();
  add_whole(request, "beam_width", {1, 1}, {3});
  const Prepared made = prepared(request, true);
  EXPECT_EQ(made.reply->on_token(0, {{1, -1}, {}, "b"}), "");
  auto written = one_text();
  written[0].result.others = {protocols::generated("", {3}, {-2}, "stop")};
  ::inference::ModelStreamInferResponse last;
  ASSERT_TRUE(last.ParseFromString(made.reply->finish(std::move(written)).text));
  const ::inference::ModelInferResponse& whole = last.infer_response();
  EXPECT_TRUE(whole.parameters().at("triton_final_response").bool_param());
  EXPECT_THAT(whole.outputs(0).shape(), ElementsAre(1, 3, 5));
  EXPECT_THAT(whole.outputs(0).contents().uint_contents(),
              ElementsAre(2, 4, 3, 1, 3, 2, 4, 3, 3, 7, 7, 7, 7, 7, 7));
  EXPECT_THAT(whole.outputs(1).contents().uint_contents(), ElementsAre(5, 4, 0));
  EXPECT_THAT(whole.outputs(3).contents().fp32_contents(), ElementsAre(-1.3F, -2, -9999));
}

TEST(InferMessage, NamesWhatIsWrong) {
  const auto with = [](void (*change)(ModelInferRequest&), bool raw = false) {
    ModelInferRequest request = small_request(raw);
    change(request);
    return fault_of(request);
  };
  EXPECT_EQ(fault_of(small_request()), "no fault");
  EXPECT_THAT(fault_of("\x0a\x05"
                       "ab"),
              HasSubstr("no ModelInferRequest"));
  EXPECT_THAT(fault_of("\x0a\x01\xff"), HasSubstr("no ModelInferRequest"));  // no UTF-8
  EXPECT_THAT(fault_of(ModelInferRequest()), HasSubstr("inputs"));
  EXPECT_THAT(with([](auto& r) { r.set_model_name("other"); }), HasSubstr("no model 'other'"));
  EXPECT_THAT(with([](auto& r) { r.set_model_version("2"); }), HasSubstr("version 2"));
  EXPECT_THAT(with([](auto& r) { r.set_id(std::string(257, 'x')); }), HasSubstr("id is longer"));
  EXPECT_THAT(with([](auto& r) { r.mutable_inputs(0)->clear_name(); }), HasSubstr("no name"));
  EXPECT_THAT(with([](auto& r) { r.mutable_inputs(0)->set_datatype("FP16"); }), HasSubstr("FP16"));
  EXPECT_THAT(with([](auto& r) { r.mutable_inputs(0)->set_shape(1, -3); }), HasSubstr("shape"));
  EXPECT_THAT(with([](auto& r) { r.mutable_inputs(0)->set_shape(1, 4); }), HasSubstr("3 values"));
  EXPECT_THAT(with([](auto& r) { r.mutable_inputs(0)->set_shape(1, int64_t{1} << 62); }),
              HasSubstr("shape"));
  EXPECT_THAT(with([](auto& r) {
                for (int i = 0; i < 9; ++i) r.mutable_inputs(0)->add_shape(1);
              }),
              HasSubstr("at most 8"));
  EXPECT_THAT(with([](auto& r) { *r.add_inputs() = r.inputs(0); }), HasSubstr("comes twice"));
  EXPECT_THAT(with([](auto& r) { r.add_outputs()->set_name("logits"); }), HasSubstr("'logits'"));
  EXPECT_THAT(with([](auto& r) {
                for (int i = 0; i < 2; ++i) r.add_outputs()->set_name("output_ids");
              }),
              HasSubstr("asked for twice"));
  EXPECT_THAT(with([](auto& r) { r.mutable_inputs(0)->mutable_contents()->add_int_contents(1); }),
              HasSubstr("not those of UINT32"));
  EXPECT_THAT(with([](auto& r) {
                add_input(r, "x", "UINT8", {1}).mutable_contents()->add_uint_contents(256);
              }),
              HasSubstr("256 is no UINT8"));
  EXPECT_THAT(with([](auto& r) {
                add_input(r, "x", "INT16", {1}).mutable_contents()->add_int_contents(-32769);
              }),
              HasSubstr("-32769 is no INT16"));
  EXPECT_THAT(with([](auto& r) { r.mutable_raw_input_contents()->RemoveLast(); }, true),
              HasSubstr("1 for 2 inputs"));
  EXPECT_THAT(with([](auto& r) { r.set_raw_input_contents(0, "abc"); }, true),
              HasSubstr("3 bytes are no UINT32"));
  EXPECT_THAT(
      with([](auto& r) { r.mutable_inputs(0)->mutable_contents()->add_uint_contents(1); }, true),
      HasSubstr("either contents or raw_input_contents"));
  for (const bool output : {false, true}) {
    ModelInferRequest request = small_request();
    auto& parameters = output ? *request.add_outputs()->mutable_parameters()
                              : *request.mutable_inputs(0)->mutable_parameters();
    parameters["shared_memory_region"].set_string_param("x");
    if (output) request.mutable_outputs(0)->set_name("output_ids");
    EXPECT_THAT(fault_of(request), HasSubstr("shares no memory"));
  }
  EXPECT_THAT(with([](auto& r) {
                for (int i = 0; i < 1025; ++i)
                  (*r.mutable_parameters())[std::to_string(i)].set_bool_param(true);
              }),
              HasSubstr("1024 parameters"));
}

TEST(WireValues, AreCountedBeforeTheyTakeMemory) {
  const auto fault = [](const ModelInferRequest& request) {
    try {
      require_few_values(request.SerializeAsString());
      return 0;
    } catch (const ApiError& error) {
      return error.status();
    }
  };
  // On the wire two bytes each, in memory forty.
  ModelInferRequest empty;
  auto& contents = *add_input(empty, "x", "BYTES", {1}).mutable_contents();
  for (size_t i = 0; i < kMostValues - 10; ++i) contents.add_bytes_contents("");
  EXPECT_EQ(fault(empty), 0);
  for (size_t i = 0; i < 10; ++i) contents.add_bytes_contents("");
  EXPECT_EQ(fault(empty), 413);
  ModelInferRequest packed;
  auto& input = add_input(packed, "x", "UINT32", {1});
  const auto half = static_cast<int>(kMostValues / 2 - 10);
  input.mutable_contents()->mutable_uint_contents()->Resize(half, 1000);
  input.mutable_contents()->mutable_fp64_contents()->Resize(half, 1);
  EXPECT_EQ(fault(packed), 0);
  input.mutable_contents()->mutable_fp32_contents()->Resize(20, 1);
  EXPECT_EQ(fault(packed), 413);
  ModelInferRequest raw;
  raw.mutable_raw_input_contents()->Reserve(static_cast<int>(kMostValues + 1));
  for (size_t i = 0; i <= kMostValues; ++i) raw.add_raw_input_contents();
  EXPECT_EQ(fault(raw), 413);
  ModelInferRequest shape;
  add_input(shape, "x", "UINT32", {}).mutable_shape()->Resize(static_cast<int>(kMostValues), -1);
  EXPECT_EQ(fault(shape), 413);
  EXPECT_EQ(fault(small_request()), 0);
  EXPECT_THROW(require_few_values("\x2a\x7f"), ApiError);
}

}  // namespace
}  // namespace megalith::grpc_protocol
