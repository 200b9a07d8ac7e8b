// SPDX-License-Identifier: Apache-2.0
// What a client is sent, and the way to send it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocols/api_error.h"

namespace megalith::serve {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  HttpHeaders headers{};
};

/// The bytes before the body. `length`: Content-Length, or of a stream absent (-1).
std::string head_of(const HttpResponse& response, int64_t length, bool is_1_1, bool keep_alive);
/// What is answered where a request is refused.
HttpResponse error_response(const protocols::ApiError& error, bool is_kserve);
/// A piece of a body whose length is not known.
std::string chunk_of(std::string_view data);

/// The answer to one request: whole, or a head and then pieces. Every call is one of the thread of
/// the sockets. Calls after the client has gone do nothing. Interfaces other than HTTP send bodies
/// and pieces alone.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Headers that the answer has whatever it is; to be set before it begins.
  HttpHeaders headers;
  bool is_kserve = false;  // whose errors are its own
  void respond(HttpResponse response) { write_whole(with_headers(std::move(response))); }
  /// In place of an answer.
  virtual void refuse(const protocols::ApiError& error) {
    respond(error_response(error, is_kserve));
  }
  /// What was asked is done, and there is no more to say.
  virtual void confirm() { respond({.body = "{}"}); }
  void begin_stream(HttpResponse head) { write_head(with_headers(std::move(head))); }
  virtual void send(std::string_view data) = 0;
  virtual void end_stream() = 0;
  /// Called when the client goes before it has its answer; then nothing can be sent.
  std::function<void()> on_gone;

 private:
  virtual void write_whole(HttpResponse response) = 0;
  virtual void write_head(HttpResponse head) = 0;
  HttpResponse with_headers(HttpResponse response) const {
    response.headers.insert(response.headers.end(), headers.begin(), headers.end());
    return response;
  }
};

}  // namespace megalith::serve
