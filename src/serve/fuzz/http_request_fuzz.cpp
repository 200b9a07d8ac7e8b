// SPDX-License-Identifier: Apache-2.0
// The bytes of a connection: which requests they are does not depend on where they were cut. (When
// bytes that are none are refused, and how, does.)
#include "base/fuzz/fuzz_input.h"
#include "protocols/api_error.h"
#include "serve/http_request.h"

namespace {

using namespace megalith;
using namespace megalith::serve;

/// All requests before the first that is refused.
std::string read_in_pieces(std::string_view bytes, size_t piece) {
  HttpLimits limits;
  limits.body_bytes = 1 << 10;
  limits.chunks = 64;
  std::string all, rest;
  auto parser = std::make_unique<RequestParser>(limits);
  try {
    while (!bytes.empty()) {
      rest += bytes.substr(0, piece);
      bytes.remove_prefix(std::min(piece, bytes.size()));
      for (;;) {
        rest.erase(0, parser->feed(rest));
        if (!parser->is_done()) break;
        const HttpRequest& request = parser->request();
        MEGA_CHECK_LE(request.body.size(), limits.kserve_body_bytes);
        MEGA_CHECK_LE(request.headers.size(), limits.headers);
        all += request.method + " " + request.path + "?" + request.query + "\n";
        for (const auto& [name, value] : request.headers) all += name + ":" + value + "\n";
        all += request.body + "\n";
        parser = std::make_unique<RequestParser>(limits);
        if (rest.empty()) break;
      }
    }
  } catch (const protocols::ApiError& error) {
    MEGA_CHECK(error.status() >= 400 && *error.what() != 0);
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes = fuzz::text_of(data + 1, size - 1);
  const std::string whole = read_in_pieces(bytes, bytes.size() + 1);
  MEGA_CHECK(whole == read_in_pieces(bytes, data[0] % 16 + 1), "it depends on the cuts");
  return 0;
}
