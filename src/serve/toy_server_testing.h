// SPDX-License-Identifier: Apache-2.0
// Tests only: what a server of the toy model is started with, and asked.
#pragma once

#include "rpc/bare_connection_testing.h"
#include "serve/server.h"
#include "serve/toy_loop_testing.h"

namespace megalith::serve {

inline protocols::ServedModel toy_model() {
  protocols::ServedModel model;
  model.name = "toy";
  model.vocab = toy_spec().vocab;
  model.context = kToyContext;
  return model;
}

inline ServerOptions any_port() {
  ServerOptions options;
  options.port = 0;
  return options;
}

/// All that the server says to one request over HTTP.
inline std::string answer(const std::string& address, const std::string& method,
                          const std::string& path, const std::string& body = "") {
  return rpc::said_to(address, fmt::format("{} {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                                           "Content-Length: {}\r\n\r\n{}",
                                           method, path, body.size(), body));
}

}  // namespace megalith::serve
