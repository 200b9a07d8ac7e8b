// SPDX-License-Identifier: Apache-2.0
// What tasks need of a model beside its weights.
#pragma once

#include "evaluate/task_evaluation.h"
#include "store/model_source.h"

namespace megalith::apps {

/// `source` must outlive it. The token before a text without a context is the one that begins a
/// text, else the one that ends it, as tokenizer_config.json says or else the model. UserError,
/// naming `path`, if there is none or no tokenizer.
evaluate::ModelText model_text(const store::ModelSource& source, const std::string& path);

}  // namespace megalith::apps
