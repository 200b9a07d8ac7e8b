// SPDX-License-Identifier: Apache-2.0
// The fields that completions and chats share: how the next token is drawn, where a text ends, how
// the answer is sent.
#pragma once

#include "protocols/fields.h"
#include "protocols/reply.h"
#include "protocols/served_model.h"
#include "protocols/text_form.h"

namespace megalith::protocols {

/// Most of each that one request may have.
inline constexpr int64_t kMostChoices = 8;
inline constexpr size_t kMostPrompts = 64;
inline constexpr size_t kMostStops = 16, kMostStopBytes = 256;
inline constexpr size_t kMostBiases = 300;
inline constexpr int64_t kMostTopLogprobs = 20;
inline constexpr size_t kMostUserBytes = 256;

struct GenerationFields {
  generate::GenerateOptions options;  // all but the number of new tokens and what to tell of them
  int64_t n = 1, best_of = 1;         // texts of each prompt; of how many they are the best
  bool stream = false;
  bool include_usage = false;
  std::string user;
  std::optional<int64_t> truncate_prompt;  // its last tokens alone
  bool tokens_as_ids = false;              // "token_id:17"
  bool return_ids = false;
  TextForm form;  // that the texts are held to
  /// Of each prompt: a search is one.
  int64_t sequences() const { return options.beams > 1 ? 1 : best_of; }
};

/// Reads and checks them; without a seed it is drawn.
GenerationFields read_generation(Fields& fields, const ServedModel& model);

/// The prompt's last tokens, if the request asks for that; virtual ones are not counted. ApiError
/// when one of these would be left out.
void truncate(std::vector<int32_t>& prompt, const GenerationFields& fields,
              const ServedModel& model);

/// A text that goes on from the prompt, truncated as the fields say.
PreparedSequence sequence_of(std::vector<int32_t> prompt, const GenerationFields& fields,
                             const ServedModel& model);

/// `count` sequences like this one, which differ in their seeds alone.
void add_sequences(std::vector<PreparedSequence>& sequences, const PreparedSequence& sequence,
                   int64_t count);

/// ApiError when there are more sequences than the server takes at once.
void require_places(const ServedModel& model, size_t sequences);

/// {"prompt_tokens", "completion_tokens", "total_tokens"}
Json usage_of(int64_t prompt, int64_t completion);

/// "cmpl-" and random digits.
std::string new_id(std::string_view prefix);
/// Since 1970.
int64_t unix_seconds();

}  // namespace megalith::protocols
