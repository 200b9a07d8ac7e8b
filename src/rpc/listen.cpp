// SPDX-License-Identifier: Apache-2.0
#include "rpc/listen.h"

#include "base/error.h"

namespace megalith::rpc {

namespace asio = boost::asio;
using asio::ip::tcp;

tcp::endpoint endpoint_of(const std::string& host, int port) {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) throw UserError("--host {} is no IP address", host);
  return {address, static_cast<uint16_t>(port)};
}

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return fmt::format("{}:{}", endpoint.address().is_v6() ? "[" + host + "]" : host,
                     endpoint.port());
}

void listen(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, const char* option) {
  try {
    acceptor.open(endpoint.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen();
  } catch (const boost::system::system_error& error) {
    throw SystemError("cannot listen on {}: {}; give another {}, 0 for any that is free",
                      text_of(endpoint), error.code().message(), option);
  }
}

}  // namespace megalith::rpc
