// SPDX-License-Identifier: Apache-2.0
// Tensors of KServe's protocol, version 2, over HTTP: as JSON or, with Triton's extension, as bytes
// behind it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "protocols/json_body.h"

namespace megalith::protocols {

struct KserveTensor {
  std::string name;
  std::string datatype;  // "UINT32"
  std::vector<int64_t> shape;
  std::variant<std::vector<int64_t>, std::vector<uint64_t>, std::vector<double>,
               std::vector<std::string>>
      data;  // row-major; BOOL as 0 and 1

  int64_t elements() const;
};

struct KserveOutput {
  std::string name;
  bool is_binary = false;
};

struct KserveRequest {
  std::string id;
  Json parameters = Json::object();
  std::vector<KserveTensor> inputs;
  std::vector<KserveOutput> outputs;  // empty: all
  bool all_binary = false;            // outputs that are not named
};

inline constexpr size_t kMostTensors = 32, kMostDims = 8;
inline constexpr int64_t kMostElements = 1 << 20;

/// `json_bytes`: the header Inference-Header-Content-Length, empty where there is none. ApiError in
/// words of the tensor that is wrong.
KserveRequest parse_kserve_request(std::string_view body, std::string_view json_bytes);

/// A tensor to be sent. `is_binary`: its bytes go behind the JSON.
struct KserveAnswer {
  std::string model, id;
  std::vector<std::pair<KserveTensor, bool>> outputs;
};
/// The body and, where there are bytes behind the JSON, its length; otherwise -1.
std::pair<std::string, int64_t> kserve_answer_body(const KserveAnswer& answer);

}  // namespace megalith::protocols
