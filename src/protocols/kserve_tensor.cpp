// SPDX-License-Identifier: Apache-2.0
#include "protocols/kserve_tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/json_number.h"
#include "base/one_line.h"
#include "protocols/api_error.h"
#include "protocols/fields.h"

namespace megalith::protocols {
namespace {

static_assert(std::endian::native == std::endian::little);

struct DataType {
  std::string_view name;
  size_t bytes;  // of an element; 0: each says
  char kind;     // 'i' signed, 'u' unsigned, 'f' floating, 's' bytes
};
constexpr std::array kDataTypes{
    DataType{"BOOL", 1, 'u'},   DataType{"UINT8", 1, 'u'},  DataType{"UINT16", 2, 'u'},
    DataType{"UINT32", 4, 'u'}, DataType{"UINT64", 8, 'u'}, DataType{"INT8", 1, 'i'},
    DataType{"INT16", 2, 'i'},  DataType{"INT32", 4, 'i'},  DataType{"INT64", 8, 'i'},
    DataType{"FP32", 4, 'f'},   DataType{"FP64", 8, 'f'},   DataType{"BYTES", 0, 's'}};

const DataType& data_type(const std::string& name, const std::string& where) {
  for (const DataType& known : kDataTypes)
    if (known.name == name) return known;
  throw ApiError(where, "{}: the datatype {} is not taken here", where, one_line(name, 20));
}

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
    const int bits = static_cast<int>(8 * type_.bytes);
    const bool is_signed = type_.kind == 'i';
    const int64_t low = is_signed ? (bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1))) : 0;
    const int64_t high = type_.name == "BOOL" ? 1
                         : bits == 64         ? INT64_MAX
                                              : (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
    if (!value || *value < low || *value > high) fail(json);
    if (is_signed) {
      std::get<std::vector<int64_t>>(tensor_.data).push_back(*value);
    } else {
      std::get<std::vector<uint64_t>>(tensor_.data).push_back(static_cast<uint64_t>(*value));
    }
  }

  KserveTensor& tensor_;
  const DataType& type_;
  int64_t most_;
};

template <typename Raw, typename Wide>
std::vector<Wide> widened(std::string_view bytes) {
  std::vector<Wide> values;
  for (size_t i = 0; i + sizeof(Raw) <= bytes.size(); i += sizeof(Raw)) {
    Raw raw;
    std::memcpy(&raw, bytes.data() + i, sizeof raw);
    values.push_back(static_cast<Wide>(raw));
  }
  return values;
}

std::vector<std::string> texts_in(std::string_view bytes, const std::string& name) {
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    uint32_t length = 0;
    if (bytes.size() < sizeof length) throw ApiError(name, "{}: its bytes end too soon", name);
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes.remove_prefix(sizeof length);
    if (bytes.size() < length) throw ApiError(name, "{}: its bytes end too soon", name);
    texts.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return texts;
}

void read_bytes(KserveTensor& tensor, const DataType& type, std::string_view bytes) {
  if (type.bytes != 0 && bytes.size() % type.bytes != 0)
    throw ApiError(tensor.name, "{}: {} bytes are no {}", tensor.name, bytes.size(), type.name);
  const std::string_view name = type.name;
  if (name == "BOOL" || name == "UINT8") tensor.data = widened<uint8_t, uint64_t>(bytes);
  if (name == "UINT16") tensor.data = widened<uint16_t, uint64_t>(bytes);
  if (name == "UINT32") tensor.data = widened<uint32_t, uint64_t>(bytes);
  if (name == "UINT64") tensor.data = widened<uint64_t, uint64_t>(bytes);
  if (name == "INT8") tensor.data = widened<int8_t, int64_t>(bytes);
  if (name == "INT16") tensor.data = widened<int16_t, int64_t>(bytes);
  if (name == "INT32") tensor.data = widened<int32_t, int64_t>(bytes);
  if (name == "INT64") tensor.data = widened<int64_t, int64_t>(bytes);
  if (name == "FP32") tensor.data = widened<float, double>(bytes);
  if (name == "FP64") tensor.data = widened<double, double>(bytes);
  if (name == "BYTES") tensor.data = texts_in(bytes, tensor.name);
}

/// The product of the dimensions, which is bounded at every step.
int64_t read_shape(Fields& fields, KserveTensor& tensor) {
  const Json* const json = fields.find("shape");
  if (json == nullptr || !json->is_array() || json->size() > kMostDims)
    throw ApiError(tensor.name, "{}: shape must be a list of at most {} numbers", tensor.name,
                   kMostDims);
  int64_t product = 1;
  for (const Json& one : *json) {
    const auto size = whole_number_in(one);
    if (!size || *size < 0 || *size > kMostElements || product * *size > kMostElements) {
      throw ApiError(tensor.name, "{}: its shape holds no whole numbers, or more than {} elements",
                     tensor.name, kMostElements);
    }
    product *= *size;
    tensor.shape.push_back(*size);
  }
  return product;
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
  if (tensor.elements() != elements) {
    throw ApiError(tensor.name, "{}: {} values, but its shape holds {}", tensor.name,
                   tensor.elements(), elements);
  }
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

/// `values` as bytes of the tensor's type.
std::string bytes_of(const KserveTensor& tensor) {
  std::string bytes;
  const auto put = [&](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  if (tensor.datatype == "UINT32")
    for (const uint64_t x : std::get<std::vector<uint64_t>>(tensor.data))
      put(static_cast<uint32_t>(x));
  if (tensor.datatype == "INT32")
    for (const int64_t x : std::get<std::vector<int64_t>>(tensor.data))
      put(static_cast<int32_t>(x));
  if (tensor.datatype == "FP32")
    for (const double x : std::get<std::vector<double>>(tensor.data)) put(static_cast<float>(x));
  if (tensor.datatype == "BYTES") {
    for (const std::string& text : std::get<std::vector<std::string>>(tensor.data)) {
      put(static_cast<uint32_t>(text.size()));
      bytes += text;
    }
  }
  return bytes;
}

}  // namespace

int64_t KserveTensor::elements() const {
  return std::visit([](const auto& values) { return std::ssize(values); }, data);
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
  if (inputs == nullptr || !inputs->is_array() || inputs->empty() || inputs->size() > kMostTensors)
    throw ApiError("inputs", "inputs must be a list of 1 to {} tensors", kMostTensors);
  for (const Json& input : *inputs) {
    request.inputs.push_back(read_tensor(input, bytes));
    for (size_t i = 0; i + 1 < request.inputs.size(); ++i)
      if (request.inputs[i].name == request.inputs.back().name)
        throw ApiError("inputs", "the input {} comes twice", request.inputs.back().name);
  }
  if (!bytes.empty()) throw ApiError("", "{} bytes of the body belong to no tensor", bytes.size());
  if (const Json* const outputs = fields.find("outputs")) {
    if (!outputs->is_array() || outputs->size() > kMostTensors)
      throw ApiError("outputs", "outputs must be a list of at most {}", kMostTensors);
    for (const Json& output : *outputs) {
      Fields asked(output, "outputs.");
      KserveOutput made{asked.text("name", 256).value_or(""), request.all_binary};
      if (const Json* const parameters = asked.find("parameters"))
        made.is_binary =
            Fields(*parameters, "parameters.").flag("binary_data").value_or(request.all_binary);
      for (const KserveOutput& other : request.outputs)
        if (other.name == made.name)
          throw ApiError("outputs", "the output {} is asked for twice", one_line(made.name, 100));
      request.outputs.push_back(std::move(made));
    }
  }
  return request;
}

std::pair<std::string, int64_t> kserve_answer_body(const KserveAnswer& answer) {
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
  std::string text = text_of_json(json);
  const auto length = static_cast<int64_t>(text.size());
  return {text + bytes, has_bytes ? length : -1};
}

}  // namespace megalith::protocols
