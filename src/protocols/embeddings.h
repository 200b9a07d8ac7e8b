// SPDX-License-Identifier: Apache-2.0
// OpenAI's POST /v1/embeddings.
#pragma once

#include <functional>

#include "inference/sequence_reader.h"
#include "protocols/json_body.h"
#include "protocols/reply.h"
#include "protocols/served_model.h"

namespace megalith::protocols {

struct PreparedReading {
  std::vector<inference::Reading> readings;
  /// The answer, of one vector for each reading; they are scaled to length 1 here.
  std::function<Body(std::vector<std::vector<double>>)> answer;
};

/// ApiError naming the field that is wrong, or where the model has no vectors.
PreparedReading prepare_embeddings(const Json& body, const ServedModel& model);

}  // namespace megalith::protocols
