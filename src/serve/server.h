// SPDX-License-Identifier: Apache-2.0
// The server: one thread for all sockets, one that reads bodies (templates, tokens), one for what
// takes longer (grammars, adapters' files), and the caller's for the engine. gRPC's library has
// sockets and threads of its own, behind a plug-in.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/service.h"

namespace megalith::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;                 // 0: a free one
  std::optional<int> grpc_port{};  // the same; nothing: no gRPC
  bool requires_grpc = false;      // where it cannot be had: an error, else a warning
  int64_t most_connections = 256;
  double header_seconds = 20, body_seconds = 30;
  double drain_seconds = 30;
  double stuck_seconds = 30;         // of one pass, after which it is told of
  double idle_stream_seconds = 600;  // without a request, of gRPC
  /// Called on SIGTERM or SIGINT before open(), on the thread of the sockets. It may end the
  /// process; else open() ends at once what it opens.
  std::function<void()> end_loading{};
  ServiceOptions service;
};

class Server {
 public:
  /// Listens from here on; until open() requests are answered with 503. SystemError when an
  /// address or the plug-in cannot be had, UserError when it is no address.
  explicit Server(const ServerOptions& options);
  /// Ends what is open with an error, and the threads.
  ~Server();
  /// "127.0.0.1:8000"
  const std::string& address() const;
  /// The same for gRPC; empty without.
  const std::string& grpc_address() const;

  /// Takes requests for the engine from when it returns, until SIGTERM or SIGINT: then no new
  /// ones, and when those that are here have ended, or after drain_seconds, the loop is stopped.
  /// `loop` and what the model points to must outlive the server.
  void open(protocols::ServedModel model, EngineLoop& loop, OpenAdapter open_adapter = {});
  /// Hands the loop's events over; for EngineLoop, of its thread.
  void deliver(std::vector<Event> events);

 private:
  struct Running;
  std::unique_ptr<Running> running_;
};

}  // namespace megalith::serve
