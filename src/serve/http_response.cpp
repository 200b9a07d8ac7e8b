// SPDX-License-Identifier: Apache-2.0
#include "serve/http_response.h"

#include <fmt/format.h>

#include <boost/beast/http/status.hpp>

namespace megalith::serve {

std::string head_of(const HttpResponse& response, int64_t length, bool is_1_1, bool keep_alive) {
  const auto reason = boost::beast::http::obsolete_reason(
      boost::beast::http::int_to_status(static_cast<unsigned>(response.status)));
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nServer: megalith\r\nX-Content-Type-Options: nosniff\r\n",
                  response.status, std::string_view(reason.data(), reason.size()));
  if (!response.content_type.empty())
    head += fmt::format("Content-Type: {}\r\n", response.content_type);
  if (length >= 0) {
    head += fmt::format("Content-Length: {}\r\n", length);
  } else if (is_1_1) {
    head += "Transfer-Encoding: chunked\r\n";
  }
  for (const auto& [name, value] : response.headers) head += fmt::format("{}: {}\r\n", name, value);
  if (!keep_alive) {
    head += "Connection: close\r\n";
  } else if (!is_1_1) {
    head += "Connection: keep-alive\r\n";
  }
  return head + "\r\n";
}

HttpResponse error_response(const protocols::ApiError& error, bool is_kserve) {
  HttpResponse response{
      .status = error.status(),
      .body = is_kserve ? protocols::kserve_error(error) : protocols::openai_error(error)};
  if (error.retry_after() > 0)
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after()));
  if (error.status() == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

std::string chunk_of(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

}  // namespace megalith::serve
