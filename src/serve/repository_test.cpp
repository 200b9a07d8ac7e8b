// SPDX-License-Identifier: Apache-2.0
// What clients are told of adapters, over HTTP and over gRPC, without sockets and engine.
#include <gmock/gmock.h>

#include "grpc_protocol/infer_message_fixture.h"
#include "protocols/protocols_fixture.h"
#include "serve/rpc_calls.h"
#include "serve/rpc_server_testing.h"
#include "serve/toy_adapter_testing.h"

namespace megalith::serve {
namespace {

using protocols::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = Event::Kind;

constexpr int kOk = 0, kInvalid = 3, kNotFound = 5, kAborted = 10, kUnavailable = 14;

class PlainExchange final : public Exchange {
 public:
  void send(std::string_view) override {}
  void end_stream() override {}
  HttpResponse answer{.status = 0};

 private:
  void write_whole(HttpResponse response) override { answer = std::move(response); }
  void write_head(HttpResponse head) override { answer = std::move(head); }
};

class AdapterRequests : public ::testing::Test {
 protected:
  AdapterRequests() {
    protocols::ServedModel model = protocols::small_model();
    const std::vector<std::string> names = {"sql", "law"};
    protocols::add_adapters(model, names);
    service.emplace(
        std::move(model), ServiceOptions{}, loop,
        [this](Service::Errand errand, const std::function<void()>& work,
               const std::function<void()>& done) {
          errands.push_back(errand);
          work();
          holds_back ? held_back.push_back(done) : done();
        },
        [this](const std::string& name) -> PlaceAdapter {
          opened.push_back(name);
          if (broken) throw IntegrityError("/secret/folder: damaged");
          return toy_place(1);
        });
    service->set_phase(Service::Phase::ready);
    loop.load("sql", toy_place(1));
    calls.open(*service);
  }
  std::shared_ptr<PlainExchange> ask(const std::string& method, const std::string& path,
                                     const std::string& body = "") {
    auto exchange = std::make_shared<PlainExchange>();
    service->handle({.method = method,
                     .path = path,
                     .headers = {{"host", "here"}},
                     .body = body,
                     .peer = "1.2.3.4"},
                    exchange);
    return exchange;
  }
  int status(const std::string& method, const std::string& path, const std::string& body = "") {
    return ask(method, path, body)->answer.status;
  }
  std::vector<std::string> listed() {
    std::vector<std::string> names;
    const Json list = Json::parse(ask("GET", "/v1/models")->answer.body);
    for (const Json& entry : list["data"]) names.push_back(entry["id"]);
    return names;
  }
  std::string states() {
    std::string text;
    for (const Json& entry : Json::parse(ask("POST", "/v2/repository/index")->answer.body))
      text += entry["name"].get<std::string>() + " " + entry["state"].get<std::string>() + "\n";
    return text;
  }
  /// A call of gRPC.
  uint64_t say(const char* method, const google::protobuf::MessageLite& message) {
    const uint64_t call = ++last_call;
    calls.on_event({.kind = rpc::RpcEvent::Kind::begun,
                    .call = call,
                    .method = std::string("/inference.GRPCInferenceService/") + method,
                    .seconds = 1e9});
    calls.on_event({.kind = rpc::RpcEvent::Kind::message,
                    .call = call,
                    .message = message.SerializeAsString()});
    return call;
  }
  uint64_t say_load(const std::string& name) {
    ::inference::RepositoryModelLoadRequest request;
    request.set_model_name(name);
    return say("RepositoryModelLoad", request);
  }
  uint64_t say_unload(const std::string& name) {
    ::inference::RepositoryModelUnloadRequest request;
    request.set_model_name(name);
    return say("RepositoryModelUnload", request);
  }
  std::optional<int> code(uint64_t call) { return rpcs.calls[call].code; }
  std::string states_over_grpc() {
    ::inference::RepositoryIndexResponse index;
    const uint64_t call = say("RepositoryIndex", ::inference::RepositoryIndexRequest());
    EXPECT_TRUE(index.ParseFromString(rpcs.calls[call].sent.at(0)));
    std::string text;
    for (const auto& entry : index.models()) text += entry.name() + " " + entry.state() + "\n";
    return text;
  }
  void leave(uint64_t number) { service->on_events({{.kind = Kind::left, .ticket = number}}); }

  bool broken = false, holds_back = false;
  std::vector<std::function<void()>> held_back;
  std::vector<Service::Errand> errands;
  std::vector<std::string> opened;
  EngineLoop loop{toy_options(2, 6)};  // nobody leads it
  std::optional<Service> service;
  FakeRpcServer rpcs;
  RpcCalls calls{rpcs, {}};
  uint64_t last_call = 0;
};

TEST_F(AdapterRequests, AreListedWithTheirParent) {
  EXPECT_EQ(listed(), (std::vector<std::string>{"small", "sql"}));
  const Json entry = Json::parse(ask("GET", "/v1/models/sql")->answer.body);
  EXPECT_EQ(entry["parent"], "small");
  EXPECT_EQ(entry["root"], "small");
  EXPECT_EQ(status("GET", "/v1/models/law"), 404);
  EXPECT_EQ(states(), "small READY\nsql READY\nlaw UNAVAILABLE\n");
  const Json ready =
      Json::parse(ask("POST", "/v2/repository/index", R"({"ready": true})")->answer.body);
  EXPECT_EQ(ready.size(), 2u);
  EXPECT_EQ(status("GET", "/v2/models/sql/ready"), 200);
  EXPECT_EQ(status("GET", "/v2/models/law/ready"), 503);
  EXPECT_EQ(Json::parse(ask("GET", "/v2/models/sql")->answer.body)["name"], "sql");
}

TEST_F(AdapterRequests, AreMadeUnderTheirNames) {
  const auto complete = [&](const std::string& model) {
    return ask("POST", "/v1/completions",
               Json{{"model", model}, {"prompt", "ab"}, {"max_tokens", 2}}.dump());
  };
  EXPECT_EQ(complete("sql")->answer.status, 0);
  EXPECT_EQ(complete("small")->answer.status, 0);
  EXPECT_EQ(loop.state().waiting, 2);
  const auto absent = complete("law");
  EXPECT_EQ(absent->answer.status, 404);
  EXPECT_THAT(absent->answer.body, HasSubstr("the adapter 'law' is not loaded"));
  EXPECT_EQ(complete("other")->answer.status, 404);
  const std::string chat =
      Json{{"model", "sql"}, {"messages", {{{"role", "user"}, {"content", "a"}}}}}.dump();
  EXPECT_EQ(status("POST", "/v1/chat/completions", chat), 0);
  EXPECT_EQ(status("POST", "/v1/embeddings", R"({"model": "sql", "input": "a"})"), 0);
  EXPECT_EQ(status("POST", "/tokenize", R"({"model": "sql", "prompt": "a"})"), 200);
  EXPECT_EQ(status("POST", "/v2/models/sql/generate", R"({"text_input": "a"})"), 0);
  EXPECT_EQ(status("POST", "/v2/models/law/generate", R"({"text_input": "a"})"), 404);
}

/// Metrics count as usage does: the text's tokens.
TEST_F(AdapterRequests, AreMadeWithMarksWhereAnAdapterHasThem) {
  service.emplace(
      protocols::small_model_with_marks(), ServiceOptions{}, loop,
      [](Service::Errand, const std::function<void()>& work, const std::function<void()>& done) {
        work();
        done();
      });
  service->set_phase(Service::Phase::ready);
  loop.load("marked", toy_place(4));
  const auto complete = [&](const std::string& prompt) {
    return ask("POST", "/v1/completions",
               Json{{"model", "marked"}, {"prompt", prompt}, {"max_tokens", 2}}.dump());
  };
  const auto refused = complete("a<|VIRTUAL_PROMPT_0|>b");
  EXPECT_EQ(refused->answer.status, 400);
  EXPECT_THAT(refused->answer.body, HasSubstr("the text has no <|VIRTUAL_PROMPT_1|>"));
  const auto taken = complete("a<|VIRTUAL_PROMPT_0|>b<|VIRTUAL_PROMPT_1|>");
  EXPECT_EQ(loop.state().waiting, 1);
  Event event{.kind = Kind::ended, .ticket = 1};
  event.written.result = protocols::generated("c", {3}, {-1}, "length");
  std::vector<Event> events;
  events.push_back(std::move(event));
  service->on_events(std::move(events));
  EXPECT_EQ(taken->answer.status, 200);
  EXPECT_EQ(Json::parse(taken->answer.body)["usage"]["prompt_tokens"], 2);
  EXPECT_EQ(service->metrics().prompt_tokens, 2);
}

TEST_F(AdapterRequests, LoadAndUnloadByNameAlone) {
  const std::string law = "/v2/repository/models/law/";
  EXPECT_EQ(status("POST", law + "unload"), 400);
  EXPECT_EQ(status("POST", law + "load", "{}"), 200);
  EXPECT_EQ(opened, (std::vector<std::string>{"law"}));
  EXPECT_THAT(errands, ElementsAre(Service::Errand::prepare));
  EXPECT_EQ(listed(), (std::vector<std::string>{"small", "sql", "law"}));
  EXPECT_EQ(status("POST", law + "load"), 200);  // it is there
  EXPECT_EQ(opened.size(), 1u);
  const auto waiting =
      ask("POST", law + "unload", R"({"parameters": {"unload_dependents": false}})");
  EXPECT_EQ(waiting->answer.status, 0) << "requests may use it";
  EXPECT_EQ(states(), "small READY\nsql READY\nlaw UNLOADING\n");
  EXPECT_EQ(status("POST", law + "load"), 409);
  EXPECT_EQ(
      status("POST", "/v1/completions", R"({"model": "law", "prompt": "a", "max_tokens": 1})"),
      404);
  leave(2);
  EXPECT_EQ(waiting->answer.status, 200);
  broken = true;
  EXPECT_EQ(status("POST", "/v2/repository/models/small/load"), 200);
  EXPECT_EQ(status("POST", "/v2/repository/models/small/unload"), 400);
  for (const char* name : {"other", "..", "../../etc", "", "law/..", "/etc/passwd"}) {
    const auto refused =
        ask("POST", fmt::format("/v2/repository/models/{}/load", name))->answer.status;
    EXPECT_TRUE(refused == 404 || refused == 400) << name << " " << refused;
  }
  EXPECT_EQ(opened.size(), 1u) << "nothing of a request reaches the files";
  EXPECT_EQ(status("POST", "/v2/repository/models/sql/load",
                   R"({"parameters": {"file:adapter_config.json": "e30="}})"),
            400);
  EXPECT_EQ(status("POST", "/v2/repository/other"), 404);
}

TEST_F(AdapterRequests, FaultsOfFilesAreTheOperators) {
  broken = true;
  const auto refused = ask("POST", "/v2/repository/models/law/load");
  EXPECT_EQ(refused->answer.status, 400);
  EXPECT_EQ(refused->answer.body.find("secret"), std::string::npos);
  EXPECT_EQ(states(), "small READY\nsql READY\nlaw UNAVAILABLE\n");
}

TEST_F(AdapterRequests, AreTheSameOverGrpc) {
  broken = true;
  const uint64_t fails = say_load("law");
  EXPECT_EQ(code(fails), kInvalid);
  EXPECT_EQ(rpcs.calls[fails].text.find("secret"), std::string::npos);
  EXPECT_EQ(states_over_grpc(), "small READY\nsql READY\nlaw UNAVAILABLE\n");
  broken = false;
  opened.clear();
  const uint64_t load = say_load("law");
  EXPECT_EQ(code(load), kOk);
  EXPECT_THAT(rpcs.calls[load].sent, ElementsAre(""));
  EXPECT_THAT(opened, ElementsAre("law"));
  EXPECT_EQ(code(say_load("law")), kOk);  // it is there
  EXPECT_EQ(opened.size(), 1u);
  EXPECT_EQ(states_over_grpc(), states());
  const uint64_t unload = say_unload("law");
  EXPECT_FALSE(code(unload)) << "requests may use it";
  EXPECT_EQ(states_over_grpc(), "small READY\nsql READY\nlaw UNLOADING\n");
  EXPECT_EQ(code(say_load("law")), kAborted);
  auto infer = grpc_protocol::small_request();
  infer.set_model_name("law");
  EXPECT_EQ(code(say("ModelInfer", infer)), kNotFound);
  infer.set_model_name("sql");
  EXPECT_FALSE(code(say("ModelInfer", infer)));  // the engine has it
  EXPECT_EQ(loop.state().waiting, 1);
  leave(2);
  EXPECT_EQ(code(unload), kOk);
  EXPECT_THAT(rpcs.calls[unload].sent, ElementsAre(""));
  EXPECT_EQ(code(say_unload("law")), kInvalid);
  for (const char* name : {"other", "..", "../../etc", "", "/etc/passwd"})
    EXPECT_EQ(code(say_load(name)), kNotFound) << name;
  for (const char* name : {"small", "fastertransformer"}) {
    EXPECT_EQ(code(say_load(name)), kOk);
    EXPECT_EQ(code(say_unload(name)), kInvalid);
  }
  service->set_phase(Service::Phase::draining);
  EXPECT_EQ(code(say_load("law")), kUnavailable);
}

TEST_F(AdapterRequests, SayThatOneIsBeingLoaded) {
  holds_back = true;
  const uint64_t call = say_load("law");
  EXPECT_FALSE(code(call));
  EXPECT_EQ(states(), "small READY\nsql READY\nlaw LOADING\n");
  EXPECT_EQ(states_over_grpc(), states());
  EXPECT_EQ(code(say_load("law")), kAborted);
  EXPECT_EQ(status("POST", "/v2/repository/models/law/load"), 409);
  EXPECT_EQ(service->num_active(), 1u) << "a server that ends waits for it";
  held_back.at(0)();
  EXPECT_EQ(code(call), kOk);
  EXPECT_EQ(service->num_active(), 0u);
}

TEST_F(AdapterRequests, ThatWaitAreEndedWithTheServer) {
  const auto over_http = ask("POST", "/v2/repository/models/sql/unload");
  EXPECT_EQ(code(say_load("law")), kOk);
  const uint64_t over_grpc = say_unload("law");
  EXPECT_EQ(service->num_active(), 2u);
  service->end_all(protocols::ApiError("", "the server is shutting down").with_status(503));
  EXPECT_EQ(over_http->answer.status, 503);
  EXPECT_EQ(code(over_grpc), kUnavailable);
  EXPECT_EQ(service->num_active(), 0u);
}

TEST_F(AdapterRequests, OutliveTheirClients) {
  const uint64_t call = say_unload("sql");
  calls.on_event({.kind = rpc::RpcEvent::Kind::gone, .call = call});
  leave(1);
  EXPECT_FALSE(code(call));
  EXPECT_EQ(states(), "small READY\nsql UNLOADING\nlaw UNAVAILABLE\n");  // nobody leads the loop
}

}  // namespace
}  // namespace megalith::serve
