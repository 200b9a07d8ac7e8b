// SPDX-License-Identifier: Apache-2.0
// The plug-in and who takes connections for it, asked by gRPC's own client.
#include <gmock/gmock.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "rpc/bare_connection_testing.h"
#include "rpc/grpc/grpc_client_testing.h"
#include "rpc/listen.h"
#include "rpc/open_grpc.h"
#include "rpc/rpc_listener.h"

namespace megalith::rpc {
namespace {

/// Events are kept.
class GrpcPlugin : public ::testing::Test {
 protected:
  void open(RpcOptions options, size_t most_connections = 100) {
    options.deliver = [this](RpcEvent event) {
      const std::lock_guard lock(mutex);
      events.push_back(std::move(event));
      came.notify_all();
    };
    server = open_grpc(options);
    listener.emplace(io, endpoint_of("127.0.0.1", 0), most_connections, *server);
    channel = channel_to(listener->address());
    thread = std::thread([this] { io.run(); });
  }
  bool wait_for(RpcEvent::Kind kind, uint64_t call = 1) {
    std::unique_lock lock(mutex);
    return came.wait_for(lock, std::chrono::seconds(60), [&] {
      return std::ranges::any_of(
          events, [&](const RpcEvent& event) { return event.kind == kind && event.call == call; });
    });
  }
  std::mutex mutex;
  std::condition_variable came;
  std::vector<RpcEvent> events;
  ~GrpcPlugin() override {
    io.stop();
    thread.join();
  }
  boost::asio::io_context io;
  std::unique_ptr<RpcServer> server;
  std::optional<RpcListener> listener;
  std::shared_ptr<grpc::Channel> channel;
  std::thread thread;
};

TEST_F(GrpcPlugin, HandsACallOver) {
  open({});
  ClientCall call(channel, "/a/b", 50, "secret");
  call.start();
  ASSERT_TRUE(wait_for(RpcEvent::Kind::begun));
  EXPECT_EQ(events[0].method, "/a/b");
  EXPECT_EQ(events[0].authorization, "Bearer secret");
  EXPECT_EQ(events[0].peer, "127.0.0.1");
  EXPECT_GT(events[0].seconds, 30);
  EXPECT_LE(events[0].seconds, 50.2);  // it travels as three digits, rounded up
  call.send("message");
  server->read(1);
  ASSERT_TRUE(wait_for(RpcEvent::Kind::message));
  EXPECT_EQ(events[1].message, "message");
  server->read(1);
  call.close();
  ASSERT_TRUE(wait_for(RpcEvent::Kind::half_closed));
  server->send(1, "one");
  server->send(1, "");
  server->send(1, "two");
  server->finish(1, 5, "no such thing: é");
  server->send(1, "nothing follows");
  EXPECT_EQ(call.receive(), "one");
  EXPECT_EQ(call.receive(), "");
  EXPECT_EQ(call.receive(), "two");
  EXPECT_FALSE(call.receive());
  const grpc::Status status = call.finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no such thing: é");
  EXPECT_TRUE(wait_for(RpcEvent::Kind::gone));
  server->finish(1, 0, "");  // of what has ended: nothing
  server->read(1);
  server->send(7, "");
}

TEST_F(GrpcPlugin, AClientThatDoesNotReadIsGivenUp) {
  open({.most_unsent_bytes = 4 << 20, .write_seconds = 1e6});
  ClientCall call(channel, "/a/b");
  call.start();
  ASSERT_TRUE(wait_for(RpcEvent::Kind::begun));
  for (int i = 0; i < 64; ++i) server->send(1, std::string(1 << 20, 'x'));
  EXPECT_TRUE(wait_for(RpcEvent::Kind::gone));
}

TEST_F(GrpcPlugin, AClientThatTakesNothingIsGivenUp) {
  open({.write_seconds = 0.2});
  ClientCall call(channel, "/a/b");
  call.start();
  ASSERT_TRUE(wait_for(RpcEvent::Kind::begun));
  for (int i = 0; i < 12; ++i) server->send(1, std::string(1 << 20, 'x'));
  EXPECT_TRUE(wait_for(RpcEvent::Kind::gone));
}

TEST_F(GrpcPlugin, ConnectionsAreBounded) {
  open({}, 2);
  const int one = connected(listener->address()), two = connected(listener->address());
  EXPECT_EQ(rest_of(connected(listener->address())), "");
  ::close(one);
  ClientCall call(channel, "/a/b");
  call.context.set_wait_for_ready(true);  // until the server has seen that one went
  call.start();
  EXPECT_TRUE(wait_for(RpcEvent::Kind::begun));
  ::close(two);
}

TEST_F(GrpcPlugin, ConnectionsThatAskNothingAreClosed) {
  open({.idle_seconds = 0.3});
  rest_of(connected(listener->address()));  // it ends
}

TEST_F(GrpcPlugin, ClosesWithinItsTime) {
  open({});
  ClientCall call(channel, "/a/b");
  call.start();
  ASSERT_TRUE(wait_for(RpcEvent::Kind::begun));
  server->read(1);
  const auto begin = std::chrono::steady_clock::now();
  server->close(0.2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_TRUE(wait_for(RpcEvent::Kind::gone));
  server->send(1, "x");
  EXPECT_FALSE(call.receive());
  EXPECT_FALSE(call.finish().ok());
}

}  // namespace
}  // namespace megalith::rpc
