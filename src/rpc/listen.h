// SPDX-License-Identifier: Apache-2.0
// Where a server listens.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

namespace megalith::rpc {

/// "localhost" or an IP address; otherwise UserError.
boost::asio::ip::tcp::endpoint endpoint_of(const std::string& host, int port);
/// "127.0.0.1:8000"
std::string text_of(const boost::asio::ip::tcp::endpoint& endpoint);
/// SystemError when it cannot; `option` is what the port was given with.
void listen(boost::asio::ip::tcp::acceptor& acceptor,
            const boost::asio::ip::tcp::endpoint& endpoint, const char* option);

}  // namespace megalith::rpc
