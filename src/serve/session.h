// SPDX-License-Identifier: Apache-2.0
// One connection: requests in, answers out, one after the other (keep-alive, pipelining). Every
// wait has an end. All calls are of the one thread that runs the sockets.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/http_request.h"
#include "serve/http_response.h"

namespace megalith::serve {

struct SessionOptions {
  HttpLimits limits;
  size_t most_held = 256 << 20;  // bytes of bodies, of all sessions
  mutable size_t held = 0;       // of these
  double header_seconds = 20;
  double body_seconds = 30;
  double idle_seconds = 75;   // between requests
  double write_seconds = 30;  // without the client taking anything
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Handler = std::function<void(HttpRequest, std::shared_ptr<Exchange>)>;
  /// `options` and `handler` must outlive it; `on_closed` is called once.
  Session(boost::asio::ip::tcp::socket socket, const SessionOptions& options,
          const Handler& handler, std::function<void()> on_closed);
  ~Session();

  void start();
  /// Ends it: at once where no request is being answered, else after the answer.
  void drain();

 private:
  class Answer;
  using Error = boost::system::error_code;
  void arm(boost::asio::steady_timer& timer, double seconds, void (Session::*on_end)());
  void read();
  void on_read(const Error& error, size_t bytes);
  void parse();
  void hold(size_t bytes);
  void dispatch();
  void refuse(const std::exception& fault);
  void on_slow_request();
  void on_slow_writing();
  void on_lingered() { close(); }
  void write(std::string_view data);
  void flush();
  void write_some();
  void on_written(const Error& error, size_t bytes);
  void give_up();
  void finish_answer();
  void linger();
  void gone();
  void close();

  boost::asio::ip::tcp::socket socket_;
  const SessionOptions& options_;
  const Handler& handler_;
  std::function<void()> on_closed_;
  boost::asio::steady_timer read_timer_, write_timer_;
  std::string peer_;
  std::string in_;       // read, and not parsed yet
  std::string out_;      // to be written
  std::string on_wire_;  // being written
  size_t written_ = 0;   // of it
  size_t held_ = 0;      // bytes of a body, until its answer
  std::unique_ptr<char[]> piece_;
  std::optional<RequestParser> parser_;
  std::shared_ptr<Answer> answer_;  // of the request that is being answered
  bool reads_ = false;              // a read is pending
  bool saw_header_ = false;
  bool answered_ = false;  // all of the answer is in out_
  bool keep_alive_ = true;
  bool idle_ = false;  // between requests
  bool lingers_ = false;
  bool drains_ = false;
  bool closed_ = false;
};

}  // namespace megalith::serve
