// SPDX-License-Identifier: Apache-2.0
// What a client is sent, and the way to send it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace megalith::serve {

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};
};

/// The bytes before the body. `length`: Content-Length, or of a stream absent (-1).
std::string head_of(const HttpResponse& response, int64_t length, bool is_1_1, bool keep_alive);
/// A piece of a body whose length is not known.
std::string chunk_of(std::string_view data);

/// The answer to one request: whole, or a head and then pieces. Every call is one of the thread of
/// the sockets. Calls after the client has gone do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void respond(HttpResponse response) = 0;
  virtual void begin_stream(HttpResponse head) = 0;
  virtual void send(std::string_view data) = 0;
  virtual void end_stream() = 0;
  /// Called when the client goes before it has its answer; then nothing can be sent.
  std::function<void()> on_gone;
};

}  // namespace megalith::serve
