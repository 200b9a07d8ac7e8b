// SPDX-License-Identifier: Apache-2.0
// KServe's protocol, version 2: the model under its own name and as `fastertransformer`,
// with the tensors of FasterTransformer's GPT backend; Triton's generate, with texts.
#pragma once

#include <span>

#include "protocols/json_body.h"
#include "protocols/kserve_tensor.h"
#include "protocols/reply.h"
#include "protocols/served_model.h"

namespace megalith::protocols {

/// ApiError, status 404, unless it is served under this name, in version 1 or none.
void require_kserve_model(const ServedModel& model, const std::string& name,
                          const std::string& version);
/// What the model takes and gives.
struct NamedTensor {
  const char* name;
  const char* datatype;
  int dims;  // of any size
  bool is_needed = false;
};
std::span<const NamedTensor> kserve_inputs();
std::span<const NamedTensor> kserve_outputs();
/// Rows of a request, and elements of one tensor of its answer.
inline constexpr int64_t kMostRows = 64, kMostAnswerElements = 1 << 22;

/// GET /v2 and GET /v2/models/NAME.
std::string kserve_server_json(const std::string& version);
std::string kserve_model_json(const std::string& name);

/// A model of the repository: the one that is served, or an adapter.
struct RepositoryEntry {
  std::string name;
  std::string_view state;  // "READY", "LOADING", "UNLOADING", "UNAVAILABLE"
};

/// How answers to infer requests are put.
struct InferFormat {
  Body (*encode)(const KserveAnswer&);
  bool streams = false;  // every token is told of as it comes, then the whole
  /// Of what streams: the end of one that failed, by the request's id.
  std::string (*broken_off)(const ApiError&, const std::string&) = nullptr;
};

/// input_ids, input_lengths, request_output_len and what else FasterTransformer
/// takes; gives output_ids, sequence_length and log-probabilities of the plain distribution. `name`
/// is the one that the answer bears.
Prepared prepare_infer(KserveRequest request, const std::string& name, const ServedModel& model,
                       const InferFormat& format);
/// POST .../infer.
Prepared prepare_infer(std::string_view body, std::string_view json_bytes, const std::string& name,
                       const ServedModel& model);
/// POST .../generate and .../generate_stream: {"text_input", "parameters"} to {"text_output"}.
Prepared prepare_kserve_generate(const Json& body, const std::string& name, bool streams,
                                 const ServedModel& model);

}  // namespace megalith::protocols
