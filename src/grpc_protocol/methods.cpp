// SPDX-License-Identifier: Apache-2.0
#include "grpc_protocol/methods.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <array>

#include "base/one_line.h"
#include "grpc_protocol/health.pb.h"
#include "grpc_protocol/infer_message.h"
#include "grpc_protocol/inference.pb.h"
#include "grpc_protocol/wire_values.h"
#include "protocols/api_error.h"

namespace megalith::grpc_protocol {
namespace {

using protocols::ApiError;
using protocols::NamedTensor;
using protocols::ServedModel;

template <typename Message>
Message parsed(std::string_view bytes) {
  // The library would print what clients do wrong.
  [[maybe_unused]] static const auto kQuiet = google::protobuf::SetLogHandler(nullptr);
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    // Its type's name, without the package.
    const std::string type = message.GetTypeName();
    throw ApiError("", "this is no {}", type.substr(type.rfind('.') + 1));
  }
  return message;
}

std::string live(std::string_view, const ServedModel&, const ServerState&) {
  ::inference::ServerLiveResponse answer;
  answer.set_live(true);
  return answer.SerializeAsString();
}

std::string ready(std::string_view, const ServedModel&, const ServerState& state) {
  ::inference::ServerReadyResponse answer;
  answer.set_ready(state.is_ready);
  return answer.SerializeAsString();
}

/// ApiError, status 404, unless there is a model or an adapter of the name.
const ServedModel& required_model(const ServedModel& model, const std::string& name,
                                  const std::string& version) {
  const ServedModel& named = protocols::model_named(model, name);
  protocols::require_kserve_model(named, name, version);
  return named;
}

bool is_ready(const ServedModel& model, const ServerState& state) {
  return std::ranges::any_of(state.models, [&](const protocols::RepositoryEntry& entry) {
    return entry.name == model.name && entry.state == "READY";
  });
}

std::string model_ready(std::string_view bytes, const ServedModel& model,
                        const ServerState& state) {
  const auto asked = parsed<::inference::ModelReadyRequest>(bytes);
  const ServedModel& named = required_model(model, asked.name(), asked.version());
  ::inference::ModelReadyResponse answer;
  answer.set_ready(is_ready(named, state));
  return answer.SerializeAsString();
}

std::string server_metadata(std::string_view, const ServedModel&, const ServerState& state) {
  ::inference::ServerMetadataResponse answer;
  answer.set_name("megalith");
  answer.set_version(state.version);
  for (const char* extension : {"model_configuration", "model_repository"})
    answer.add_extensions(extension);
  return answer.SerializeAsString();
}

std::string model_metadata(std::string_view bytes, const ServedModel& model, const ServerState&) {
  const auto asked = parsed<::inference::ModelMetadataRequest>(bytes);
  required_model(model, asked.name(), asked.version());
  ::inference::ModelMetadataResponse answer;
  answer.set_name(asked.name());
  answer.add_versions("1");
  answer.set_platform("megalith");
  const auto put = [](const NamedTensor& tensor, auto& metadata) {
    metadata.set_name(tensor.name);
    metadata.set_datatype(tensor.datatype);
    for (int i = 0; i < tensor.dims; ++i) metadata.add_shape(-1);
  };
  for (const NamedTensor& tensor : protocols::kserve_inputs()) put(tensor, *answer.add_inputs());
  for (const NamedTensor& tensor : protocols::kserve_outputs()) put(tensor, *answer.add_outputs());
  return answer.SerializeAsString();
}

::inference::DataType enum_of(std::string_view datatype) {
  if (datatype == "BOOL") return ::inference::TYPE_BOOL;
  if (datatype == "UINT32") return ::inference::TYPE_UINT32;
  if (datatype == "UINT64") return ::inference::TYPE_UINT64;
  if (datatype == "INT32") return ::inference::TYPE_INT32;
  return ::inference::TYPE_FP32;
}

std::string model_config(std::string_view bytes, const ServedModel& model, const ServerState&) {
  const auto asked = parsed<::inference::ModelConfigRequest>(bytes);
  required_model(model, asked.name(), asked.version());
  ::inference::ModelConfigResponse answer;
  ::inference::ModelConfig& config = *answer.mutable_config();
  config.set_name(asked.name());
  config.set_platform("megalith");
  config.set_backend("megalith");
  config.set_max_batch_size(static_cast<int>(protocols::kMostRows));
  config.mutable_model_transaction_policy()->set_decoupled(true);
  const auto put = [](const NamedTensor& tensor, auto& made) {
    made.set_name(tensor.name);
    made.set_data_type(enum_of(tensor.datatype));
    for (int i = 1; i < tensor.dims; ++i) made.add_dims(-1);
  };
  for (const NamedTensor& tensor : protocols::kserve_inputs()) {
    ::inference::ModelInput& input = *config.add_input();
    put(tensor, input);
    input.set_optional(!tensor.is_needed);
  }
  for (const NamedTensor& tensor : protocols::kserve_outputs()) put(tensor, *config.add_output());
  return answer.SerializeAsString();
}

void require_own_repository(const std::string& name) {
  if (!name.empty())
    throw ApiError("repository_name", "there is no repository '{}' here: leave its name empty",
                   one_line(name, 100))
        .with_status(404);
}

std::string index(std::string_view bytes, const ServedModel&, const ServerState& state) {
  const auto asked = parsed<::inference::RepositoryIndexRequest>(bytes);
  require_own_repository(asked.repository_name());
  ::inference::RepositoryIndexResponse answer;
  for (const protocols::RepositoryEntry& entry : state.models) {
    if (asked.ready() && entry.state != "READY") continue;
    auto& one = *answer.add_models();
    one.set_name(entry.name);
    one.set_version("1");
    one.set_state(std::string(entry.state));
  }
  return answer.SerializeAsString();
}

/// Nothing depends on an adapter; files and settings are the operator's.
template <typename Request>
std::string name_to_change(std::string_view bytes) {
  const auto asked = parsed<Request>(bytes);
  require_own_repository(asked.repository_name());
  for (const auto& [key, value] : asked.parameters()) {
    if (key == "unload_dependents" && value.has_bool_param() && !value.bool_param()) continue;
    throw ApiError("parameters", "a model is loaded as it is: '{}' is not taken",
                   one_line(key, 100));
  }
  return asked.model_name();
}

std::string health(std::string_view bytes, const ServedModel&, const ServerState& state) {
  const auto asked = parsed<grpc::health::v1::HealthCheckRequest>(bytes);
  if (!asked.service().empty() && asked.service() != "inference.GRPCInferenceService")
    throw ApiError("service", "there is no service '{}' here", one_line(asked.service(), 100))
        .with_status(404);
  grpc::health::v1::HealthCheckResponse answer;
  answer.set_status(state.is_ready ? grpc::health::v1::HealthCheckResponse::SERVING
                                   : grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  return answer.SerializeAsString();
}

using Answer = std::string (*)(std::string_view, const ServedModel&, const ServerState&);
struct Known {
  Method method;
  Answer answer = nullptr;  // to a question
};

constexpr std::string_view kLoadPath = "/inference.GRPCInferenceService/RepositoryModelLoad";
constexpr std::array kMethods{
    Known{{"/inference.GRPCInferenceService/ServerLive", MethodKind::question, true}, live},
    Known{{"/inference.GRPCInferenceService/ServerReady", MethodKind::question, true}, ready},
    Known{{"/grpc.health.v1.Health/Check", MethodKind::question, true}, health},
    Known{{"/inference.GRPCInferenceService/ModelReady", MethodKind::question}, model_ready},
    Known{{"/inference.GRPCInferenceService/ServerMetadata", MethodKind::question},
          server_metadata},
    Known{{"/inference.GRPCInferenceService/ModelMetadata", MethodKind::question}, model_metadata},
    Known{{"/inference.GRPCInferenceService/ModelConfig", MethodKind::question}, model_config},
    Known{{"/inference.GRPCInferenceService/RepositoryIndex", MethodKind::question}, index},
    Known{{kLoadPath, MethodKind::repository}},
    Known{{"/inference.GRPCInferenceService/RepositoryModelUnload", MethodKind::repository}},
    Known{{"/inference.GRPCInferenceService/ModelInfer", MethodKind::infer}},
    Known{{"/inference.GRPCInferenceService/ModelStreamInfer", MethodKind::stream}},
};

void require_short(std::string_view message) {
  if (message.size() > kMostQuestionBytes)
    throw ApiError("", "the message is longer than {} bytes", kMostQuestionBytes).with_status(413);
}

const Known* known_at(std::string_view path) {
  const auto* const at =
      std::ranges::find(kMethods, path, [](const Known& known) { return known.method.path; });
  return at == kMethods.end() ? nullptr : at;
}

}  // namespace

const Method* method_at(std::string_view path) {
  const Known* const known = known_at(path);
  return known == nullptr ? nullptr : &known->method;
}

std::string answer_question(const Method& method, std::string_view message,
                            const ServedModel& model, const ServerState& state) {
  require_short(message);
  return known_at(method.path)->answer(message, model, state);
}

RepositoryChange repository_change(const Method& method, std::string_view message) {
  require_short(message);
  if (method.path == kLoadPath)
    return {name_to_change<::inference::RepositoryModelLoadRequest>(message), true};
  return {name_to_change<::inference::RepositoryModelUnloadRequest>(message), false};
}

protocols::Prepared prepare_infer_message(std::string_view message, const ServedModel& model,
                                          bool streams, InferNames& names) {
  require_few_values(message);
  const auto asked = parsed<::inference::ModelInferRequest>(message);
  if (asked.id().size() <= kMostIdBytes) names.id = asked.id();
  protocols::KserveRequest request = request_of(asked);
  const ServedModel& named = required_model(model, asked.model_name(), asked.model_version());
  if (!named.parent.empty()) names.adapter = named.name;
  const protocols::InferFormat format{.encode = streams ? stream_response : infer_response,
                                      .streams = streams,
                                      .broken_off = stream_error};
  return prepare_infer(std::move(request), asked.model_name(), named, format);
}

int grpc_code(int http_status) {
  switch (http_status) {
    case 200:
      return 0;  // OK
    case 401:
      return 16;  // UNAUTHENTICATED
    case 403:
      return 7;  // PERMISSION_DENIED
    case 404:
      return 5;  // NOT_FOUND
    case 405:
      return 12;  // UNIMPLEMENTED
    case 409:
      return 10;  // ABORTED
    case 408:
    case 504:
      return 4;  // DEADLINE_EXCEEDED
    case 413:
    case 429:
      return 8;  // RESOURCE_EXHAUSTED
    case 500:
      return 13;  // INTERNAL
    case 503:
      return 14;  // UNAVAILABLE
    default:
      return 3;  // INVALID_ARGUMENT
  }
}

}  // namespace megalith::grpc_protocol
