// SPDX-License-Identifier: Apache-2.0
// Calls over gRPC without gRPC, sockets and engine: what happens to them is made up.
#include "serve/rpc_calls.h"

#include <gmock/gmock.h>

#include "base/clock.h"
#include "grpc_protocol/infer_message_fixture.h"
#include "protocols/protocols_fixture.h"
#include "serve/rpc_server_testing.h"
#include "serve/toy_loop_testing.h"

namespace megalith::serve {
namespace {

using rpc::RpcEvent;
using Kind = RpcEvent::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kOk = 0, kInvalid = 3, kLate = 4, kNotFound = 5, kExhausted = 8, kUnimplemented = 12,
              kUnavailable = 14, kUnauthenticated = 16;
constexpr const char* kInfer = "/inference.GRPCInferenceService/ModelInfer";
constexpr const char* kStream = "/inference.GRPCInferenceService/ModelStreamInfer";
constexpr const char* kReady = "/inference.GRPCInferenceService/ServerReady";

class RpcCallsTest : public ::testing::Test {
 protected:
  RpcCallsTest() { make({}); }
  void make(ServiceOptions options, const RpcLimits& limits = {}) {
    calls.emplace(server, limits);
    service.emplace(protocols::small_model(), std::move(options), loop,
                    [this](Service::Errand, const std::function<void()>& work,
                           const std::function<void()>& done) {
                      work();
                      holds_back ? held_back.push_back(done) : done();
                    });
    service->set_phase(Service::Phase::ready);
    calls->open(*service);
  }
  uint64_t begin(const char* method, const std::string& key = "", double seconds = 1e9,
                 const std::string& peer = "1.2.3.4") {
    const uint64_t number = ++last;
    calls->on_event({.kind = Kind::begun,
                     .call = number,
                     .method = method,
                     .authorization = key,
                     .peer = peer,
                     .seconds = seconds});
    return number;
  }
  void say(uint64_t call, std::string message) {
    calls->on_event({.kind = Kind::message, .call = call, .message = std::move(message)});
  }
  void close(uint64_t call) { calls->on_event({.kind = Kind::half_closed, .call = call}); }
  void go(uint64_t call) { calls->on_event({.kind = Kind::gone, .call = call}); }
  static std::string request(const std::string& id = "7", uint32_t new_tokens = 2) {
    auto message = grpc_protocol::small_request(true, new_tokens);
    message.set_id(id);
    return message.SerializeAsString();
  }
  uint64_t infer(const std::string& peer = "1.2.3.4") {
    const uint64_t call = begin(kInfer, "", 1e9, peer);
    say(call, request());
    return call;
  }
  void tell_token(uint64_t ticket) {
    std::vector<Event> events(1);
    events[0] = {.kind = Event::Kind::token, .ticket = ticket, .token = {{1, -1}, {}, "b"}};
    service->on_events(std::move(events));
  }
  void tell_end(uint64_t ticket) {
    std::vector<Event> events(1);
    events[0].kind = Event::Kind::ended;
    events[0].ticket = ticket;
    events[0].written.result = protocols::generated("b", {1}, {-1}, "length");
    service->on_events(std::move(events));
  }
  static ::inference::ModelStreamInferResponse streamed(const std::string& bytes) {
    ::inference::ModelStreamInferResponse response;
    EXPECT_TRUE(response.ParseFromString(bytes));
    return response;
  }
  std::optional<int> code(uint64_t call) { return server.calls[call].code; }
  Metrics& metrics() { return service->metrics(); }

  FakeRpcServer server;
  EngineLoop loop{toy_options(2, 2)};
  std::optional<RpcCalls> calls;
  std::optional<Service> service;
  bool holds_back = false;
  std::vector<std::function<void()>> held_back;
  uint64_t last = 0;
};

TEST_F(RpcCallsTest, AnswerWhenTheEngineHasWritten) {
  const uint64_t call = infer();
  EXPECT_EQ(calls->size(), 1u);
  EXPECT_EQ(metrics().calls, 1);
  tell_token(1);
  EXPECT_THAT(server.calls[call].sent, IsEmpty());
  tell_end(1);
  ASSERT_EQ(server.calls[call].sent.size(), 1u);
  ::inference::ModelInferResponse response;
  ASSERT_TRUE(response.ParseFromString(server.calls[call].sent[0]));
  EXPECT_EQ(response.raw_output_contents(0), grpc_protocol::raw_bytes<uint32_t>({2, 4, 3, 1, 7}));
  EXPECT_EQ(code(call), kOk);
  EXPECT_EQ(server.calls[call].reads, 1);
  EXPECT_EQ(calls->size(), 0u);
  EXPECT_EQ(metrics().finished, 1);
  EXPECT_EQ(metrics().generated_tokens, 1);
  EXPECT_EQ(metrics().calls, 0);
  go(call);
  EXPECT_EQ(metrics().cancelled, 0);
}

TEST_F(RpcCallsTest, StreamManyRequests) {
  const uint64_t call = begin(kStream);
  say(call, request("one"));
  EXPECT_EQ(server.calls[call].reads, 2);  // on with the next
  say(call, request("two"));
  tell_token(2);
  tell_token(1);
  close(call);
  tell_end(2);
  EXPECT_FALSE(code(call));
  tell_end(1);
  EXPECT_EQ(code(call), kOk);
  std::vector<std::string> said;
  for (const std::string& message : server.calls[call].sent) {
    const auto response = streamed(message).infer_response();
    const bool is_last = response.parameters().at("triton_final_response").bool_param();
    said.push_back(response.id() + (is_last ? " last" : ""));
  }
  EXPECT_THAT(said, ElementsAre("two", "one", "two last", "one last"));
  EXPECT_EQ(metrics().finished, 2);
  EXPECT_EQ(calls->size(), 0u);
}

TEST_F(RpcCallsTest, AFaultyRequestDoesNotEndItsStream) {
  const uint64_t call = begin(kStream);
  auto wrong = grpc_protocol::small_request();
  wrong.set_id("wrong");
  wrong.mutable_inputs(0)->set_name("what");
  say(call, wrong.SerializeAsString());
  say(call, "\x0a\x7f");
  ASSERT_EQ(server.calls[call].sent.size(), 2u);
  const auto told = streamed(server.calls[call].sent[0]);
  EXPECT_THAT(told.error_message(), HasSubstr("input_ids is missing"));
  EXPECT_EQ(told.infer_response().id(), "wrong");
  say(call, request());
  tell_end(1);
  close(call);
  EXPECT_EQ(code(call), kOk);
  EXPECT_EQ(server.calls[call].sent.size(), 3u);
  EXPECT_EQ(metrics().bad_requests, 2);
  EXPECT_EQ(metrics().started, 1);
}

TEST_F(RpcCallsTest, AClientThatGoesCancelsItsRequests) {
  const uint64_t one = infer(), stream = begin(kStream);
  say(stream, request("a"));
  say(stream, request("b"));
  EXPECT_EQ(loop.state().waiting, 3);
  go(one);
  EXPECT_EQ(loop.state().waiting, 2);
  go(stream);
  EXPECT_EQ(loop.state().waiting, 0);
  EXPECT_EQ(metrics().cancelled, 3);
  EXPECT_EQ(service->num_active(), 0u);
  tell_token(1);  // was under way
  tell_end(2);
  EXPECT_THAT(server.calls[one].sent, IsEmpty());
  EXPECT_FALSE(code(stream));
}

TEST_F(RpcCallsTest, AClientMayGoWhileItsRequestIsRead) {
  holds_back = true;
  const uint64_t call = infer();
  go(call);
  held_back.at(0)();
  EXPECT_EQ(metrics().started, 0);
  EXPECT_EQ(service->num_active(), 0u);
  EXPECT_FALSE(code(call));
}

TEST_F(RpcCallsTest, ErrorsHaveTheirCodes) {
  EXPECT_EQ(code(begin("/inference.GRPCInferenceService/What")), kUnimplemented);
  const uint64_t other = begin(kInfer);
  auto message = grpc_protocol::small_request();
  message.set_model_name("other");
  say(other, message.SerializeAsString());
  EXPECT_EQ(code(other), kNotFound);
  const uint64_t bad = begin(kInfer);
  say(bad, "junk");
  EXPECT_EQ(code(bad), kInvalid);
  const uint64_t silent = begin(kInfer);
  close(silent);
  EXPECT_EQ(code(silent), kInvalid);
  EXPECT_EQ(metrics().bad_requests, 4);
  EXPECT_EQ(metrics().started, 0);
  EXPECT_EQ(calls->size(), 0u);
}

TEST_F(RpcCallsTest, AFullQueueIsExhausted) {
  for (int i = 0; i < 4; ++i) infer();
  EXPECT_EQ(code(infer()), kExhausted);
  const uint64_t stream = begin(kStream);
  say(stream, request("a"));
  EXPECT_THAT(streamed(server.calls[stream].sent.at(0)).error_message(), HasSubstr("full"));
  EXPECT_EQ(metrics().rejected, 2);
}

TEST_F(RpcCallsTest, IsUnavailableBeforeAndAfter) {
  RpcCalls early(server, {});
  early.on_event({.kind = Kind::begun, .call = 99, .method = kReady});
  EXPECT_EQ(code(99), kUnavailable);
  const uint64_t stream = begin(kStream);
  service->set_phase(Service::Phase::draining);
  EXPECT_EQ(code(infer()), kUnavailable);
  say(stream, request());
  EXPECT_THAT(streamed(server.calls[stream].sent.at(0)).error_message(), HasSubstr("Shutting"));
  EXPECT_FALSE(code(stream));
  const uint64_t ready = begin(kReady);
  say(ready, "");
  ::inference::ServerReadyResponse answer;
  ASSERT_TRUE(answer.ParseFromString(server.calls[ready].sent.at(0)));
  EXPECT_FALSE(answer.ready());
  EXPECT_EQ(code(ready), kOk);
  calls->end_all();
  EXPECT_EQ(code(stream), kUnavailable);
}

TEST_F(RpcCallsTest, DeadlinesAreTheClients) {
  const uint64_t call = begin(kInfer, "", 5), whole = infer();
  say(call, request());
  service->tick(monotonic_seconds() + 4);
  EXPECT_FALSE(code(call));
  service->tick(monotonic_seconds() + 6);
  EXPECT_EQ(code(call), kLate);
  EXPECT_FALSE(code(whole));
  service->tick(monotonic_seconds() + 601);
  EXPECT_EQ(code(whole), kLate);
  EXPECT_EQ(metrics().failed, 2);
  EXPECT_EQ(loop.state().waiting, 0);
}

TEST_F(RpcCallsTest, ABrokenStreamSaysWhy) {
  const uint64_t call = begin(kStream, "", 5);
  say(call, request("a"));
  tell_token(1);
  service->tick(monotonic_seconds() + 6);
  ASSERT_EQ(server.calls[call].sent.size(), 2u);
  const auto told = streamed(server.calls[call].sent[1]);
  EXPECT_THAT(told.error_message(), HasSubstr("longer than 5 seconds"));
  EXPECT_EQ(told.infer_response().id(), "a");
}

TEST_F(RpcCallsTest, CallsThatAskNothingEnd) {
  const uint64_t call = begin(kInfer), stream = begin(kStream), busy = begin(kStream);
  say(busy, request());
  calls->tick(monotonic_seconds() + 29);
  EXPECT_FALSE(code(call));
  calls->tick(monotonic_seconds() + 31);
  EXPECT_EQ(code(call), kLate);
  EXPECT_FALSE(code(stream));
  calls->tick(monotonic_seconds() + 601);
  EXPECT_EQ(code(stream), kLate);
  EXPECT_FALSE(code(busy));
}

TEST_F(RpcCallsTest, WantAKeyWhereThereAreSome) {
  make({.api_keys = {"right", "other"}});
  EXPECT_EQ(code(begin(kInfer)), kUnauthenticated);
  EXPECT_EQ(code(begin(kInfer, "Bearer righ")), kUnauthenticated);
  EXPECT_EQ(code(begin(kStream, "right")), kUnauthenticated);
  EXPECT_FALSE(code(begin(kInfer, "Bearer right")));
  EXPECT_FALSE(code(begin(kReady)));
  const uint64_t call = begin(kInfer, "bearer other");
  say(call, request());
  EXPECT_THAT(service->names_of({1}), HasSubstr("#1 (/inference.GRPCInferenceService/ModelInfer, "
                                                "key:1, 1 texts"));
}

TEST_F(RpcCallsTest, ClientsAreTheirAddresses) {
  infer("10.0.0.7");
  infer("2001:db8::1");
  EXPECT_THAT(service->names_of({1}), HasSubstr("peer:10.0.0.7"));
  EXPECT_THAT(service->names_of({2}), HasSubstr("peer:2001:db8::1,"));
}

TEST_F(RpcCallsTest, WhatIsReadAtOnceIsBounded) {
  make({}, {.held_bytes = 2 * request().size()});
  holds_back = true;
  const uint64_t one = infer(), two = infer(), three = infer();
  EXPECT_FALSE(code(one));
  EXPECT_FALSE(code(two));
  EXPECT_EQ(code(three), kExhausted);
  held_back.at(0)();
  const uint64_t four = infer();
  EXPECT_FALSE(code(four));
  EXPECT_EQ(metrics().started, 1);
}

}  // namespace
}  // namespace megalith::serve
