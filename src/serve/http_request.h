// SPDX-License-Identifier: Apache-2.0
// HTTP/1 requests from bytes as they come (Boost.Beast's parser behind checks of our own: what two
// servers could read differently is refused). Knows no sockets.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace megalith::serve {

struct HttpRequest {
  std::string method{};
  std::string path{};   // without query, percent-decoded
  std::string query{};  // as it came
  bool is_1_1 = true;
  bool keep_alive = true;
  std::vector<std::pair<std::string, std::string>> headers{};  // names in lower case
  std::string body{};
  std::string peer{};  // address of the client

  /// The header's value, of several the first; empty if there is none.
  std::string_view header(std::string_view lower_case_name) const;
};

struct HttpLimits {
  size_t target_bytes = 8 << 10;
  size_t header_bytes = 32 << 10;
  size_t headers = 100;
  size_t body_bytes = 8 << 20;
  size_t kserve_body_bytes = 64 << 20;  // of paths below /v2/
  size_t chunks = 65'536;
};

class RequestParser {
 public:
  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();

  /// Reads on and returns how many of the bytes it is done with; the others are to be given again,
  /// with more behind them. Nothing is read beyond the request's end. ApiError, after which it is
  /// of no use, if this is no request that may be answered otherwise.
  size_t feed(std::string_view bytes);
  bool has_header() const;
  bool is_done() const;
  /// The client waits for "100 Continue" before it sends the body.
  bool waits_for_continue() const;
  /// What is known of it; whole when it is done.
  HttpRequest& request();

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace megalith::serve
