// SPDX-License-Identifier: Apache-2.0
// What requests are read against: the facts of the model that is served.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/prompt_marks.h"
#include "chat/conversation.h"
#include "grammars/matcher_cache.h"
#include "protocols/json_body.h"
#include "text/tokenizer.h"

namespace megalith::protocols {

struct ServedModel {
  std::string name;
  int64_t created = 0;  // seconds since 1970
  int64_t vocab = 0;    // ids that requests may name
  int64_t context = 0;  // positions of a sequence: prompt and new tokens, without virtual ones
  bool writes = true;   // has texts to give
  bool embeds = false;  // has vectors to give
  bool is_encoder_decoder = false;
  bool has_types = false;  // of tokens: which of two texts they belong to
  std::vector<int32_t> end_ids;
  std::optional<int32_t> begin_id, pad_id;
  const text::Tokenizer* tokenizer = nullptr;        // must outlive it; may be null
  const chat::ChatFolder* chat = nullptr;            // the same
  std::shared_ptr<grammars::MatcherCache> grammars;  // of the tokenizer; null without one
  std::string chat_template;                         // as /tokenizer_info tells it; may be empty
  int64_t most_sequences = INT64_MAX;                // that one request may ask for
  int64_t most_beams = INT64_MAX;  // of one search: texts that are written at once

  /// The same with adapters, each under a name of its own; what is true of them all stands in each.
  std::vector<ServedModel> adapters;
  std::string parent;  // of an adapter the model's name
  /// Of one whose virtual tokens stand in texts, where these have marks; else null. Their ids are
  /// those behind the vocabulary.
  std::shared_ptr<const adapters::PromptMarks> marks;
};

/// The adapter of this name, or the model itself.
const ServedModel& model_named(const ServedModel& model, std::string_view name);
/// That which the field "model" of a body names.
const ServedModel& model_asked(const ServedModel& model, const Json& body);
/// Adds adapters of these names to a model that is described as a whole.
void add_adapters(ServedModel& model, std::span<const std::string> names);

/// ApiError, status 404, unless `name` is the served one.
void require_model(const ServedModel& model, std::string_view name);
/// ApiError unless texts can be encoded.
const text::Tokenizer& require_tokenizer(const ServedModel& model, const std::string& param);

/// The text's tokens; `special`: with those that the post-processor adds. ApiError unless it has
/// the marks that the model's virtual tokens stand in place of, if there are any.
std::vector<int32_t> tokens_of(const ServedModel& model, std::string_view text, bool special,
                               const std::string& param);
/// The same of a prompt. An empty text is an end token, if there is one: a document begins after
/// it.
std::vector<int32_t> encode_text(const ServedModel& model, std::string_view text, bool special,
                                 const std::string& param);

/// Ids of a prompt are below it.
int64_t prompt_vocab(const ServedModel& model);
/// ApiError unless a prompt that came as ids has those of virtual tokens as texts would have them.
void check_virtual(const ServedModel& model, std::span<const int32_t> ids,
                   const std::string& param);
/// Of a prompt's so many tokens those that are counted: virtual ones are not, wherever they stand.
int64_t counted_tokens(const ServedModel& model, size_t prompt);

/// The new tokens that a prompt leaves room for. `asked`: by the request; `otherwise`: without (no
/// more than there is room). ApiError when it does not fit.
int64_t new_tokens(const ServedModel& model, size_t prompt, std::optional<int64_t> asked,
                   int64_t otherwise, const std::string& param);

}  // namespace megalith::protocols
