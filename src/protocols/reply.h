// SPDX-License-Identifier: Apache-2.0
// A request that was understood: the sequences to write for it, and how what is written becomes
// what the client is sent. Knows neither sockets nor threads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "generate/continuation.h"
#include "generate/token_constraint.h"
#include "protocols/api_error.h"
#include "text/tokenizer.h"

namespace megalith::protocols {

/// One token as it was chosen.
struct Token {
  generate::Choice choice{};
  std::vector<generate::Choice> alternatives{};  // most likely first; if asked for
  std::string text{};                            // that became certain with it
};

/// What one sequence came to.
struct Written {
  generate::Generated result{};
  std::vector<Token> tokens{};  // of the result's ids
};

/// The texts of a search as if each had been asked for: of the best its tokens were told; those of
/// the others, which go on from `before` too, are made here. `tokenizer` may be null. Of other
/// requests the one text.
std::vector<Written> texts_of_search(Written written, const text::Tokenizer* tokenizer,
                                     std::span<const int32_t> before);

struct Body {
  std::string content_type = "application/json";
  std::string text{};
  std::vector<std::pair<std::string, std::string>> headers{};
};

/// One server-sent event.
std::string event_of(std::string_view data);

/// Makes the answer to one request of sequences 0, 1, ...
class Reply {
 public:
  virtual ~Reply() = default;
  /// Whether pieces are sent while it is written: server-sent events, or messages.
  bool streams = false;

  /// Only of what streams: what to send first, with a token, and when a sequence has ended. May be
  /// empty; of messages one at most.
  virtual std::string begin() { return ""; }
  virtual std::string on_token(size_t sequence, const Token& token) {
    return (void)sequence, (void)token, "";
  }
  virtual std::string on_end(size_t sequence, const Written& written) {
    return (void)sequence, (void)written, "";
  }
  /// All sequences have ended: what is left to send, of what streams not the body but the rest.
  virtual Body finish(std::vector<Written> written) = 0;
  /// The end of a stream that fails.
  virtual std::string broken_off(const ApiError& error) const {
    return event_of(openai_error(error)) + "data: [DONE]\n\n";
  }
};

struct PreparedSequence {
  std::vector<int32_t> prompt{};
  generate::GenerateOptions options{};
  /// The beginning of what it is held to, which each text of it clones. May be null.
  std::shared_ptr<const generate::TokenConstraint> allowed{};
};

struct Prepared {
  std::vector<PreparedSequence> sequences{};
  std::unique_ptr<Reply> reply{};
  std::string user;    // as the request names it; may be empty
  double timeout = 0;  // seconds that the client gives it; 0: the server's
  std::vector<std::string> unknown_fields{};
};

}  // namespace megalith::protocols
