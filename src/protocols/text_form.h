// SPDX-License-Identifier: Apache-2.0
// What a request holds its texts to: OpenAI's response_format, vLLM's guided_json, guided_regex and
// guided_choice, and structured_outputs, which has the same under one name.
#pragma once

#include <memory>
#include <span>

#include "generate/token_constraint.h"
#include "grammars/matcher_cache.h"
#include "protocols/fields.h"
#include "protocols/served_model.h"

namespace megalith::protocols {

using TextForm = std::shared_ptr<grammars::TokenMatcher>;

/// Null: to nothing. ApiError naming the field, and the place in a schema; status 503 where as many
/// grammars are in use as may be.
TextForm read_text_form(Fields& fields, const ServedModel& model);
/// Texts of one line that fit a JSON schema: programs alone read calls of tools, and models write
/// them so. `where`: its field.
TextForm form_of_calls(const Json& schema, const std::string& where, const ServedModel& model);

/// The beginning of a text that goes on from `prompt`; null without a form.
std::shared_ptr<const generate::TokenConstraint> beginning_of(const TextForm& form,
                                                              std::span<const int32_t> prompt,
                                                              const ServedModel& model);

}  // namespace megalith::protocols
