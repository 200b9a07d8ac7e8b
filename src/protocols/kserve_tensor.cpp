// SPDX-License-Identifier: Apache-2.0
#include "protocols/kserve_tensor.h"

#include <charconv>

#include "base/json_number.h"
#include "base/one_line.h"
#include "protocols/api_error.h"
#include "protocols/fields.h"

namespace megalith::protocols {
namespace {

/// Takes values of any depth in their order.
class ValueReader {
 public:
  ValueReader(KserveTensor& tensor, const DataType& type, int64_t most)
      : tensor_(tensor), type_(type), most_(most) {
    if (type.kind == 'i') tensor.data = std::vector<int64_t>();
    if (type.kind == 'u') tensor.data = std::vector<uint64_t>();
    if (type.kind == 'f') tensor.data = std::vector<double>();
    if (type.kind == 's') tensor.data = std::vector<std::string>();
  }

  void read(const Json& json) {
    if (json.is_array()) {
      for (const Json& one : json) read(one);
      return;
    }
    if (tensor_.elements() >= most_)
      throw ApiError(tensor_.name, "{}: more data than its shape holds", tensor_.name);
    if (type_.kind == 's' && json.is_string()) {
      std::get<std::vector<std::string>>(tensor_.data).push_back(json.get<std::string>());
    } else if (type_.kind == 'f' && json.is_number()) {
      std::get<std::vector<double>>(tensor_.data).push_back(json.get<double>());
    } else if (type_.name == "BOOL" && json.is_boolean()) {
      std::get<std::vector<uint64_t>>(tensor_.data).push_back(json.get<bool>() ? 1 : 0);
    } else if (type_.kind == 'u' || type_.kind == 'i') {
      read_whole(json);
    } else {
      fail(json);
    }
  }

 private:
  [[noreturn]] void fail(const Json& json) const {
    throw ApiError(tensor_.name, "{}: {} is no {}", tensor_.name, one_line(text_of_json(json), 40),
                   type_.name);
  }
  void read_whole(const Json& json) {
    if (type_.kind == 'u' && type_.bytes == 8 && json.is_number_unsigned()) {
      std::get<std::vector<uint64_t>>(tensor_.data).push_back(json.get<uint64_t>());
      return;
    }
    const auto value = whole_number_in(json);
    if (!value || *value < type_.low() || *value > type_.high()) fail(json);
    if (type_.kind == 'i') {
      std::get<std::vector<int64_t>>(tensor_.data).push_back(*value);
    } else {
      std::get<std::vector<uint64_t>>(tensor_.data).push_back(static_cast<uint64_t>(*value));
    }
  }

  KserveTensor& tensor_;
  const DataType& type_;
  int64_t most_;
};

int64_t read_shape(Fields& fields, KserveTensor& tensor) {
  const Json* const json = fields.find("shape");
  if (json == nullptr || !json->is_array())
    throw ApiError(tensor.name, "{}: shape must be a list of at most {} numbers", tensor.name,
                   kMostDims);
  for (const Json& one : *json) tensor.shape.push_back(whole_number_in(one).value_or(-1));
  return checked_elements(tensor);
}

KserveTensor read_tensor(const Json& json, std::string_view& bytes) {
  Fields fields(json, "inputs.");
  KserveTensor tensor;
  tensor.name = one_line(fields.text("name", 256).value_or(""));
  if (tensor.name.empty()) throw ApiError("inputs", "an input has no name");
  tensor.datatype = fields.text("datatype", 20).value_or("");
  const DataType& type = data_type(tensor.datatype, tensor.name);
  const int64_t elements = read_shape(fields, tensor);
  std::optional<int64_t> size;
  if (const Json* const parameters = fields.find("parameters"))
    size = Fields(*parameters, "parameters.").whole("binary_data_size", 0, INT64_MAX);
  const Json* const data = fields.find("data");
  if (size.has_value() == (data != nullptr))
    throw ApiError(tensor.name, "{}: give either data or binary_data_size", tensor.name);
  if (size) {
    if (static_cast<uint64_t>(*size) > bytes.size())
      throw ApiError(tensor.name, "{}: binary_data_size is beyond the body", tensor.name);
    read_bytes(tensor, type, bytes.substr(0, static_cast<size_t>(*size)));
    bytes.remove_prefix(static_cast<size_t>(*size));
  } else {
    if (!data->is_array()) throw ApiError(tensor.name, "{}: data must be a list", tensor.name);
    ValueReader(tensor, type, elements).read(*data);
  }
  require_elements(tensor, elements);
  return tensor;
}

size_t json_size(std::string_view body, std::string_view header) {
  if (header.empty()) return body.size();
  size_t size = 0;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), size);
  if (error != std::errc() || end != header.data() + header.size() || size > body.size())
    throw ApiError("", "Inference-Header-Content-Length is no length of JSON in the body");
  return size;
}

}  // namespace

void require_count(size_t inputs, size_t outputs) {
  if (inputs == 0 || inputs > kMostTensors)
    throw ApiError("inputs", "inputs must be a list of 1 to {} tensors", kMostTensors);
  if (outputs > kMostTensors)
    throw ApiError("outputs", "outputs must be a list of at most {}", kMostTensors);
}

void require_own_names(const KserveRequest& request) {
  std::set<std::string_view> names;
  for (const KserveTensor& tensor : request.inputs)
    if (!names.insert(tensor.name).second)
      throw ApiError("inputs", "the input {} comes twice", tensor.name);
  names.clear();
  for (const KserveOutput& output : request.outputs)
    if (!names.insert(output.name).second)
      throw ApiError("outputs", "the output {} is asked for twice", one_line(output.name, 100));
}

KserveRequest parse_kserve_request(std::string_view body, std::string_view json_bytes) {
  const size_t json_length = json_size(body, json_bytes);
  const Json json = parse_body(body.substr(0, json_length));
  std::string_view bytes = body.substr(json_length);
  Fields fields(json);
  KserveRequest request;
  request.id = fields.text("id", 256).value_or("");
  if (const Json* const parameters = fields.find("parameters")) {
    Fields known(*parameters, "parameters.");
    request.all_binary = known.flag("binary_data_output").value_or(false);
    request.parameters = *parameters;
  }
  const Json* const inputs = fields.find("inputs");
  const bool has_inputs = inputs != nullptr && inputs->is_array();
  require_count(has_inputs ? inputs->size() : 0, 0);
  for (const Json& input : *inputs) request.inputs.push_back(read_tensor(input, bytes));
  if (!bytes.empty()) throw ApiError("", "{} bytes of the body belong to no tensor", bytes.size());
  if (const Json* const outputs = fields.find("outputs")) {
    require_count(inputs->size(), outputs->is_array() ? outputs->size() : SIZE_MAX);
    for (const Json& output : *outputs) {
      Fields asked(output, "outputs.");
      KserveOutput made{asked.text("name", 256).value_or(""), request.all_binary};
      if (const Json* const parameters = asked.find("parameters"))
        made.is_binary =
            Fields(*parameters, "parameters.").flag("binary_data").value_or(request.all_binary);
      request.outputs.push_back(std::move(made));
    }
  }
  require_own_names(request);
  return request;
}

Body kserve_answer_body(const KserveAnswer& answer) {
  Json json{{"model_name", answer.model}, {"model_version", "1"}};
  if (!answer.id.empty()) json["id"] = answer.id;
  json["outputs"] = Json::array();
  std::string bytes;
  bool has_bytes = false;
  for (const auto& [tensor, is_binary] : answer.outputs) {
    Json output{{"name", tensor.name}, {"datatype", tensor.datatype}, {"shape", tensor.shape}};
    if (is_binary) {
      const std::string more = bytes_of(tensor);
      output["parameters"] = {{"binary_data_size", more.size()}};
      bytes += more;
      has_bytes = true;
    } else {
      std::visit([&](const auto& values) { output["data"] = values; }, tensor.data);
    }
    json["outputs"].push_back(std::move(output));
  }
  Body body{.text = text_of_json(json)};
  if (has_bytes) {
    body.content_type = "application/octet-stream";
    body.headers = {{"Inference-Header-Content-Length", std::to_string(body.text.size())}};
    body.text += bytes;
  }
  return body;
}

}  // namespace megalith::protocols
