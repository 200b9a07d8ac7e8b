// SPDX-License-Identifier: Apache-2.0
// A client over gRPC for the system tests, which have no PyPI packages: one call. Reads requests
// from standard input, JSON on a line each, prints a line for each answer and last {"code",
// "message"}.
//   grpc_client ADDRESS METHOD [KEY SECONDS MOST_ANSWERS]
// KEY "": none; SECONDS 0: no deadline; MOST_ANSWERS: cancels after so many, -1: never.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "grpc_protocol/health.pb.h"
#include "grpc_protocol/inference.pb.h"
#include "rpc/grpc/grpc_client_testing.h"

namespace {

using Json = nlohmann::ordered_json;

void put_values(const Json& data, const std::string& datatype,
                inference::InferTensorContents& contents) {
  for (const Json& one : data) {
    if (datatype == "BOOL") contents.add_bool_contents(one.get<bool>());
    if (datatype == "UINT32") contents.add_uint_contents(one.get<uint32_t>());
    if (datatype == "UINT64") contents.add_uint64_contents(one.get<uint64_t>());
    if (datatype == "INT32") contents.add_int_contents(one.get<int32_t>());
    if (datatype == "FP32") contents.add_fp32_contents(one.get<float>());
  }
}

template <typename T>
std::string bytes_of(const Json& data) {
  std::string bytes;
  for (const Json& one : data) {
    const auto value = one.get<T>();
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

std::string raw_of(const Json& data, const std::string& datatype) {
  if (datatype == "BOOL") return bytes_of<bool>(data);
  if (datatype == "UINT32") return bytes_of<uint32_t>(data);
  if (datatype == "UINT64") return bytes_of<uint64_t>(data);
  return datatype == "INT32" ? bytes_of<int32_t>(data) : bytes_of<float>(data);
}

std::string infer_request(const Json& json) {
  inference::ModelInferRequest request;
  request.set_model_name(json.value("model", ""));
  request.set_id(json.value("id", ""));
  const bool raw = json.value("raw", false);
  for (const Json& tensor : json.value("inputs", Json::array())) {
    auto& input = *request.add_inputs();
    input.set_name(tensor.at("name").get<std::string>());
    input.set_datatype(tensor.at("datatype").get<std::string>());
    for (const Json& size : tensor.at("shape")) input.add_shape(size.get<int64_t>());
    if (raw) {
      request.add_raw_input_contents(raw_of(tensor.at("data"), input.datatype()));
    } else {
      put_values(tensor.at("data"), input.datatype(), *input.mutable_contents());
    }
  }
  for (const Json& name : json.value("outputs", Json::array()))
    request.add_outputs()->set_name(name.get<std::string>());
  const Json parameters = json.value("parameters", Json::object());
  for (const auto& [name, value] : parameters.items())
    (*request.mutable_parameters())[name].set_int64_param(value.get<int64_t>());
  return request.SerializeAsString();
}

template <typename T>
Json values_in(const std::string& bytes) {
  Json values = Json::array();
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    values.push_back(value);
  }
  return values;
}

Json json_of(const inference::ModelInferResponse& response) {
  Json json{{"model", response.model_name()}, {"id", response.id()}};
  for (const auto& [name, value] : response.parameters())
    json["parameters"][name] =
        value.has_bool_param() ? Json(value.bool_param()) : Json(value.int64_param());
  for (int i = 0; i < response.outputs_size(); ++i) {
    const auto& output = response.outputs(i);
    Json& made = json["outputs"][output.name()];
    made["shape"] = std::vector<int64_t>(output.shape().begin(), output.shape().end());
    const auto& contents = output.contents();
    if (i < response.raw_output_contents_size()) {
      const std::string& bytes = response.raw_output_contents(i);
      made["data"] = output.datatype() == "UINT32"  ? values_in<uint32_t>(bytes)
                     : output.datatype() == "INT32" ? values_in<int32_t>(bytes)
                                                    : values_in<float>(bytes);
    } else if (output.datatype() == "UINT32") {
      made["data"] =
          std::vector<uint32_t>(contents.uint_contents().begin(), contents.uint_contents().end());
    } else if (output.datatype() == "INT32") {
      made["data"] =
          std::vector<int32_t>(contents.int_contents().begin(), contents.int_contents().end());
    } else {
      made["data"] =
          std::vector<float>(contents.fp32_contents().begin(), contents.fp32_contents().end());
    }
  }
  return json;
}

std::string request_of(const std::string& method, const Json& json) {
  if (method == "ModelInfer" || method == "ModelStreamInfer") return infer_request(json);
  if (method == "RepositoryModelLoad" || method == "RepositoryModelUnload") {
    inference::RepositoryModelLoadRequest request;  // the other is like it
    request.set_model_name(json.value("model", ""));
    return request.SerializeAsString();
  }
  // The name is field 1 of all others that have one.
  inference::ModelReadyRequest request;
  request.set_name(json.value("model", ""));
  return request.SerializeAsString();
}

Json answer_of(const std::string& method, const std::string& message) {
  Json json;
  if (method == "ModelStreamInfer") {
    inference::ModelStreamInferResponse response;
    if (!response.ParseFromString(message)) return "no message";
    json = json_of(response.infer_response());
    if (!response.error_message().empty()) json["error"] = response.error_message();
  } else if (method == "ModelInfer") {
    inference::ModelInferResponse response;
    if (!response.ParseFromString(message)) return "no message";
    json = json_of(response);
  } else if (method == "ServerMetadata") {
    inference::ServerMetadataResponse response;
    if (!response.ParseFromString(message)) return "no message";
    json = {{"name", response.name()}, {"version", response.version()}};
  } else if (method == "ModelMetadata") {
    inference::ModelMetadataResponse response;
    if (!response.ParseFromString(message)) return "no message";
    json["name"] = response.name();
    for (const auto& input : response.inputs()) json["inputs"].push_back(input.name());
  } else if (method == "ModelConfig") {
    inference::ModelConfigResponse response;
    if (!response.ParseFromString(message)) return "no message";
    json["name"] = response.config().name();
  } else if (method == "RepositoryModelLoad" || method == "RepositoryModelUnload") {
    return message.empty() ? Json::object() : Json("no message");
  } else if (method == "RepositoryIndex") {
    inference::RepositoryIndexResponse response;
    if (!response.ParseFromString(message)) return "no message";
    for (const auto& model : response.models()) json[model.name()] = model.state();
  } else if (method == "Check") {
    grpc::health::v1::HealthCheckResponse response;
    if (!response.ParseFromString(message)) return "no message";
    json["status"] = static_cast<int>(response.status());
  } else {  // a truth, field 1
    inference::ServerReadyResponse response;
    if (!response.ParseFromString(message)) return "no message";
    json["true"] = response.ready();
  }
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace megalith::rpc;
  if (argc < 3) return 2;
  const std::string method = argv[2], key = argc > 3 ? argv[3] : "";
  const double seconds = argc > 4 ? std::stod(argv[4]) : 0;
  int64_t left = argc > 5 ? std::stoll(argv[5]) : -1;
  const std::string path =
      method == "Check" ? "/grpc.health.v1.Health/Check" : std::string(kService) + method;
  ClientCall call(channel_to(argv[1]), path,
                  seconds > 0 ? std::optional(seconds) : std::optional<double>(), key);
  call.context.set_wait_for_ready(false);
  call.start();
  for (std::string line; std::getline(std::cin, line);)
    if (!call.send(request_of(method, Json::parse(line)))) break;
  if (left < 0) call.close();
  while (left != 0) {
    const auto message = call.receive();
    if (!message) break;
    std::cout << answer_of(method, *message).dump() << std::endl;
    --left;
  }
  if (left == 0) call.context.TryCancel();
  const grpc::Status status = call.finish();
  std::cout << Json{{"code", static_cast<int>(status.error_code())},
                    {"message", status.error_message()}}
                   .dump()
            << std::endl;
  return 0;
}
