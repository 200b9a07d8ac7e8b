// SPDX-License-Identifier: Apache-2.0
// Adapters come and go while texts are written: the loop on one rank and on several, and what
// clients are told, without sockets.
#include "serve/adapters.h"

#include <gmock/gmock.h>

#include <atomic>

#include "protocols/protocols_fixture.h"
#include "serve/service.h"
#include "serve/toy_loop_testing.h"
#include "testing/toy_adapter.h"

namespace megalith::serve {
namespace {

using protocols::Json;
using ::testing::HasSubstr;
using Kind = Event::Kind;

/// Counts the adapters that ranks have.
PlaceAdapter toy_place(uint64_t seed, std::atomic<int>* alive = nullptr) {
  return [=](engine::ShardedModel& model) -> std::shared_ptr<const layers::Adapter> {
    auto adapter = testing::toy_adapter(toy_spec(), model.parameters(), model.device(), seed);
    if (alive == nullptr) return adapter;
    ++*alive;
    return {adapter.release(), [alive](const layers::Adapter* gone) {
              delete gone;
              --*alive;
            }};
  };
}

generate::Generated alone_with(uint64_t seed, const protocols::PreparedSequence& sequence) {
  const auto device = device::make_cpu_device(1);
  engine::InferenceModel model(toy_spec(), *device, {.tensor_shards = 2});
  fill_toy(model, *device);
  const std::shared_ptr<const layers::Adapter> adapter =
      testing::toy_adapter(toy_spec(), model.parameters(), *device, seed);
  model.engine().model().set_adapter(seed == 0 ? nullptr : adapter.get());
  return generate::generate(model.engine(), nullptr, sequence.prompt, sequence.options);
}

void expect_texts_as_alone(const parallel::Layout& layout) {
  EngineLoop::Options options = toy_options(6, 30);
  options.followers = layout.num_ranks() - 1;
  ToyLoop toy(options, layout);
  std::atomic<int> alive = 0;
  toy.loop.load("one", toy_place(1, &alive));
  toy.loop.load("two", toy_place(2, &alive));
  const char* const names[] = {"", "one", "two"};
  std::vector<uint64_t> tickets;
  // The same prompt under each, so that blocks that were kept would be found.
  for (size_t i = 0; i < 6; ++i) {
    protocols::PreparedSequence sequence = toy_sequence(1, 10, i < 3 ? 0 : 0.9);
    sequence.prompt.resize(80, 7);
    tickets.push_back(toy.loop.submit({sequence}, "a", names[i % 3]).value());
  }
  for (size_t i = 0; i < 6; ++i) {
    protocols::PreparedSequence sequence = toy_sequence(1, 10, i < 3 ? 0 : 0.9);
    sequence.prompt.resize(80, 7);
    const Event event = toy.inbox.wait(tickets[i], Kind::ended);
    const generate::Generated expected = alone_with(i % 3, sequence);
    EXPECT_EQ(event.written.result.ids, expected.ids) << i;
    EXPECT_EQ(event.written.result.logprobs, expected.logprobs) << i;
  }
  EXPECT_EQ(alive, 2 * layout.num_ranks());
  const uint64_t number = toy.loop.unload("one");
  EXPECT_NE(toy.loop.adapter_state("one"), AdapterState::ready);
  toy.inbox.wait(number, Kind::left);
  EXPECT_EQ(toy.loop.adapter_state("one"), AdapterState::absent);
  // Other weights under the name: nothing that was kept is taken for theirs.
  toy.loop.load("one", toy_place(3, &alive));
  protocols::PreparedSequence again = toy_sequence(1, 10, 0);
  again.prompt.resize(80, 7);
  const uint64_t ticket = toy.loop.submit({again}, "a", "one").value();
  EXPECT_EQ(toy.inbox.wait(ticket, Kind::ended).written.result.logprobs,
            alone_with(3, again).logprobs);
  EXPECT_EQ(alive, 2 * layout.num_ranks());
}

TEST(LoadedAdapters, WriteWhatEachWritesAlone) { expect_texts_as_alone({}); }
TEST(LoadedAdapters, WriteTheSameOnSeveralRanks) {
  expect_texts_as_alone({.tensor = 2, .pipeline = 2});
}

TEST(LoadedAdapters, StayUntilTheirRequestsHaveEnded) {
  ToyLoop toy(toy_options(2, 2));
  std::atomic<int> alive = 0;
  uint64_t number = 0;
  bool left_early = false, ended = false;
  toy.between_passes = [&](const std::vector<Event>& events) {
    for (const Event& event : events) {
      ended |= event.kind == Kind::ended;
      if (event.kind == Kind::token && number == 0) number = toy.loop.unload("one");
    }
    if (!ended && number != 0) left_early |= alive == 0;
  };
  toy.loop.load("one", toy_place(1, &alive));
  const auto ticket = toy.loop.submit({toy_sequence(1, 30, 0)}, "a", "one");
  EXPECT_EQ(toy.inbox.wait(*ticket, Kind::ended).written.result.ids.size(), 30u);
  toy.inbox.wait(number, Kind::left);
  EXPECT_FALSE(left_early);
  EXPECT_EQ(alive, 0);
  // One that nobody uses leaves at once, though no pass is made.
  toy.loop.load("one", toy_place(1, &alive));
  toy.inbox.wait(toy.loop.unload("one"), Kind::left);
  EXPECT_EQ(alive, 0);
}

TEST(LoadedAdapters, ReadTextsToo) {
  ToyLoop toy(toy_options(2, 2));
  toy.loop.load("one", toy_place(1));
  const std::vector<engine::Reading> readings = {{{1, 2, 3}, {}}};
  const auto vectors = [&](const std::string& adapter) {
    const auto ticket = toy.loop.submit_reading(readings, adapter);
    return toy.inbox.wait(*ticket, Kind::vectors).vectors;
  };
  const auto without = vectors("");
  EXPECT_NE(vectors("one"), without);
  EXPECT_EQ(vectors(""), without);
}

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
        [](const std::function<void()>& work, const std::function<void()>& done) {
          work();
          done();
        },
        [this](const std::string& name) -> PlaceAdapter {
          opened.push_back(name);
          if (broken) throw IntegrityError("/secret/folder: damaged");
          return toy_place(1);
        });
    service->set_phase(Service::Phase::ready);
    loop.load("sql", toy_place(1));
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
  void leave(uint64_t number) { service->on_events({{.kind = Kind::left, .ticket = number}}); }

  bool broken = false;
  std::vector<std::string> opened;
  EngineLoop loop{toy_options(2, 6)};  // nobody leads it
  std::optional<Service> service;
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

TEST_F(AdapterRequests, LoadAndUnloadByNameAlone) {
  const std::string law = "/v2/repository/models/law/";
  EXPECT_EQ(status("POST", law + "unload"), 400);
  EXPECT_EQ(status("POST", law + "load", "{}"), 200);
  EXPECT_EQ(opened, (std::vector<std::string>{"law"}));
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

}  // namespace
}  // namespace megalith::serve
