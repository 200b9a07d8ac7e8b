// SPDX-License-Identifier: Apache-2.0
// What requests are read against, of a model in a file.
#pragma once

#include <string>

#include "protocols/served_model.h"
#include "store/model_source.h"

namespace megalith::apps {

/// `context`: 0: the model's own. Keeps the source's tokenizer, which must outlive it. Without a
/// chat: who needs one parses the source's files.
protocols::ServedModel served_model(const store::ModelSource& source, std::string name,
                                    int64_t context);

}  // namespace megalith::apps
