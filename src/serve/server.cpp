// SPDX-License-Identifier: Apache-2.0
#include "serve/server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/packaged_task.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <csignal>
#include <future>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/plugin.h"
#include "rpc/listen.h"
#include "rpc/open_grpc.h"
#include "rpc/rpc_listener.h"
#include "serve/rpc_calls.h"
#include "serve/session.h"

namespace megalith::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using protocols::ApiError;

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr int kLastSeconds = 5;  // for clients to take their answers

}  // namespace

/// All but the constructor is of the thread of the sockets.
struct Server::Running {
  explicit Running(const ServerOptions& given) : options(given), acceptor(io) {
    session_options.header_seconds = options.header_seconds;
    session_options.body_seconds = options.body_seconds;
    handler = [this](HttpRequest request, std::shared_ptr<Exchange> exchange) {
      handle(std::move(request), std::move(exchange));
    };
    // Before anybody can know that it is there.
    signals.add(SIGTERM);
    signals.add(SIGINT);
    rpc::listen(acceptor, rpc::endpoint_of(options.host, options.port), "--port");
    address = rpc::text_of(acceptor.local_endpoint());
    if (!options.grpc_port) return;
    try {
      listen_for_rpcs();
    } catch (const SystemError& error) {
      if (options.requires_grpc) throw;
      if (has_plugin(rpc::kGrpcPluginFile)) log::warning("no gRPC: {}", error.what());
    }
  }

  void listen_for_rpcs() {
    rpc_server = rpc::open_grpc({.most_calls = static_cast<size_t>(options.most_connections),
                                 .deliver = [this](rpc::RpcEvent event) {
                                   asio::post(io, [this, event = std::move(event)]() mutable {
                                     rpcs->on_event(std::move(event));
                                   });
                                 }});
    rpcs.emplace(*rpc_server, RpcLimits{.message_seconds = options.body_seconds,
                                        .idle_seconds = options.idle_stream_seconds});
    rpc_listener.emplace(io, rpc::endpoint_of(options.host, *options.grpc_port),
                         static_cast<size_t>(options.most_connections), *rpc_server);
    grpc_address = rpc_listener->address();
  }

  void handle(HttpRequest request, std::shared_ptr<Exchange> exchange) {
    if (service) return service->handle(std::move(request), std::move(exchange));
    const ApiError error = ApiError("", "Loading model").with_status(503);
    exchange->respond(
        {.status = 503, .body = openai_error(error), .headers = {{"Retry-After", "5"}}});
  }

  void accept() {
    acceptor.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (error) {  // no descriptors left, say: later there may be
        retry.expires_after(kTick);
        return retry.async_wait([this](const boost::system::error_code& ended) {
          if (!ended) accept();
        });
      }
      accept();  // first, so that no error below ends it
      take(std::move(socket));
    });
  }

  void take(tcp::socket socket) {
    if (static_cast<int64_t>(sessions.size()) >= options.most_connections) {
      constexpr std::string_view kFull =
          "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
          "Connection: close\r\n\r\n";
      boost::system::error_code ignored;
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(kFull), ignored);
      return;
    }
    const uint64_t number = ++last_session;
    const auto session =
        std::make_shared<Session>(std::move(socket), session_options, handler, [this, number] {
          sessions.erase(number);
          count();
          if (ends && sessions.empty()) retry.cancel();
        });
    sessions[number] = session;
    count();
    session->start();
  }
  void count() {
    if (service) service->metrics().connections = static_cast<int64_t>(sessions.size());
  }

  void tick() {
    timer.expires_after(kTick);
    timer.async_wait([this](const boost::system::error_code& ended) {
      if (ended || ends) return;
      tick();  // first, so that no error below ends it
      const double now = monotonic_seconds();
      if (service) service->tick(now);
      if (rpcs) rpcs->tick(now);
      watch(now);
      if (drain_end > 0) drain(now);
    });
  }

  /// One line for each pass that takes too long.
  void watch(double now) {
    if (!service) return;
    const EngineState state = loop->state();
    if (state.pass_begin == 0 || now - state.pass_begin < options.stuck_seconds ||
        state.passes == told_pass)
      return;
    told_pass = state.passes;
    log::warning("pass {} of the model has taken {:.0f} s so far; it serves {}", state.passes,
                 now - state.pass_begin, service->names_of(state.tickets));
  }

  void await_signal() {
    signals.async_wait([this](const boost::system::error_code& ended, int signal) {
      if (ended || ends) return;
      await_signal();  // first, so that no error below ends it
      if (service) return begin_to_drain(signal);
      log::info("signal {} while it loads: it ends", signal);
      early_signal = signal;
      if (options.end_loading) options.end_loading();
    });
  }

  void begin_to_drain(int signal) {
    const double now = monotonic_seconds();
    if (drain_end == 0) {
      log::info("signal {}: no new requests; {} running, with {:.0f} s to finish", signal,
                service->num_active(), options.drain_seconds);
      drain_end = now + options.drain_seconds;
      service->set_phase(Service::Phase::draining);
    } else {
      drain_end = now;  // a second one: at once
    }
    drain(now);
  }

  void drain(double now) {
    if (service->num_active() > 0 && now < drain_end) return;
    if (service->num_active() > 0)
      service->end_all(ApiError("", "the server is shutting down").with_status(503));
    loop->stop();
  }

  void end() {
    ends = true;  // what is in the queue already is not cancelled below
    boost::system::error_code ignored;
    acceptor.close(ignored);
    if (rpc_listener) rpc_listener->close();
    signals.cancel(ignored);
    timer.cancel();
    retry.cancel();
    reading.join();  // this thread alone gives them work
    preparing.join();
    if (service) {
      service->set_phase(Service::Phase::draining);
      service->end_all(ApiError("", "the server has failed").with_status(500));
    }
    if (rpcs) rpcs->end_all();
    const auto open = sessions;
    for (const auto& [number, place] : open)
      if (const auto session = place.lock()) session->drain();
    if (sessions.empty()) return;
    retry.expires_after(std::chrono::seconds(kLastSeconds));
    retry.async_wait([this](const boost::system::error_code& ended) {
      if (!ended) io.stop();
    });
  }

  /// An error in one request does not end the others.
  void run() {
    for (;;) {
      try {
        io.run();
        return;
      } catch (const std::exception& error) {
        log::error("the thread of the sockets: {}", error.what());
      }
    }
  }

  ServerOptions options;
  std::string address;
  SessionOptions session_options;
  Session::Handler handler;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor;
  asio::steady_timer timer{io}, retry{io};
  asio::signal_set signals{io};
  asio::thread_pool reading{1}, preparing{1};  // Service::Errand
  std::map<uint64_t, std::weak_ptr<Session>> sessions;
  uint64_t last_session = 0;
  bool ends = false;
  EngineLoop* loop = nullptr;
  std::unique_ptr<Service> service;
  std::unique_ptr<rpc::RpcServer> rpc_server;
  std::optional<rpc::RpcListener> rpc_listener;
  std::optional<RpcCalls> rpcs;
  std::string grpc_address;
  double drain_end = 0;  // 0: not draining
  int early_signal = 0;  // that came before it was open
  int64_t told_pass = 0;
  std::thread thread;
};

Server::Server(const ServerOptions& options) : running_(std::make_unique<Running>(options)) {
  Running& running = *running_;
  running.accept();
  running.tick();
  running.await_signal();
  running.thread = std::thread([&running] { running.run(); });
}

Server::~Server() {
  Running& running = *running_;
  asio::post(running.io, [&running] { running.end(); });
  running.work.reset();
  running.thread.join();
  if (running.rpc_server) running.rpc_server->close(kLastSeconds);
}

const std::string& Server::address() const { return running_->address; }
const std::string& Server::grpc_address() const { return running_->grpc_address; }

void Server::open(protocols::ServedModel model, EngineLoop& loop, OpenAdapter open_adapter) {
  Running& running = *running_;
  std::packaged_task<void()> opening([&running, &loop, model = std::move(model),
                                      open_adapter = std::move(open_adapter)]() mutable {
    running.loop = &loop;
    running.service = std::make_unique<Service>(
        std::move(model), running.options.service, loop,
        [&running](Service::Errand errand, std::function<void()> work, std::function<void()> done) {
          auto& thread = errand == Service::Errand::read ? running.reading : running.preparing;
          asio::post(thread, [&running, work = std::move(work), done = std::move(done)] {
            work();
            asio::post(running.io, done);
          });
        },
        std::move(open_adapter));
    running.service->set_phase(Service::Phase::ready);
    running.count();
    if (running.rpcs) running.rpcs->open(*running.service);
    if (running.early_signal != 0) running.begin_to_drain(running.early_signal);
  });
  asio::post(running.io, std::move(opening)).get();
}

void Server::deliver(std::vector<Event> events) {
  Running& running = *running_;
  asio::post(running.io, [&running, events = std::move(events)]() mutable {
    running.service->on_events(std::move(events));
  });
}

}  // namespace megalith::serve
