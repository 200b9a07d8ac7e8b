// SPDX-License-Identifier: Apache-2.0
// Texts that a task asks for, many at once.
#pragma once

#include "evaluate/task_evaluation.h"
#include "inference/inference_engine.h"

namespace megalith::evaluate {

/// What the model writes behind each context, always the most likely token, up to the first of the
/// texts of `until` or of the text of an end token; decoded apart from the context. In order.
/// Collective over the ranks of the model, all of which get the texts.
std::vector<std::string> write_texts(inference::InferenceEngine& engine, const ModelText& model,
                                     const tasks::Generation& generation,
                                     std::span<const std::vector<int32_t>> contexts,
                                     const OnDocuments& on_documents = {});

}  // namespace megalith::evaluate
