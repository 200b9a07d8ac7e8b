// SPDX-License-Identifier: Apache-2.0
// Who may ask and what is answered, without sockets and without an engine: its events are made up.
#include "serve/service.h"

#include <gmock/gmock.h>

#include "base/clock.h"
#include "protocols/protocols_fixture.h"
#include "serve/toy_loop_testing.h"

namespace megalith::serve {
namespace {

using protocols::Json;
using ::testing::HasSubstr;

class FakeExchange final : public Exchange {
 public:
  void send(std::string_view data) override { answer.body += data; }
  void end_stream() override { ++answers; }
  std::string header(const std::string& name) const {
    for (const auto& [key, value] : answer.headers)
      if (key == name) return value;
    return "";
  }
  HttpResponse answer{.status = 0};
  int answers = 0;

 private:
  void write_whole(HttpResponse response) override {
    ++answers;
    answer = std::move(response);
  }
  void write_head(HttpResponse head) override { answer = std::move(head); }
};

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() { make({}); }
  void make(ServiceOptions options) {
    service.emplace(protocols::small_model(), std::move(options), loop,
                    [this](Service::Errand errand, const std::function<void()>& work,
                           const std::function<void()>& done) {
                      errands.push_back(errand);
                      work();
                      done();
                    });
    service->set_phase(Service::Phase::ready);
  }
  std::shared_ptr<FakeExchange> ask(const std::string& method, const std::string& path,
                                    const std::string& body = "", HttpHeaders headers = {}) {
    auto exchange = std::make_shared<FakeExchange>();
    headers.emplace_back("host", "here");
    service->handle({.method = method,
                     .path = path,
                     .headers = std::move(headers),
                     .body = body,
                     .peer = "1.2.3.4"},
                    exchange);
    return exchange;
  }
  std::shared_ptr<FakeExchange> complete(const Json& changes = Json::object(),
                                         HttpHeaders headers = {}) {
    Json body{{"model", "small"}, {"prompt", "ab"}, {"max_tokens", 2}};
    body.update(changes);
    return ask("POST", "/v1/completions", body.dump(), std::move(headers));
  }
  static Event token(uint64_t ticket, const std::string& text) {
    return {.kind = Event::Kind::token, .ticket = ticket, .token = {{0, -1}, {}, text}};
  }
  static Event ended(uint64_t ticket, const std::string& text) {
    Event event{.kind = Event::Kind::ended, .ticket = ticket};
    event.written.result = protocols::generated(text, {0}, {-1}, "length");
    return event;
  }
  void tell(Event event) {
    std::vector<Event> events;
    events.push_back(std::move(event));
    service->on_events(std::move(events));
  }
  Metrics& metrics() { return service->metrics(); }

  EngineLoop loop{toy_options(2, 2)};
  std::optional<Service> service;
  std::vector<Service::Errand> errands;
};

TEST_F(ServiceTest, AnswersWhenTheEngineHasWritten) {
  const auto exchange = complete();
  EXPECT_EQ(exchange->answers, 0);
  tell(token(1, "c"));
  tell(ended(1, "c"));
  EXPECT_EQ(exchange->answer.status, 200);
  EXPECT_EQ(Json::parse(exchange->answer.body)["choices"][0]["text"], "c");
  EXPECT_EQ(service->num_active(), 0u);
  EXPECT_EQ(metrics().finished, 1);
  EXPECT_EQ(metrics().generated_tokens, 1);
  EXPECT_EQ(metrics().prompt_tokens, 1);
}

TEST_F(ServiceTest, TellsWhatTimeTextsTook) {
  complete();
  Event event = ended(1, "c");
  event.written.result.queue_seconds = 1;
  event.written.result.prompt_seconds = 2;
  event.written.result.decode_seconds = 3.5;
  event.written.result.speculated = {.guesses = 7, .right = 4};
  tell(std::move(event));
  const std::string text = ask("GET", "/metrics")->answer.body;
  const auto has = [&](const std::string& name, const std::string& value) {
    EXPECT_THAT(text,
                HasSubstr("vllm:" + name + "{model_name=\"small\",engine=\"0\"} " + value + "\n"));
  };
  has("request_queue_time_seconds_sum", "1");
  has("request_prefill_time_seconds_sum", "2");
  has("request_decode_time_seconds_sum", "3.5");
  has("request_inference_time_seconds_sum", "5.5");
  has("request_inference_time_seconds_count", "1");
  has("prefix_cache_queries_total", "0");
  has("prefix_cache_hits_total", "0");
  has("iteration_tokens_total_count", "0");
  has("spec_decode_num_draft_tokens_total", "7");
  has("spec_decode_num_accepted_tokens_total", "4");
}

TEST_F(ServiceTest, StreamsAsItComes) {
  const auto exchange = complete({{"stream", true}});
  EXPECT_EQ(exchange->answer.status, 0);
  tell(token(1, "c"));
  EXPECT_EQ(exchange->answer.content_type, "text/event-stream; charset=utf-8");
  EXPECT_THAT(exchange->answer.body, HasSubstr(R"("text":"c")"));
  EXPECT_EQ(exchange->answers, 0);
  tell(ended(1, "c"));
  EXPECT_TRUE(exchange->answer.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(exchange->answers, 1);
}

TEST_F(ServiceTest, AFullQueueIsToldSo) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(complete()->answer.status, 0);
  const auto refused = complete();
  EXPECT_EQ(refused->answer.status, 429);
  EXPECT_EQ(refused->header("Retry-After"), "1");
  EXPECT_EQ(Json::parse(refused->answer.body)["error"]["code"], "queue_full");
  EXPECT_EQ(metrics().rejected, 1);
  EXPECT_EQ(metrics().started, 5);
}

TEST_F(ServiceTest, AClientThatGoesLeavesItsPlace) {
  std::vector<std::shared_ptr<FakeExchange>> all;
  for (int i = 0; i < 4; ++i) all.push_back(complete());
  all[1]->on_gone();
  EXPECT_EQ(metrics().cancelled, 1);
  EXPECT_EQ(service->num_active(), 3u);
  EXPECT_EQ(complete()->answer.status, 0);
  tell(token(2, "x"));  // of the one that has gone
  EXPECT_EQ(all[1]->answer.status, 0);
}

TEST_F(ServiceTest, DeadlinesEndRequests) {
  make({.deadline_seconds = 5});
  const auto whole = complete(), stream = complete({{"stream", true}});
  tell(token(2, "c"));
  service->tick(monotonic_seconds());
  EXPECT_EQ(whole->answers, 0);
  service->tick(monotonic_seconds() + 6);
  EXPECT_EQ(whole->answer.status, 504);
  EXPECT_THAT(stream->answer.body, HasSubstr("deadline_exceeded"));
  EXPECT_TRUE(stream->answer.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(metrics().failed, 2);
  EXPECT_EQ(loop.state().waiting, 0);  // the engine is rid of them
}

TEST_F(ServiceTest, WhatTheEngineRefusesIsTheClients) {
  const auto exchange = complete();
  tell({.kind = Event::Kind::refused, .ticket = 1, .message = "too long"});
  EXPECT_EQ(exchange->answer.status, 400);
  EXPECT_THAT(exchange->answer.body, HasSubstr("too long"));
}

TEST_F(ServiceTest, ATextThatItsGrammarBreaksOffIsAnError) {
  const auto whole = complete(), stream = complete({{"stream", true}});
  tell(token(2, "c"));
  for (const uint64_t ticket : {1, 2}) {
    Event event = ended(ticket, "c");
    event.written.result.finish_reason = "error";
    tell(std::move(event));
  }
  EXPECT_EQ(whole->answer.status, 400);
  EXPECT_THAT(whole->answer.body, HasSubstr("grammar_stuck"));
  EXPECT_THAT(stream->answer.body, HasSubstr("grammar_stuck"));
  EXPECT_TRUE(stream->answer.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(metrics().failed, 2);
  EXPECT_EQ(service->num_active(), 0u);
}

TEST_F(ServiceTest, AnErrorInOneAnswerIsNotTheOthers) {
  // Without the log-probabilities of its prompt an echo cannot be made.
  const auto bad = complete({{"prompt", {3, 4}}, {"echo", true}, {"logprobs", 1}});
  const auto good = complete();
  std::vector<Event> events;
  events.push_back(ended(1, "c"));
  events.push_back(ended(2, "d"));
  service->on_events(std::move(events));
  EXPECT_EQ(bad->answer.status, 500);
  EXPECT_EQ(good->answer.status, 200);
  EXPECT_EQ(service->num_active(), 0u);
  EXPECT_EQ(metrics().failed, 1);
  EXPECT_EQ(metrics().finished, 1);
}

TEST_F(ServiceTest, WantsAKeyWhereThereAreSome) {
  make({.api_keys = {"right"}});
  const auto status = [&](const std::string& path, const std::string& key) {
    return ask("GET", path, "", {{"authorization", key}})->answer.status;
  };
  EXPECT_EQ(status("/v1/models", "Bearer right"), 200);
  EXPECT_EQ(status("/v1/models", "Bearer wrong"), 401);
  EXPECT_EQ(status("/v1/models", ""), 401);
  EXPECT_EQ(status("/metrics", ""), 401);
  EXPECT_EQ(status("/health", ""), 200);
  EXPECT_EQ(status("/v2/health/live", ""), 200);
  EXPECT_EQ(status("/", ""), 200);
  EXPECT_EQ(complete()->answer.status, 401);
  EXPECT_EQ(complete()->header("WWW-Authenticate"), "Bearer");
}

TEST_F(ServiceTest, PathsAndMethods) {
  EXPECT_EQ(ask("GET", "/nothing")->answer.status, 404);
  EXPECT_EQ(ask("POST", "/nothing")->answer.status, 404);
  EXPECT_EQ(ask("GET", "/v1/completions")->answer.status, 405);
  EXPECT_EQ(ask("DELETE", "/v1/models")->answer.status, 405);
  EXPECT_EQ(ask("OPTIONS", "/v1/completions")->answer.status, 204);
  EXPECT_EQ(ask("GET", "/v1/models/small")->answer.status, 200);
  EXPECT_EQ(ask("GET", "/v1/models/other")->answer.status, 404);
  EXPECT_EQ(ask("GET", "/v2")->answer.status, 200);
  EXPECT_EQ(ask("GET", "/v2/models/small/ready")->answer.status, 200);
  EXPECT_EQ(ask("GET", "/v2/models/../../etc/passwd")->answer.status, 404);
  const auto wrong = ask("POST", "/v2/models/other/infer", "{}");
  EXPECT_EQ(wrong->answer.status, 404);
  EXPECT_THAT(wrong->answer.body, HasSubstr(R"({"error":")"));
  EXPECT_EQ(ask("POST", "/v1/completions", "{")->answer.status, 400);
  EXPECT_EQ(metrics().started, 0);
}

TEST_F(ServiceTest, PagesOfOtherOriginsMayNotAsk) {
  EXPECT_EQ(ask("GET", "/v1/models", "", {{"origin", "https://evil.example"}})->answer.status, 403);
  EXPECT_EQ(ask("GET", "/v1/models", "", {{"origin", "http://here"}})->answer.status, 200);
}

TEST_F(ServiceTest, EveryAnswerToAPageThatMayAskSaysSo) {
  make({.allow_origins = {"https://good.example"}});
  const HttpHeaders good{{"origin", "https://good.example"}};
  const auto whole = complete(Json::object(), good), stream = complete({{"stream", true}}, good);
  tell(ended(1, "c"));
  tell(token(2, "c"));
  for (const auto& exchange :
       {ask("OPTIONS", "/v1/models", "", good), ask("GET", "/v1/models", "", good),
        ask("GET", "/nothing", "", good), complete({{"n", -1}}, good), whole, stream}) {
    EXPECT_NE(exchange->answer.status, 0);
    EXPECT_EQ(exchange->header("Access-Control-Allow-Origin"), "https://good.example");
  }
  const auto asked = ask("OPTIONS", "/v1/completions", "",
                         {good[0], {"access-control-request-headers", "x-stainless-lang"}});
  EXPECT_EQ(asked->header("Access-Control-Allow-Headers"), "x-stainless-lang");
  const auto own = ask("GET", "/v1/models", "", {{"origin", "http://here"}});
  EXPECT_EQ(own->header("Access-Control-Allow-Origin"), "");
}

TEST_F(ServiceTest, BodiesThatMayAskForAGrammarHoldUpNoOthers) {
  const auto errand = [&](const std::string& path, const std::string& body) {
    errands.clear();
    ask("POST", path, body);
    return errands.at(0);
  };
  using enum Service::Errand;
  EXPECT_EQ(errand("/v1/completions", R"({"prompt": "a", "max_tokens": 1})"), read);
  EXPECT_EQ(errand("/tokenize", R"({"prompt": "\u00e9\n\u2003"})"), read);
  for (const char* field :
       {R"("response_format": {"type": "json_object"})", R"("guided_regex": "a")",
        R"("structured_outputs": {"choice": ["a"]})", R"("tools": [], "tool_choice": "required")",
        R"("guid\u0065d_regex": "a")", R"("\u0067uided_regex": "a")"})
    EXPECT_EQ(errand("/v1/completions", fmt::format(R"({{"prompt": "a", {}}})", field)), prepare)
        << field;
  EXPECT_EQ(errand("/v2/models/small/generate", R"({"text_input": "a", "guided_json": true})"),
            prepare);
}

TEST_F(ServiceTest, IsNotReadyBeforeAndAfter) {
  service->set_phase(Service::Phase::loading);
  EXPECT_EQ(ask("GET", "/health")->answer.status, 503);
  EXPECT_EQ(complete()->answer.status, 503);
  service->set_phase(Service::Phase::draining);
  EXPECT_EQ(ask("GET", "/health")->answer.status, 503);
  EXPECT_EQ(ask("GET", "/v2/health/live")->answer.status, 200);
  const auto refused = complete();
  EXPECT_EQ(refused->answer.status, 503);
  EXPECT_NE(refused->header("Retry-After"), "");
}

TEST_F(ServiceTest, NamesTheRequestsOfAPass) {
  const auto exchange = complete({{"user", "me"}});
  EXPECT_THAT(service->names_of({1, 9}), HasSubstr("#1 (/v1/completions, user:me, 1 texts"));
}

}  // namespace
}  // namespace megalith::serve
