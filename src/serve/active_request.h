// SPDX-License-Identifier: Apache-2.0
// A request between its arrival and its answer. Private to the service.
#pragma once

#include "serve/service.h"

namespace megalith::serve {

struct Service::Active {
  std::shared_ptr<Exchange> exchange;
  std::string client, path;
  double begin = 0, deadline = 0;
  uint64_t ticket = 0;
  bool is_gone = false;  // the client, before there was a ticket
  bool streams = false;  // its head was sent

  std::unique_ptr<protocols::Reply> reply;
  std::vector<int64_t> prompt_lengths;  // of sequences
  std::vector<protocols::Written> written;
  std::vector<std::vector<protocols::Token>> tokens;
  std::vector<double> last_tokens;  // when they came; 0: none did
  size_t left = 0;
  std::optional<protocols::PreparedReading> reading;
};

HttpResponse response_of(protocols::Body body);
/// Why no requests are taken.
protocols::ApiError not_ready(Service::Phase phase);

}  // namespace megalith::serve
