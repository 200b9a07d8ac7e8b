// SPDX-License-Identifier: Apache-2.0
// Requests and answers of KServe's protocol, version 2; over HTTP as JSON or, with Triton's
// extension, with bytes behind it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocols/json_body.h"
#include "protocols/kserve_values.h"
#include "protocols/reply.h"

namespace megalith::protocols {

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

inline constexpr size_t kMostTensors = 32;

/// ApiError unless a request may have so many.
void require_count(size_t inputs, size_t outputs);
/// ApiError where two inputs or two outputs have one name.
void require_own_names(const KserveRequest& request);

/// `json_bytes`: the header Inference-Header-Content-Length, empty where there is none. ApiError in
/// words of the tensor that is wrong.
KserveRequest parse_kserve_request(std::string_view body, std::string_view json_bytes);

/// Tensors to be sent, each with whether as bytes.
struct KserveAnswer {
  std::string model, id;
  std::vector<std::pair<KserveTensor, bool>> outputs;
  std::optional<bool> is_last{};      // of a stream: no more come for the request
  std::optional<int64_t> sequence{};  // of a stream: the row of the batch that it tells of
};
/// As the body of an answer over HTTP.
Body kserve_answer_body(const KserveAnswer& answer);

}  // namespace megalith::protocols
