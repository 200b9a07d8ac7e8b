// SPDX-License-Identifier: Apache-2.0
// A server with its engine over sockets: every thread there is, for ThreadSanitizer too.
#include "serve/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "serve/toy_loop_testing.h"

namespace megalith::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

protocols::ServedModel toy_model() {
  protocols::ServedModel model;
  model.name = "toy";
  model.vocab = toy_spec().vocab;
  model.context = kToyContext;
  return model;
}

ServerOptions any_port() {
  ServerOptions options;
  options.port = 0;
  return options;
}

/// All that the server at "127.0.0.1:PORT" says to one request.
std::string answer(const std::string& address, const std::string& method, const std::string& path,
                   const std::string& body = "") {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(::connect(connection, reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  const std::string request =
      fmt::format("{} {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
                  method, path, body.size(), body);
  EXPECT_EQ(::send(connection, request.data(), request.size(), 0), std::ssize(request));
  std::string said;
  char piece[4096];
  for (ssize_t n = 0; (n = ::recv(connection, piece, sizeof piece, 0)) > 0;)
    said.append(piece, static_cast<size_t>(n));
  ::close(connection);
  return said;
}

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
