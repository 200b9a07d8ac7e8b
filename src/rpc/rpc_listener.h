// SPDX-License-Identifier: Apache-2.0
// Takes connections for gRPC, whose library stops listening for good where no descriptors are left
// for a moment, and counts them. All calls are of the thread of the sockets.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <string>

#include "rpc/rpc_server.h"

namespace megalith::rpc {

class RpcListener {
 public:
  /// Listens from here on; beyond `most` connections at once further ones are closed. `server` must
  /// outlive it. SystemError when the address cannot be had.
  RpcListener(boost::asio::io_context& io, const boost::asio::ip::tcp::endpoint& endpoint,
              size_t most, RpcServer& server);
  const std::string& address() const { return address_; }
  void close();

 private:
  void accept();
  void take(boost::asio::ip::tcp::socket socket);
  void forget_closed();

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  std::string address_;
  size_t most_;
  RpcServer& server_;
  std::map<int, uint64_t> open_;  // descriptors handed over, and which sockets they were
};

}  // namespace megalith::rpc
