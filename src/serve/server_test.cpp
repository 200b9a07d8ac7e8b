// SPDX-License-Identifier: Apache-2.0
// A server with its engine over sockets: every thread there is, for ThreadSanitizer too.
#include "serve/server.h"

#include <gmock/gmock.h>

#include <csignal>
#include <future>

#include "serve/toy_server_testing.h"

namespace megalith::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string complete(const std::string& address) {
  return answer(address, "POST", "/v1/completions",
                R"({"model": "toy", "prompt": [1, 2, 3], "max_tokens": 6, "temperature": 0,
                    "return_token_ids": true})");
}

TEST(Server, AnswersManyClientsAtOnce) {
  ToyLoop toy(toy_options(3, 30));
  Server server(any_port());
  toy.between_passes = [&](const std::vector<Event>& events) { server.deliver(events); };
  server.open(toy_model(), toy.loop);
  std::vector<std::future<std::string>> texts;
  for (int i = 0; i < 6; ++i)
    texts.push_back(std::async(std::launch::async, complete, server.address()));
  EXPECT_THAT(answer(server.address(), "GET", "/metrics"), HasSubstr("megalith:passes_total"));
  const auto ids_of = [](const std::string& said) {
    return said.substr(std::min(said.find("\"token_ids\""), said.size()));
  };
  const std::string first = texts[0].get();
  EXPECT_THAT(first, StartsWith("HTTP/1.1 200"));
  EXPECT_NE(ids_of(first), "");
  for (size_t i = 1; i < texts.size(); ++i)
    EXPECT_EQ(ids_of(texts[i].get()).substr(0, 40), ids_of(first).substr(0, 40));
}

TEST(Server, SaysThatItsPortIsTaken) {
  Server first(any_port());
  ServerOptions options = any_port();
  options.port = std::stoi(first.address().substr(first.address().rfind(':') + 1));
  try {
    const Server second(options);
    FAIL() << "it listens too";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--port"));
    EXPECT_THAT(error.what(), HasSubstr(first.address()));
  }
  EXPECT_THAT(answer(first.address(), "GET", "/health"), StartsWith("HTTP/1.1 503"));
}

TEST(Server, ASignalEndsItWhileItLoads) {
  std::promise<void> ended;
  ServerOptions options = any_port();
  options.end_loading = [&] { ended.set_value(); };
  const Server server(options);
  ::raise(SIGTERM);
  EXPECT_EQ(ended.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST(Server, ASignalBeforeItOpensIsNotLost) {
  EngineLoop loop(toy_options(2, 2));
  std::promise<void> came;
  ServerOptions options = any_port();
  options.end_loading = [&] { came.set_value(); };
  Server server(options);
  ::raise(SIGINT);
  came.get_future().wait();
  server.open(toy_model(), loop);
  EXPECT_FALSE(loop.submit({}, "a")) << "the loop is stopped";
  EXPECT_THAT(answer(server.address(), "GET", "/health"), HasSubstr("Shutting down"));
}

TEST(Server, EndsWhatIsOpenWithAnError) {
  EngineLoop loop(toy_options(2, 2));  // nobody leads it
  auto server = std::make_unique<Server>(any_port());
  server->open(toy_model(), loop);
  auto text = std::async(std::launch::async, complete, server->address());
  while (loop.state().waiting == 0) std::this_thread::yield();
  server.reset();
  EXPECT_THAT(text.get(), StartsWith("HTTP/1.1 500"));
  EXPECT_EQ(loop.state().waiting, 0);
}

}  // namespace
}  // namespace megalith::serve
