// SPDX-License-Identifier: Apache-2.0
// A request that is refused, in the terms of HTTP: what the client is told, and with which status.
#pragma once

#include <string>

#include "base/error.h"

namespace megalith::protocols {

class ApiError : public UserError {
 public:
  /// Of a request that is wrong: status 400, naming the field ("": none).
  template <typename... Args>
  explicit ApiError(std::string param, fmt::format_string<Args...> format, Args&&... args)
      : UserError("{}", fmt::format(format, std::forward<Args>(args)...)),
        param_(std::move(param)) {}

  int status() const { return status_; }
  /// The field that is wrong; empty: none in particular.
  const std::string& param() const { return param_; }
  /// What programs tell errors apart by: "context_length_exceeded".
  std::string reason() const;
  /// Seconds after which another try makes sense; 0: none does.
  int retry_after() const { return retry_after_; }

  ApiError&& with_status(int status) && { return status_ = status, std::move(*this); }
  ApiError&& with_reason(std::string reason) && {
    return reason_ = std::move(reason), std::move(*this);
  }
  ApiError&& with_retry_after(int seconds) && { return retry_after_ = seconds, std::move(*this); }

 private:
  int status_ = 400;
  std::string param_, reason_;
  int retry_after_ = 0;
};

/// {"error": {"message", "type", "param", "code"}}, as OpenAI's interface has it.
std::string openai_error(const ApiError& error);
/// {"error": "..."}, as KServe's has it.
std::string kserve_error(const ApiError& error);

}  // namespace megalith::protocols
