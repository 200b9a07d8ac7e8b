// SPDX-License-Identifier: Apache-2.0
#include "serve/session.h"

#include <boost/asio/post.hpp>
#include <chrono>

#include "protocols/api_error.h"

namespace megalith::serve {
namespace {

constexpr size_t kPiece = 32 << 10;
// A client that sends requests before it has answers is not read on beyond this.
constexpr size_t kMostAhead = 64 << 10;
// A client that does not read its stream is given up.
constexpr size_t kMostUnsent = 16 << 20;
constexpr double kLingerSeconds = 2;

std::string address_of(const boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const auto end = socket.remote_endpoint(error);
  return error ? "" : end.address().to_string();
}

}  // namespace

class Session::Answer final : public Exchange {
 public:
  Answer(Session& session, const HttpRequest& request)
      : session_(&session), is_1_1_(request.is_1_1), only_head_(request.method == "HEAD") {}
  void forget() { session_ = nullptr; }

  void send(std::string_view data) override {
    if (session_ == nullptr || data.empty() || only_head_) return;
    session_->write(is_1_1_ ? chunk_of(data) : std::string(data));
    if (session_->out_.size() > kMostUnsent) return session_->give_up();
    session_->flush();
  }
  void end_stream() override {
    if (session_ == nullptr) return;
    if (is_1_1_ && !only_head_) session_->write("0\r\n\r\n");
    end();
  }

 private:
  void write_whole(HttpResponse response) override {
    if (session_ == nullptr) return;
    const auto length = static_cast<int64_t>(response.body.size());
    session_->write(head_of(response, length, is_1_1_, session_->keep_alive_));
    if (!only_head_) session_->write(response.body);
    end();
  }
  void write_head(HttpResponse head) override {
    if (session_ == nullptr) return;
    if (!is_1_1_) session_->keep_alive_ = false;  // the end is where the connection ends
    session_->write(head_of(head, -1, is_1_1_, session_->keep_alive_));
    session_->flush();
  }
  void end() {
    Session& session = *session_;
    session_ = nullptr;
    session.answered_ = true;
    session.flush();
  }
  Session* session_;
  bool is_1_1_, only_head_;
};

Session::Session(boost::asio::ip::tcp::socket socket, const SessionOptions& options,
                 const Handler& handler, std::function<void()> on_closed)
    : socket_(std::move(socket)),
      options_(options),
      handler_(handler),
      on_closed_(std::move(on_closed)),
      read_timer_(socket_.get_executor()),
      write_timer_(socket_.get_executor()),
      peer_(address_of(socket_)),
      piece_(std::make_unique<char[]>(kPiece)) {
  boost::system::error_code ignored;
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
}

Session::~Session() {
  if (answer_) answer_->forget();
}

void Session::start() {
  parser_.emplace(options_.limits);
  arm(read_timer_, options_.header_seconds, &Session::on_slow_request);
  read();
}

void Session::arm(boost::asio::steady_timer& timer, double seconds, void (Session::*on_end)()) {
  timer.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds)));
  timer.async_wait([self = shared_from_this(), on_end, &timer](const Error& error) {
    // One that was set again is not over though its old end may already be in the queue.
    if (!error && timer.expiry() <= std::chrono::steady_clock::now() && !self->closed_)
      ((*self).*on_end)();
  });
}

void Session::read() {
  if (reads_ || closed_ || (answer_ && in_.size() >= kMostAhead)) return;
  reads_ = true;
  socket_.async_read_some(boost::asio::buffer(piece_.get(), kPiece),
                          [self = shared_from_this()](const Error& error, size_t bytes) {
                            self->reads_ = false;
                            if (!self->closed_) self->on_read(error, bytes);
                          });
}

void Session::on_read(const Error& error, size_t bytes) {
  if (error && lingers_ && !(out_.empty() && on_wire_.empty())) return;  // it may still read
  if (error) return gone();
  if (lingers_) return read();  // what comes after an answer that ends the connection
  in_.append(piece_.get(), bytes);
  if (!answer_) parse();
  if (!closed_) read();
}

void Session::parse() {
  if (idle_ && !in_.empty()) {
    idle_ = false;
    arm(read_timer_, options_.header_seconds, &Session::on_slow_request);
  }
  try {
    in_.erase(0, parser_->feed(in_));
    hold(parser_->request().body.size());
  } catch (const protocols::ApiError& fault) {
    return refuse(fault);
  }
  if (parser_->has_header() && !saw_header_) {
    saw_header_ = true;
    arm(read_timer_, options_.body_seconds, &Session::on_slow_request);
    if (parser_->waits_for_continue()) {
      write("HTTP/1.1 100 Continue\r\n\r\n");
      flush();
    }
  }
  if (parser_->is_done()) dispatch();
}

/// Many clients with large bodies are together more than one may be.
void Session::hold(size_t bytes) {
  options_.held += bytes - held_;
  held_ = bytes;
  if (bytes > 0 && options_.held > options_.most_held)
    throw protocols::ApiError("", "too many large requests at once").with_status(503);
}

void Session::dispatch() {
  read_timer_.cancel();
  HttpRequest request = std::move(parser_->request());
  parser_.emplace(options_.limits);
  saw_header_ = false;
  answered_ = false;
  keep_alive_ = request.keep_alive && !drains_;
  request.peer = peer_;
  answer_ = std::make_shared<Answer>(*this, request);
  handler_(std::move(request), answer_);
}

/// Of what cannot be understood nobody knows where it ends.
void Session::refuse(const std::exception& fault) {
  const auto& error = dynamic_cast<const protocols::ApiError&>(fault);
  read_timer_.cancel();
  in_.clear();
  hold(0);
  keep_alive_ = false;
  lingers_ = true;
  const HttpResponse response{.status = error.status(), .body = protocols::openai_error(error)};
  answered_ = true;
  write(head_of(response, static_cast<int64_t>(response.body.size()), true, false));
  write(response.body);
  flush();
}

void Session::on_slow_request() {
  if (in_.empty() && !saw_header_) return close();  // nothing was asked
  refuse(protocols::ApiError("", "the request took too long to arrive").with_status(408));
}

void Session::on_slow_writing() { gone(); }

void Session::write(std::string_view data) { out_ += data; }

void Session::flush() {
  if (!on_wire_.empty() || closed_) return;
  if (out_.empty()) {
    if (answered_) finish_answer();
    return;
  }
  on_wire_.swap(out_);
  written_ = 0;
  write_some();
}

void Session::write_some() {
  arm(write_timer_, options_.write_seconds, &Session::on_slow_writing);
  socket_.async_write_some(boost::asio::buffer(on_wire_) + written_,
                           [self = shared_from_this()](const Error& error, size_t bytes) {
                             if (!self->closed_) self->on_written(error, bytes);
                           });
}

void Session::on_written(const Error& error, size_t bytes) {
  write_timer_.cancel();
  if (error) return gone();
  written_ += bytes;
  if (written_ < on_wire_.size()) return write_some();
  on_wire_.clear();
  flush();
}

void Session::finish_answer() {
  answered_ = false;
  answer_.reset();
  hold(0);
  if (!keep_alive_ || drains_) return linger();
  idle_ = true;
  arm(read_timer_, options_.idle_seconds, &Session::on_slow_request);
  // Requests that came meanwhile; not from here, where a long row of them would nest.
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->closed_ || self->answer_ || self->lingers_) return;
    if (!self->in_.empty()) self->parse();
    self->read();
  });
}

/// Closing with bytes unread would take the answer away from the client: it is told that no more
/// comes, and what it still sends is read for a moment.
void Session::linger() {
  lingers_ = true;
  Error ignored;
  socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  arm(read_timer_, kLingerSeconds, &Session::on_lingered);
  in_.clear();
  read();
}

/// Later: whoever sends is in the middle of something.
void Session::give_up() {
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (!self->closed_) self->gone();
  });
}

void Session::drain() {
  drains_ = true;
  if (!answer_ && !lingers_ && out_.empty() && on_wire_.empty()) close();
}

/// The client cannot be reached any more.
void Session::gone() {
  const auto answer = std::exchange(answer_, nullptr);
  if (answer) {
    answer->forget();
    if (answer->on_gone) answer->on_gone();
  }
  close();
}

void Session::close() {
  if (closed_) return;
  closed_ = true;
  hold(0);
  read_timer_.cancel();
  write_timer_.cancel();
  Error ignored;
  socket_.close(ignored);
  if (on_closed_) on_closed_();
}

}  // namespace megalith::serve
