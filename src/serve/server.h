// SPDX-License-Identifier: Apache-2.0
// The server: one thread for all sockets, one more that reads bodies (templates, tokens), and the
// caller's for the engine.
#pragma once

#include <memory>
#include <string>

#include "serve/service.h"

namespace megalith::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: a free one
  int64_t most_connections = 256;
  double header_seconds = 20, body_seconds = 30;
  double drain_seconds = 30;
  double stuck_seconds = 30;  // of one pass, after which it is told of
  ServiceOptions service;
};

class Server {
 public:
  /// Listens from here on; until open() requests are answered with 503. SystemError when the
  /// address cannot be had, UserError when it is none.
  explicit Server(const ServerOptions& options);
  /// Ends what is open with an error, and the threads.
  ~Server();
  /// "127.0.0.1:8000"
  const std::string& address() const;

  /// Takes requests for the engine from now on, until SIGTERM or SIGINT: then no new ones, and when
  /// those that are here have ended, or after drain_seconds, the loop is stopped. `loop` and what
  /// the model points to must outlive the server.
  void open(protocols::ServedModel model, EngineLoop& loop, OpenAdapter open_adapter = {});
  /// Hands the loop's events over; for EngineLoop, of its thread.
  void deliver(std::vector<Event> events);

 private:
  struct Running;
  std::unique_ptr<Running> running_;
};

}  // namespace megalith::serve
