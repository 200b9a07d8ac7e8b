// SPDX-License-Identifier: Apache-2.0
// What a batch generator is asked for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "generate/continuation.h"
#include "generate/token_constraint.h"
#include "layers/adapter.h"

namespace megalith::generate {

/// One token of a text, as it comes.
struct TextToken {
  Choice choice;
  std::span<const Choice> alternatives;  // as Generated::top_logprobs
  /// What became certain with it: what on_text is given next. What an end token makes certain is
  /// on_text's alone.
  std::string_view text;
};

/// What a request is read and written with beside the model.
struct UsedAdapter {
  std::shared_ptr<const layers::Adapter> adapter;
  /// Its own among all that the generator is ever given: what was read with one of another number
  /// is not taken as read with it. 0: none.
  uint64_t number = 0;
};

struct Request {
  std::vector<int32_t> prompt;  // an encoder-decoder's is what its encoder reads
  GenerateOptions options = {};
  std::string client = {};  // clients are served alike
  UsedAdapter adapter = {};
  /// Text that is certain, as it comes; from within step(), which it must not call back. May be
  /// absent.
  std::function<void(std::string_view piece)> on_text = {};
  /// Each token of the text (not the one that ends it), likewise; on_text comes after.
  std::function<void(const TextToken& token)> on_token = {};
  /// Once, unless it is cancelled; from within step().
  std::function<void(Generated result)> on_end = {};
  /// What the text keeps to; each rank has one of its own, in the same state. May be absent.
  std::unique_ptr<TokenConstraint> allowed = {};
};

}  // namespace megalith::generate
