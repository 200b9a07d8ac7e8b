// SPDX-License-Identifier: Apache-2.0
#include "protocols/api_error.h"

#include <nlohmann/json.hpp>

#include "protocols/json_body.h"

namespace megalith::protocols {
namespace {

const char* type_of_status(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 500:
      return "server_error";
    case 503:
      return "unavailable_error";
    case 504:
      return "timeout_error";
    default:
      return "invalid_request_error";
  }
}

const char* reason_of_status(int status) {
  switch (status) {
    case 401:
      return "invalid_api_key";
    case 403:
      return "forbidden";
    case 404:
      return "not_found";
    case 405:
      return "method_not_allowed";
    case 408:
      return "request_timeout";
    case 413:
      return "request_too_large";
    case 415:
      return "unsupported_media_type";
    case 429:
      return "queue_full";
    case 431:
      return "headers_too_large";
    case 500:
      return "internal_error";
    case 503:
      return "unavailable";
    case 504:
      return "deadline_exceeded";
    default:
      return "invalid_value";
  }
}

}  // namespace

std::string ApiError::reason() const {
  return reason_.empty() ? reason_of_status(status_) : reason_;
}

std::string openai_error(const ApiError& error) {
  const Json param = error.param().empty() ? Json() : Json(error.param());
  return text_of_json({{"error",
                        {{"message", error.what()},
                         {"type", type_of_status(error.status())},
                         {"param", param},
                         {"code", error.reason()}}}});
}

std::string kserve_error(const ApiError& error) { return text_of_json({{"error", error.what()}}); }

}  // namespace megalith::protocols
