// SPDX-License-Identifier: Apache-2.0
// A server with its engine and its plug-in, asked over gRPC.
#include <gmock/gmock.h>

#include <future>

#include "grpc_protocol/infer_message_fixture.h"
#include "rpc/bare_connection_testing.h"
#include "rpc/grpc/grpc_client_testing.h"
#include "serve/toy_server_testing.h"

namespace megalith::serve {
namespace {

using rpc::ask;
using rpc::channel_to;
using rpc::ClientCall;
using rpc::kService;
using rpc::said_to;
using ::testing::HasSubstr;

const std::string kInfer = std::string(kService) + "ModelInfer";
const std::string kStream = std::string(kService) + "ModelStreamInfer";

/// Of HTTP and gRPC.
ServerOptions any_ports() {
  ServerOptions options = any_port();
  options.grpc_port = 0;
  options.requires_grpc = true;
  return options;
}

std::string request(uint32_t new_tokens, bool raw = true) {
  ::inference::ModelInferRequest message;
  message.set_model_name("toy");
  const std::vector<uint32_t> ids{1, 2, 3};
  if (!raw) {
    grpc_protocol::add_whole(message, "input_ids", {1, 3}, ids);
    grpc_protocol::add_whole(message, "request_output_len", {1, 1}, {new_tokens});
    return message.SerializeAsString();
  }
  grpc_protocol::add_input(message, "input_ids", "UINT32", {1, 3});
  grpc_protocol::add_input(message, "request_output_len", "UINT32", {1, 1});
  message.add_raw_input_contents(grpc_protocol::raw_bytes(ids));
  message.add_raw_input_contents(grpc_protocol::raw_bytes<uint32_t>({new_tokens}));
  return message.SerializeAsString();
}

/// A served toy model whose passes can be held back.
class GrpcServerTest : public ::testing::Test {
 protected:
  void open(ServerOptions options = any_ports(), int64_t sequences = 3, int64_t queued = 30) {
    toy = std::make_unique<ToyLoop>(toy_options(sequences, queued));
    server.emplace(options);
    toy->between_passes = [this](const std::vector<Event>& events) {
      server->deliver(events);
      std::unique_lock lock(mutex);
      ++passes;
      moved.notify_all();
      moved.wait(lock, [this] { return passes < most_passes; });
    };
    server->open(toy_model(), toy->loop);
    channel = channel_to(server->grpc_address());
    while (ask_once(std::string(kService) + "ServerReady", "").error_code() ==
           grpc::StatusCode::UNAVAILABLE) {
    }
  }
  ~GrpcServerTest() override {
    let(INT64_MAX);
    if (toy) toy->loop.stop();
    server.reset();
  }
  /// Passes may be made up to this number.
  void let(int64_t number) {
    const std::lock_guard lock(mutex);
    most_passes = number;
    moved.notify_all();
  }
  void wait_for_pass(int64_t number) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(moved.wait_for(lock, std::chrono::seconds(60), [&] { return passes >= number; }));
  }
  grpc::Status ask_once(const std::string& path, const std::string& message,
                        std::optional<double> seconds = {}) {
    ClientCall call(channel, path, seconds);
    grpc::Status status;
    answered = ask(call, message, status);
    return status;
  }
  ::inference::ModelInferResponse inferred(const std::string& message) {
    const grpc::Status status = ask_once(kInfer, message);
    EXPECT_TRUE(status.ok()) << status.error_message();
    ::inference::ModelInferResponse response;
    EXPECT_TRUE(response.ParseFromString(answered));
    return response;
  }
  double metric(const std::string& name) const {
    const std::string text = answer(server->address(), "GET", "/metrics");
    const size_t at = text.find("\n" + name + "{");
    return at == text.npos ? -1 : std::stod(text.substr(text.find("} ", at) + 2));
  }
  /// Waits until the metric has the value.
  void expect_metric(const std::string& name, double value) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (metric(name) != value && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(metric(name), value) << name;
  }

  std::mutex mutex;
  std::condition_variable moved;
  int64_t passes = 0, most_passes = INT64_MAX;
  std::unique_ptr<ToyLoop> toy;
  std::optional<Server> server;
  std::shared_ptr<grpc::Channel> channel;
  std::string answered;
};

TEST_F(GrpcServerTest, GivesWhatHttpGives) {
  open();
  const std::string body =
      R"({"inputs": [{"name": "input_ids", "datatype": "UINT32", "shape": [1, 3],
                      "data": [1, 2, 3]},
          {"name": "request_output_len", "datatype": "UINT32", "shape": [1, 1], "data": [6]}],
          "parameters": {"binary_data_output": true}})";
  const std::string said = answer(server->address(), "POST", "/v2/models/toy/infer", body);
  ASSERT_THAT(said, HasSubstr("HTTP/1.1 200"));
  std::vector<std::future<std::string>> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(std::async(std::launch::async, [this] {
      ClientCall call(channel_to(server->grpc_address()), kInfer);
      grpc::Status status;
      return ask(call, request(6), status);
    }));
  }
  const auto raw = inferred(request(6)), typed = inferred(request(6, false));
  ASSERT_EQ(raw.raw_output_contents_size(), 5);
  std::string bytes;
  for (const std::string& one : raw.raw_output_contents()) bytes += one;
  EXPECT_EQ(said.substr(said.size() - bytes.size()), bytes);
  const auto& ids = typed.outputs(0).contents().uint_contents();
  EXPECT_EQ(grpc_protocol::raw_bytes(std::vector<uint32_t>(ids.begin(), ids.end())),
            raw.raw_output_contents(0));
  const auto& logprobs = typed.outputs(4).contents().fp32_contents();
  EXPECT_EQ(grpc_protocol::raw_bytes(std::vector<float>(logprobs.begin(), logprobs.end())),
            raw.raw_output_contents(4));
  for (auto& other : others) EXPECT_EQ(other.get(), raw.SerializeAsString());
  expect_metric("megalith:requests_finished_total", 7);
}

TEST_F(GrpcServerTest, StreamsTokensAsTheyCome) {
  open();
  const auto whole = inferred(request(6));
  wait_for_pass(6);
  let(7);
  ClientCall call(channel, kStream);
  call.start();
  call.send(request(6));
  std::string ids;
  for (int i = 0; i < 6; ++i) {
    const auto message = call.receive();  // while the next pass is held back
    ASSERT_TRUE(message);
    ::inference::ModelStreamInferResponse piece;
    ASSERT_TRUE(piece.ParseFromString(*message));
    EXPECT_FALSE(piece.infer_response().parameters().at("triton_final_response").bool_param());
    ids += piece.infer_response().raw_output_contents(0);
    let(most_passes + 1);
  }
  EXPECT_EQ(whole.raw_output_contents(0), grpc_protocol::raw_bytes<uint32_t>({1, 2, 3}) + ids);
  ::inference::ModelStreamInferResponse last;
  ASSERT_TRUE(last.ParseFromString(call.receive().value()));
  EXPECT_TRUE(last.infer_response().parameters().at("triton_final_response").bool_param());
  last.mutable_infer_response()->clear_parameters();
  EXPECT_EQ(last.infer_response().SerializeAsString(), whole.SerializeAsString());
  call.close();
  EXPECT_FALSE(call.receive());
  EXPECT_TRUE(call.finish().ok());
}

TEST_F(GrpcServerTest, ACancelledCallIsOverBeforeTheNextPass) {
  open();
  let(1);
  ClientCall call(channel, kStream);
  call.start();
  call.send(request(60));
  ASSERT_TRUE(call.receive());  // the leader waits behind pass 1
  EXPECT_GT(toy->loop.state().blocks_in_use, 0);
  call.context.TryCancel();
  EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::CANCELLED);
  expect_metric("megalith:requests_cancelled_total", 1);
  let(INT64_MAX);
  expect_metric("megalith:kv_blocks_in_use", 0);
  EXPECT_EQ(toy->inbox.count(1), 1u);  // the token of the first pass
  EXPECT_EQ(metric("megalith:requests_running"), 0);
}

TEST_F(GrpcServerTest, DeadlinesOfClientsHold) {
  open();
  let(1);
  EXPECT_EQ(ask_once(kInfer, request(60), 0.3).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  expect_metric("megalith:grpc_calls", 0);  // the passes are held back meanwhile
  let(INT64_MAX);
  expect_metric("megalith:kv_blocks_in_use", 0);
  EXPECT_EQ(metric("megalith:requests_started_total"),
            metric("megalith:requests_cancelled_total") + metric("megalith:requests_failed_total"));
  EXPECT_LT(toy->inbox.count(1), 60u);
}

TEST_F(GrpcServerTest, MessagesAreBounded) {
  open();
  const grpc::Status status = ask_once(kInfer, std::string((64 << 20) + 1, 'x'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ask_once(kInfer, std::string(1 << 20, 'x')).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(inferred(request(2)).outputs_size(), 5);
}

TEST_F(GrpcServerTest, WhatIsPackedIsRefused) {
  open();
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    ClientCall call(channel, kInfer);
    call.context.set_compression_algorithm(algorithm);
    grpc::Status status;
    ask(call, request(2), status);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  EXPECT_EQ(metric("megalith:requests_started_total"), 0);
}

TEST_F(GrpcServerTest, OpenCallsAreBounded) {
  ServerOptions options = any_ports();
  options.most_connections = 2;
  open(options);
  expect_metric("megalith:grpc_calls", 0);
  {
    ClientCall one(channel, kStream), two(channel, kStream);
    one.start();
    two.start();
    expect_metric("megalith:grpc_calls", 2);
    EXPECT_EQ(ask_once(kInfer, request(2)).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  expect_metric("megalith:grpc_calls", 0);
  EXPECT_EQ(inferred(request(2)).outputs_size(), 5);
}

TEST_F(GrpcServerTest, OtherProtocolsAreTurnedAway) {
  open();
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        std::string("\x16\x03\x01\x02", 4) + std::string(20, 'x'), std::string(1000, '\0'),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(9, '\xff') + std::string(1000, 'a')})
    said_to(server->grpc_address(), bytes);  // until it is closed
  EXPECT_EQ(inferred(request(2)).outputs_size(), 5);
}

TEST_F(GrpcServerTest, EndsWhatIsOpenWithAnError) {
  open();
  let(1);
  ClientCall idle(channel, kStream), busy(channel, kInfer);
  idle.start();
  busy.start();
  busy.send(request(60));
  wait_for_pass(1);
  auto ended = std::async(std::launch::async, [this] { server.reset(); });
  EXPECT_FALSE(busy.receive());
  EXPECT_EQ(busy.finish().error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_FALSE(idle.receive());
  EXPECT_EQ(idle.finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  ended.get();
  server.emplace(any_ports());  // the leader still delivers
}

TEST(GrpcServer, APortThatIsTakenIsToldOf) {
  Server first(any_ports());
  ServerOptions options = any_ports();
  const std::string& address = first.grpc_address();
  options.grpc_port = std::stoi(address.substr(address.rfind(':') + 1));
  try {
    const Server second(options);
    FAIL() << "it listens too";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--grpc-port"));
    EXPECT_THAT(error.what(), HasSubstr(address));
  }
  options.requires_grpc = false;
  const Server second(options);
  EXPECT_EQ(second.grpc_address(), "");
}

}  // namespace
}  // namespace megalith::serve
