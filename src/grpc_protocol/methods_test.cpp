// SPDX-License-Identifier: Apache-2.0
#include "grpc_protocol/methods.h"

#include <gmock/gmock.h>

#include "grpc_protocol/health.pb.h"
#include "grpc_protocol/inference.pb.h"
#include "protocols/api_error.h"
#include "protocols/protocols_fixture.h"

namespace megalith::grpc_protocol {
namespace {

using protocols::ApiError;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kService = "/inference.GRPCInferenceService/";

template <typename Response, typename Request>
Response ask(const std::string& path, const Request& request, bool is_ready = true) {
  const Method* const method = method_at(path);
  EXPECT_NE(method, nullptr) << path;
  const ServerState state{.version = "1.2",
                          .is_ready = is_ready,
                          .models = {{"small", is_ready ? "READY" : "UNAVAILABLE"}}};
  Response response;
  EXPECT_TRUE(response.ParseFromString(
      answer_question(*method, request.SerializeAsString(), protocols::small_model(), state)));
  return response;
}

/// The status that it is refused with, as HTTP's; 0: it is not.
template <typename Request>
int status(const std::string& path, const Request& request) {
  const Method& method = *method_at(path);
  try {
    if (method.kind == MethodKind::repository) {
      repository_change(method, request.SerializeAsString());
    } else {
      answer_question(method, request.SerializeAsString(), protocols::small_model(), {});
    }
    return 0;
  } catch (const ApiError& error) {
    return error.status();
  }
}

TEST(Methods, AreKnownByTheirPaths) {
  ASSERT_NE(method_at("/inference.GRPCInferenceService/ModelInfer"), nullptr);
  EXPECT_EQ(method_at("/inference.GRPCInferenceService/ModelInfer")->kind, MethodKind::infer);
  EXPECT_EQ(method_at("/inference.GRPCInferenceService/ModelStreamInfer")->kind,
            MethodKind::stream);
  for (const char* none : {"", "/", "ModelInfer", "/inference.GRPCInferenceService/",
                           "/inference.GRPCInferenceService/ModelInfer/",
                           "/inference.GRPCInferenceService/CudaSharedMemoryRegister"})
    EXPECT_EQ(method_at(none), nullptr) << none;
}

TEST(Methods, NeedNoKeyOnlyWhereTheyTellWhetherItLives) {
  for (const char* name : {"ServerLive", "ServerReady"})
    EXPECT_TRUE(method_at(std::string(kService) + name)->is_public) << name;
  EXPECT_TRUE(method_at("/grpc.health.v1.Health/Check")->is_public);
  for (const char* name :
       {"ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig", "RepositoryIndex",
        "RepositoryModelLoad", "RepositoryModelUnload", "ModelInfer", "ModelStreamInfer"})
    EXPECT_FALSE(method_at(std::string(kService) + name)->is_public) << name;
}

TEST(Methods, TellWhetherItIsReady) {
  const std::string service(kService);
  for (const bool ready : {false, true}) {
    EXPECT_TRUE(ask<::inference::ServerLiveResponse>(service + "ServerLive",
                                                     ::inference::ServerLiveRequest(), ready)
                    .live());
    EXPECT_EQ(ask<::inference::ServerReadyResponse>(service + "ServerReady",
                                                    ::inference::ServerReadyRequest(), ready)
                  .ready(),
              ready);
    ::inference::ModelReadyRequest model;
    model.set_name("fastertransformer");
    model.set_version("1");
    EXPECT_EQ(ask<::inference::ModelReadyResponse>(service + "ModelReady", model, ready).ready(),
              ready);
    EXPECT_EQ(ask<grpc::health::v1::HealthCheckResponse>(
                  "/grpc.health.v1.Health/Check", grpc::health::v1::HealthCheckRequest(), ready)
                  .status(),
              ready ? grpc::health::v1::HealthCheckResponse::SERVING
                    : grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  }
  ::inference::ModelReadyRequest other;
  other.set_name("other");
  EXPECT_EQ(status(service + "ModelReady", other), 404);
  grpc::health::v1::HealthCheckRequest what;
  what.set_service("inference.GRPCInferenceService");
  EXPECT_EQ(status("/grpc.health.v1.Health/Check", what), 0);
  what.set_service("what");
  EXPECT_EQ(status("/grpc.health.v1.Health/Check", what), 404);
}

TEST(Methods, DescribeServerAndModel) {
  const std::string service(kService);
  const auto server = ask<::inference::ServerMetadataResponse>(
      service + "ServerMetadata", ::inference::ServerMetadataRequest());
  EXPECT_EQ(server.name(), "megalith");
  EXPECT_EQ(server.version(), "1.2");
  ::inference::ModelMetadataRequest asked;
  asked.set_name("small");
  const auto model = ask<::inference::ModelMetadataResponse>(service + "ModelMetadata", asked);
  EXPECT_EQ(model.name(), "small");
  EXPECT_THAT(model.versions(), ElementsAre("1"));
  EXPECT_EQ(model.inputs_size(), 16);
  EXPECT_EQ(model.inputs(0).name(), "input_ids");
  EXPECT_EQ(model.inputs(0).datatype(), "UINT32");
  EXPECT_THAT(model.inputs(0).shape(), ElementsAre(-1, -1));
  EXPECT_EQ(model.outputs_size(), 5);
  ::inference::ModelConfigRequest of;
  of.set_name("small");
  const auto config = ask<::inference::ModelConfigResponse>(service + "ModelConfig", of).config();
  EXPECT_EQ(config.max_batch_size(), 64);
  EXPECT_TRUE(config.model_transaction_policy().decoupled());
  EXPECT_EQ(config.input(0).data_type(), ::inference::TYPE_UINT32);
  EXPECT_THAT(config.input(0).dims(), ElementsAre(-1));
  EXPECT_FALSE(config.input(0).optional());
  EXPECT_TRUE(config.input(1).optional());
  EXPECT_EQ(config.output(0).data_type(), ::inference::TYPE_UINT32);
  EXPECT_THAT(config.output(0).dims(), ElementsAre(-1, -1));
  asked.set_version("3");
  EXPECT_EQ(status(service + "ModelMetadata", asked), 404);
}

TEST(Methods, TellOfTheRepository) {
  const std::string service(kService);
  ::inference::RepositoryIndexRequest asked;
  const auto models =
      ask<::inference::RepositoryIndexResponse>(service + "RepositoryIndex", asked).models();
  ASSERT_EQ(models.size(), 1);
  EXPECT_EQ(models[0].name(), "small");
  EXPECT_EQ(models[0].state(), "READY");
  asked.set_ready(true);
  EXPECT_EQ(ask<::inference::RepositoryIndexResponse>(service + "RepositoryIndex", asked, false)
                .models_size(),
            0);
  asked.set_repository_name("elsewhere");
  EXPECT_EQ(status(service + "RepositoryIndex", asked), 404);
}

TEST(Methods, ReadWhatIsLoadedAndUnloaded) {
  const std::string service(kService), to_load = service + "RepositoryModelLoad";
  ::inference::RepositoryModelLoadRequest load;
  load.set_model_name("sql");
  const auto loads = repository_change(*method_at(to_load), load.SerializeAsString());
  EXPECT_EQ(loads.name, "sql");
  EXPECT_TRUE(loads.loads);
  (*load.mutable_parameters())["config"].set_string_param("{}");
  EXPECT_EQ(status(to_load, load), 400);
  load.clear_parameters();
  load.set_repository_name("elsewhere");
  EXPECT_EQ(status(to_load, load), 404);

  const std::string to_unload = service + "RepositoryModelUnload";
  ::inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name("sql");
  auto& dependents = (*unload.mutable_parameters())["unload_dependents"];
  dependents.set_bool_param(false);  // as tritonclient says always
  const auto unloads = repository_change(*method_at(to_unload), unload.SerializeAsString());
  EXPECT_EQ(unloads.name, "sql");
  EXPECT_FALSE(unloads.loads);
  dependents.set_bool_param(true);
  EXPECT_EQ(status(to_unload, unload), 400);
  unload.set_model_name(std::string(kMostQuestionBytes, 'a'));
  EXPECT_EQ(status(to_unload, unload), 413);
}

TEST(Methods, KnowAdaptersByTheirNames) {
  protocols::ServedModel model = protocols::small_model();
  protocols::add_adapters(model, std::vector<std::string>{"law", "sql", "new"});
  const ServerState state{
      .version = "1.2",
      .is_ready = true,
      .models = {{"small", "READY"}, {"law", "UNLOADING"}, {"sql", "READY"}, {"new", "LOADING"}}};
  const auto answered = [&]<typename Request>(const char* name, const Request& request) {
    return answer_question(*method_at(std::string(kService) + name), request.SerializeAsString(),
                           model, state);
  };
  ::inference::RepositoryIndexRequest all;
  for (const bool ready_alone : {false, true}) {
    all.set_ready(ready_alone);
    ::inference::RepositoryIndexResponse index;
    ASSERT_TRUE(index.ParseFromString(answered("RepositoryIndex", all)));
    std::vector<std::string> states;
    for (const auto& one : index.models()) states.push_back(one.name() + " " + one.state());
    if (ready_alone) {
      EXPECT_THAT(states, ElementsAre("small READY", "sql READY"));
    } else {
      EXPECT_THAT(states, ElementsAre("small READY", "law UNLOADING", "sql READY", "new LOADING"));
    }
  }
  for (const auto& [name, is_ready] :
       {std::pair{"law", false}, {"sql", true}, {"small", true}, {"new", false}}) {
    ::inference::ModelReadyRequest request;
    request.set_name(name);
    ::inference::ModelReadyResponse response;
    ASSERT_TRUE(response.ParseFromString(answered("ModelReady", request)));
    EXPECT_EQ(response.ready(), is_ready) << name;
    ::inference::ModelMetadataRequest asked;
    asked.set_name(name);
    ::inference::ModelMetadataResponse metadata;
    ASSERT_TRUE(metadata.ParseFromString(answered("ModelMetadata", asked)));
    EXPECT_EQ(metadata.name(), name);
    ::inference::ModelConfigRequest of;
    of.set_name(name);
    ::inference::ModelConfigResponse config;
    ASSERT_TRUE(config.ParseFromString(answered("ModelConfig", of)));
    EXPECT_EQ(config.config().name(), name);
  }
}

TEST(Methods, BoundTheMessagesOfQuestions) {
  const Method& method = *method_at("/inference.GRPCInferenceService/ModelReady");
  const auto fault = [&](const std::string& bytes) {
    try {
      answer_question(method, bytes, protocols::small_model(), {});
      return std::string("no fault");
    } catch (const ApiError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(fault(std::string(kMostQuestionBytes + 1, '\0')), HasSubstr("longer"));
  EXPECT_THAT(fault("\x0a\x7f"), HasSubstr("no ModelReadyRequest"));
}

TEST(Methods, DoNotPrintWhatClientsDoWrong) {
  testing::internal::CaptureStderr();
  const Method& method = *method_at("/inference.GRPCInferenceService/ModelReady");
  EXPECT_THROW(answer_question(method, "\x0a\x01\xff", protocols::small_model(), {}), ApiError);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(GrpcCode, OfEveryStatus) {
  const std::pair<int, int> codes[] = {{200, 0},  {400, 3},  {401, 16}, {403, 7}, {404, 5},
                                       {405, 12}, {408, 4},  {409, 10}, {413, 8}, {429, 8},
                                       {500, 13}, {503, 14}, {504, 4},  {422, 3}};
  for (const auto& [status, code] : codes) EXPECT_EQ(grpc_code(status), code) << status;
}

}  // namespace
}  // namespace megalith::grpc_protocol
