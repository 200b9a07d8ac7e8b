// SPDX-License-Identifier: Apache-2.0
// Messages of a request through the model's chat template.
#pragma once

#include "protocols/fields.h"
#include "protocols/served_model.h"

namespace megalith::protocols {

/// Reads messages, add_generation_prompt and chat_template_kwargs; the text that the template makes
/// of them. `tools`: the list of those that are offered, or null. ApiError when there is no
/// template, it refuses them, or it takes no tools and there are some.
std::string read_chat(Fields& fields, const ServedModel& model, const Json* tools);

}  // namespace megalith::protocols
