// SPDX-License-Identifier: Apache-2.0
#include "serve/http_request.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <charconv>
#include <optional>

#include "protocols/api_error.h"

namespace megalith::serve {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;
using protocols::ApiError;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// "%2F" as "/"; false if a percent sign begins no byte, or a byte is a control character.
bool percent_decode(std::string_view text, std::string& decoded) {
  decoded.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return false;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return false;
    decoded += c;
  }
  return true;
}

[[noreturn]] void raise_parse_error(const error_code& error) {
  if (error == http::error::header_limit)
    throw ApiError("", "the headers are too large").with_status(431);
  if (error == http::error::body_limit)
    throw ApiError("", "the body is too large").with_status(413);
  if (error == http::error::bad_version)
    throw ApiError("", "only HTTP/1.1 and HTTP/1.0 are supported").with_status(505);
  throw ApiError("", "not an HTTP request: {}", error.message());
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

/// Errors of ours leave the hooks by way of `fault`: Beast has none for them.
class RequestParser::Parser : public http::basic_parser<true> {
 public:
  explicit Parser(const HttpLimits& limits) : limits_(limits) {
    eager(true);
    header_limit(static_cast<uint32_t>(limits.header_bytes));
    body_limit(boost::none);
  }
  HttpRequest made;
  std::optional<ApiError> fault;
  bool has_header = false;

 private:
  void refuse(ApiError error, error_code& code) {
    fault = std::move(error);
    code = http::error::bad_field;
  }

  void on_request_impl(http::verb, string_view method, string_view target, int version,
                       error_code& code) override {
    made.method = std::string(method);
    made.is_1_1 = version == 11;
    if (version != 10 && version != 11)
      return refuse(ApiError("", "only HTTP/1.1 and HTTP/1.0 are supported").with_status(505),
                    code);
    if (target.size() > limits_.target_bytes)
      return refuse(ApiError("", "the request target is longer than {} bytes", limits_.target_bytes)
                        .with_status(414),
                    code);
    std::string_view path(target.data(), target.size());
    for (const std::string_view scheme : {"http://", "https://"}) {
      if (!lower_case(path.substr(0, scheme.size())).starts_with(scheme)) continue;
      const size_t slash = path.find('/', scheme.size());
      path = slash == std::string_view::npos ? "/" : path.substr(slash);
    }
    const size_t mark = std::min(path.find('?'), path.size());
    if (mark < path.size()) made.query = std::string(path.substr(mark + 1));
    if (!percent_decode(path.substr(0, mark), made.path))
      refuse(ApiError("", "the request target is not valid"), code);
  }
  void on_response_impl(int, string_view, int, error_code&) override {}

  void on_field_impl(http::field, string_view name, string_view value, error_code& code) override {
    if (++fields_ > limits_.headers)
      return refuse(ApiError("", "more than {} headers", limits_.headers).with_status(431), code);
    if (has_header) return;  // behind the body: of no use here
    made.headers.emplace_back(lower_case({name.data(), name.size()}),
                              std::string(value.data(), value.size()));
  }

  size_t count_headers(std::string_view name) const {
    return static_cast<size_t>(std::ranges::count_if(
        made.headers, [&](const auto& header) { return header.first == name; }));
  }

  /// What is told twice, or in two ways, could be read differently by a proxy: where one request
  /// ends and the next begins would then be the client's to choose.
  std::optional<ApiError> framing_fault() const {
    const size_t lengths = count_headers("content-length");
    const size_t codings = count_headers("transfer-encoding");
    if (lengths > 1) return ApiError("", "Content-Length comes {} times", lengths);
    const std::string_view length = made.header("content-length");
    if (lengths == 1 && (length.empty() || length.find_first_not_of("0123456789") != length.npos))
      return ApiError("", "Content-Length is not a number");
    if (lengths + codings > 1)
      return ApiError("", "Content-Length and Transfer-Encoding exclude each other");
    if (codings == 1 && (lower_case(made.header("transfer-encoding")) != "chunked" || !made.is_1_1))
      return ApiError("", "the only Transfer-Encoding supported is chunked");
    const size_t hosts = count_headers("host");
    if (hosts > 1 || (hosts == 0 && made.is_1_1))
      return ApiError("", "there must be one Host header, not {}", hosts);
    const std::string_view coding = made.header("content-encoding");
    if (!coding.empty() && lower_case(coding) != "identity")
      return ApiError("", "Content-Encoding is not supported").with_status(415);
    const std::string_view expects = made.header("expect");
    if (!expects.empty() && lower_case(expects) != "100-continue")
      return ApiError("", "the only Expect supported is 100-continue").with_status(417);
    return {};
  }

  /// Of a length that is beyond all numbers, the largest.
  uint64_t announced_body() const {
    const std::string_view length = made.header("content-length");
    uint64_t bytes = 0;
    const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
    return error == std::errc::result_out_of_range ? UINT64_MAX : bytes;
  }

  void on_header_impl(error_code& code) override {
    has_header = true;
    made.keep_alive = keep_alive();
    fields_ = 0;
    most_body_ = made.path.starts_with("/v2/") ? limits_.kserve_body_bytes : limits_.body_bytes;
    if (auto wrong = framing_fault()) return refuse(std::move(*wrong), code);
    if (announced_body() > most_body_) refuse_size(code);
  }
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
  size_t on_body_impl(string_view body, error_code& code) override {
    if (made.body.size() + body.size() > most_body_) {
      refuse_size(code);
      return 0;
    }
    made.body.append(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(uint64_t size, string_view extensions, error_code& code) override {
    if (++chunks_ > limits_.chunks || extensions.size() > 256)
      return refuse(ApiError("", "the body comes in too many pieces").with_status(413), code);
    if (size > most_body_ - std::min(most_body_, made.body.size())) refuse_size(code);
  }
  size_t on_chunk_body_impl(uint64_t, string_view body, error_code& code) override {
    return on_body_impl(body, code);
  }
  void on_finish_impl(error_code&) override {}

  void refuse_size(error_code& code) {
    refuse(ApiError("", "the body is larger than {} bytes", most_body_).with_status(413), code);
  }

  const HttpLimits limits_;
  size_t fields_ = 0, chunks_ = 0, most_body_ = 0;
};

RequestParser::RequestParser(const HttpLimits& limits)
    : parser_(std::make_unique<Parser>(limits)) {}
RequestParser::~RequestParser() = default;

size_t RequestParser::feed(std::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size() && !parser_->is_done()) {
    error_code error;
    const size_t more =
        parser_->put(boost::asio::const_buffer(bytes.data() + taken, bytes.size() - taken), error);
    taken += more;
    if (parser_->fault) throw *std::exchange(parser_->fault, {});
    if (error == http::error::need_more) break;
    if (error) raise_parse_error(error);
    if (more == 0) break;
  }
  return taken;
}

bool RequestParser::has_header() const { return parser_->has_header; }
bool RequestParser::is_done() const { return parser_->is_done(); }
bool RequestParser::waits_for_continue() const {
  return has_header() && !is_done() && !parser_->made.header("expect").empty();
}
HttpRequest& RequestParser::request() { return parser_->made; }

}  // namespace megalith::serve
