// SPDX-License-Identifier: Apache-2.0
#include "rpc/rpc_listener.h"

#include <sys/stat.h>

#include "rpc/listen.h"

namespace megalith::rpc {
namespace {

using boost::asio::ip::tcp;

constexpr auto kRetry = std::chrono::milliseconds(100);

/// The socket behind a descriptor, by a number that no other one has; 0: there is none.
uint64_t socket_of(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

}  // namespace

RpcListener::RpcListener(boost::asio::io_context& io, const tcp::endpoint& endpoint, size_t most,
                         RpcServer& server)
    : acceptor_(io), retry_(io), most_(most), server_(server) {
  listen(acceptor_, endpoint, "--grpc-port");
  address_ = text_of(acceptor_.local_endpoint());
  accept();
}

void RpcListener::accept() {
  acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (error) {  // no descriptors left, say: later there may be
      retry_.expires_after(kRetry);
      return retry_.async_wait([this](const boost::system::error_code& ended) {
        if (!ended) accept();
      });
    }
    accept();  // first, so that no error below ends it
    take(std::move(socket));
  });
}

void RpcListener::take(tcp::socket socket) {
  if (open_.size() >= most_) forget_closed();
  if (open_.size() >= most_) return;  // it is closed
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return;  // it has gone
  socket.native_non_blocking(true, error);
  socket.set_option(tcp::no_delay(true), error);
  const int descriptor = socket.release();
  open_[descriptor] = socket_of(descriptor);
  server_.adopt(descriptor, peer.address().to_string());
}

/// gRPC does not tell when it closes one.
void RpcListener::forget_closed() {
  std::erase_if(open_, [](const auto& one) { return socket_of(one.first) != one.second; });
}

void RpcListener::close() {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
}

}  // namespace megalith::rpc
