// SPDX-License-Identifier: Apache-2.0
// What is said of the model: OpenAI's GET /v1/models, and the tokenizer's facts.
#pragma once

#include "protocols/served_model.h"

namespace megalith::protocols {

/// {"object": "list", "data": [...]}: the model, and the adapters of these names.
std::string models_json(const ServedModel& model, std::span<const std::string> adapters);
/// One of these.
std::string model_json(const ServedModel& model);
/// GET /tokenizer_info. ApiError, status 404, without a tokenizer.
std::string tokenizer_info_json(const ServedModel& model);

}  // namespace megalith::protocols
