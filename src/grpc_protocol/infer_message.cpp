// SPDX-License-Identifier: Apache-2.0
#include "grpc_protocol/infer_message.h"

#include "base/one_line.h"
#include "grpc_protocol/inference.pb.h"
#include "protocols/api_error.h"

namespace megalith::grpc_protocol {
namespace {

using ::inference::InferTensorContents;
using protocols::ApiError;
using protocols::DataType;
using protocols::Json;
using protocols::KserveAnswer;
using protocols::KserveRequest;
using protocols::KserveTensor;
using Parameters = google::protobuf::Map<std::string, ::inference::InferParameter>;

// They are searched one by one.
constexpr size_t kMostParameters = protocols::JsonLimits().keys;

Json value_of(const ::inference::InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case ::inference::InferParameter::kBoolParam:
      return parameter.bool_param();
    case ::inference::InferParameter::kInt64Param:
      return parameter.int64_param();
    case ::inference::InferParameter::kStringParam:
      return parameter.string_param();
    case ::inference::InferParameter::kDoubleParam:
      return parameter.double_param();
    case ::inference::InferParameter::kUint64Param:
      return parameter.uint64_param();
    case ::inference::InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return nullptr;
}

/// Other parameters of a tensor are for other servers; this one says where its values are.
void refuse_shared_memory(const Parameters& parameters, const std::string& tensor) {
  if (parameters.contains("shared_memory_region"))
    throw ApiError(tensor, "{}: this server shares no memory with its clients", tensor);
}

const std::string& at_most(const std::string& text, size_t most, const char* field) {
  if (text.size() > most) throw ApiError(field, "{} is longer than {} bytes", field, most);
  return text;
}

int num_values(const InferTensorContents& c) {
  return c.bool_contents_size() + c.int_contents_size() + c.int64_contents_size() +
         c.uint_contents_size() + c.uint64_contents_size() + c.fp32_contents_size() +
         c.fp64_contents_size() + c.bytes_contents_size();
}

template <typename T, typename List>
void take(KserveTensor& tensor, const DataType& type, const List& list) {
  std::vector<T> values;
  values.reserve(static_cast<size_t>(list.size()));
  for (const auto& value : list) {
    if constexpr (std::is_integral_v<T>) {
      if (std::cmp_less(value, type.low()) ||
          (type.bytes < 8 && std::cmp_greater(value, type.high())))
        throw ApiError(tensor.name, "{}: {} is no {}", tensor.name, value, type.name);
    }
    values.push_back(static_cast<T>(value));
  }
  tensor.data = std::move(values);
}

void read_contents(KserveTensor& tensor, const DataType& type, const InferTensorContents& c) {
  const bool is_wide = type.bytes == 8;
  if (type.name == "BOOL") {
    const auto& list = c.bool_contents();
    tensor.data = std::vector<uint64_t>(list.begin(), list.end());
  } else if (type.kind == 'u') {
    is_wide ? take<uint64_t>(tensor, type, c.uint64_contents())
            : take<uint64_t>(tensor, type, c.uint_contents());
  } else if (type.kind == 'i') {
    is_wide ? take<int64_t>(tensor, type, c.int64_contents())
            : take<int64_t>(tensor, type, c.int_contents());
  } else if (type.kind == 'f') {
    is_wide ? take<double>(tensor, type, c.fp64_contents())
            : take<double>(tensor, type, c.fp32_contents());
  } else {
    take<std::string>(tensor, type, c.bytes_contents());
  }
  if (tensor.elements() != num_values(c))
    throw ApiError(tensor.name, "{}: its contents are not those of {}", tensor.name, type.name);
}

KserveTensor tensor_of(const ::inference::ModelInferRequest::InferInputTensor& input,
                       const std::string* raw) {
  KserveTensor tensor;
  tensor.name = one_line(at_most(input.name(), 256, "inputs.name"));
  if (tensor.name.empty()) throw ApiError("inputs", "an input has no name");
  refuse_shared_memory(input.parameters(), tensor.name);
  tensor.datatype = at_most(input.datatype(), 20, "inputs.datatype");
  const DataType& type = protocols::data_type(tensor.datatype, tensor.name);
  tensor.shape.assign(input.shape().begin(), input.shape().end());
  const int64_t elements = protocols::checked_elements(tensor);
  if (raw == nullptr) {
    read_contents(tensor, type, input.contents());
  } else {
    if (num_values(input.contents()) > 0)
      throw ApiError(tensor.name, "{}: give either contents or raw_input_contents", tensor.name);
    protocols::read_bytes(tensor, type, *raw);
  }
  protocols::require_elements(tensor, elements);
  return tensor;
}

void put_contents(const KserveTensor& tensor, InferTensorContents& contents) {
  if (tensor.datatype == "UINT32")
    for (const uint64_t x : std::get<std::vector<uint64_t>>(tensor.data))
      contents.add_uint_contents(static_cast<uint32_t>(x));
  if (tensor.datatype == "INT32")
    for (const int64_t x : std::get<std::vector<int64_t>>(tensor.data))
      contents.add_int_contents(static_cast<int32_t>(x));
  if (tensor.datatype == "FP32")
    for (const double x : std::get<std::vector<double>>(tensor.data))
      contents.add_fp32_contents(static_cast<float>(x));
}

void put(const KserveAnswer& answer, ::inference::ModelInferResponse& response) {
  response.set_model_name(answer.model);
  response.set_model_version("1");
  response.set_id(answer.id);
  auto& parameters = *response.mutable_parameters();
  if (answer.is_last) parameters["triton_final_response"].set_bool_param(*answer.is_last);
  if (answer.sequence) parameters["sequence_index"].set_int64_param(*answer.sequence);
  for (const auto& [tensor, is_raw] : answer.outputs) {
    auto& output = *response.add_outputs();
    output.set_name(tensor.name);
    output.set_datatype(tensor.datatype);
    output.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    if (is_raw) {
      response.add_raw_output_contents(protocols::bytes_of(tensor));
    } else {
      put_contents(tensor, *output.mutable_contents());
    }
  }
}

protocols::Body body_of(const google::protobuf::MessageLite& message) {
  return {.content_type = "application/grpc", .text = message.SerializeAsString()};
}

}  // namespace

KserveRequest request_of(const ::inference::ModelInferRequest& message) {
  KserveRequest request;
  request.id = at_most(message.id(), kMostIdBytes, "id");
  if (message.parameters().size() > kMostParameters)
    throw ApiError("parameters", "there are more than {} parameters", kMostParameters);
  for (const auto& [name, value] : message.parameters()) request.parameters[name] = value_of(value);
  protocols::require_count(static_cast<size_t>(message.inputs_size()),
                           static_cast<size_t>(message.outputs_size()));
  const int num_raw = message.raw_input_contents_size();
  if (num_raw > 0 && num_raw != message.inputs_size())
    throw ApiError("raw_input_contents", "raw_input_contents are {} for {} inputs", num_raw,
                   message.inputs_size());
  request.all_binary = num_raw > 0;
  for (int i = 0; i < message.inputs_size(); ++i)
    request.inputs.push_back(
        tensor_of(message.inputs(i), num_raw > 0 ? &message.raw_input_contents(i) : nullptr));
  for (const auto& output : message.outputs()) {
    refuse_shared_memory(output.parameters(), one_line(output.name(), 100));
    request.outputs.push_back({at_most(output.name(), 256, "outputs.name"), request.all_binary});
  }
  protocols::require_own_names(request);
  return request;
}

protocols::Body infer_response(const KserveAnswer& answer) {
  ::inference::ModelInferResponse response;
  put(answer, response);
  return body_of(response);
}

protocols::Body stream_response(const KserveAnswer& answer) {
  ::inference::ModelStreamInferResponse response;
  put(answer, *response.mutable_infer_response());
  return body_of(response);
}

std::string stream_error(const ApiError& error, const std::string& id) {
  ::inference::ModelStreamInferResponse response;
  response.set_error_message(one_line(error.what()));
  response.mutable_infer_response()->set_id(id);
  return response.SerializeAsString();
}

}  // namespace megalith::grpc_protocol
