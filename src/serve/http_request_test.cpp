// SPDX-License-Identifier: Apache-2.0
#include "serve/http_request.h"

#include <gmock/gmock.h>

#include "protocols/api_error.h"

namespace megalith::serve {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPost =
    "POST /v1/completions?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
constexpr const char* kChunked =
    "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3\r\nbod\r\n1;x=y\r\ny\r\n0\r\nTrailer: x\r\n\r\n";

/// The status that the bytes come to: 0 where they are not a whole request yet, 200 for one.
int status_of(const std::string& bytes, const HttpLimits& limits = {}, size_t piece = SIZE_MAX) {
  RequestParser parser(limits);
  std::string rest;
  try {
    for (size_t begin = 0; begin < bytes.size() && !parser.is_done();
         begin += std::min(piece, bytes.size())) {
      rest += bytes.substr(begin, piece);
      rest.erase(0, parser.feed(rest));
    }
  } catch (const protocols::ApiError& error) {
    return error.status();
  }
  return parser.is_done() ? 200 : 0;
}

std::string get(const std::string& headers, const std::string& path = "/") {
  return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
}
std::string post(const std::string& headers, const std::string& body) {
  return "POST / HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n" + body;
}

TEST(HttpRequest, IsReadAsItComesAtEveryCut) {
  for (const std::string bytes : {kPost, kChunked}) {
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      RequestParser parser{HttpLimits()};
      std::string rest = bytes.substr(0, cut);
      rest.erase(0, parser.feed(rest));
      EXPECT_FALSE(parser.is_done());
      rest += bytes.substr(cut) + "GET / HT";
      rest.erase(0, parser.feed(rest));
      ASSERT_TRUE(parser.is_done()) << cut;
      EXPECT_EQ(parser.request().path, "/v1/completions");
      EXPECT_EQ(parser.request().body, "body");
      EXPECT_EQ(rest, "GET / HT");  // the next one's
    }
  }
  RequestParser parser{HttpLimits()};
  parser.feed(kPost);
  EXPECT_EQ(parser.request().query, "x=1");
  EXPECT_EQ(parser.request().header("host"), "a");
  EXPECT_TRUE(parser.request().keep_alive);
}

TEST(HttpRequest, IsReadByteByByte) {
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  // The library's own assertion of a last chunk that is whole would end the program here.
  for (const std::string& bytes : {std::string(kPost), std::string(kChunked), head + "0\r\n\r\n",
                                   head + "0\r\nA: b\r\n\r\n", head + "000\r\n\r\n"})
    EXPECT_EQ(status_of(bytes, {}, 1), 200) << bytes;
  EXPECT_EQ(status_of(head + "0\r\n\r\x01\x90\n\r\n\n", {}, 1), 0);
}

TEST(HttpRequest, WhatTwoServersCouldReadDifferentlyIsRefused) {
  const char* const wrong[] = {"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                               "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                               "Content-Length: 4\r\nContent-Length: 5\r\n",
                               "Content-Length: 4\r\nContent-Length: 4\r\n",
                               "Content-Length: 4, 4\r\n",
                               "Content-Length: -1\r\n",
                               "Content-Length: +4\r\n",
                               "Content-Length: 1e3\r\n",
                               "Content-Length: 0x4\r\n",
                               "Content-Length: 18446744073709551616\r\n",
                               "Content-Length:\r\n",
                               "Transfer-Encoding: chunked, chunked\r\n",
                               "Transfer-Encoding: gzip, chunked\r\n",
                               "Transfer-Encoding: identity\r\n",
                               "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                               "Transfer-Encoding : chunked\r\n",
                               "Host: b\r\n",
                               "no colon\r\n",
                               ": no name\r\n",
                               "a b: x\r\n",
                               "Expect: a miracle\r\n",
                               "Content-Encoding: gzip\r\n"};
  for (const char* headers : wrong) {
    const int status = status_of(post(headers, "4\r\nbody\r\n0\r\n\r\n"));
    EXPECT_TRUE(status == 400 || status == 415 || status == 417) << headers << status;
  }
  EXPECT_EQ(status_of(std::string("GET / HTTP/1.1\r\nHost: a\r\nx: \0\r\n\r\n", 35)), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400);  // no host
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

TEST(HttpRequest, ChunksAreHexadecimalDigitsAlone) {
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  EXPECT_EQ(status_of(post(chunked, "4\r\nbody\r\n0\r\n\r\n")), 200);
  for (const char* size : {"-2", "+5", "0x5", "11111111111111111", "", " 4", "g"})
    EXPECT_EQ(status_of(post(chunked, std::string(size) + "\r\nbody\r\n0\r\n\r\n")) / 100, 4)
        << size;
  EXPECT_EQ(status_of(post(chunked, "4\r\nbodyx\r\n0\r\n\r\n")), 400);
  EXPECT_EQ(status_of(post(chunked, "4\r\nbody\r\n")), 0);  // there is more to come
}

TEST(HttpRequest, OthersThanHttp1AreRefused) {
  EXPECT_EQ(status_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") / 100, 5);
  EXPECT_EQ(status_of("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET /\r\n\r\n"), 400);
  EXPECT_EQ(status_of("\x16\x03\x01\x02" + std::string(100, 'x') + "\r\n\r\n"), 400);
  EXPECT_GE(status_of("GET / HTTP/1.1\nHost: a\n\n"), 400);
}

TEST(HttpRequest, IsBounded) {
  EXPECT_EQ(status_of(get("", "/" + std::string(8191, 'x'))), 200);
  EXPECT_EQ(status_of(get("", "/" + std::string(8192, 'x'))), 414);
  std::string headers;
  for (int i = 0; i < 99; ++i) headers += "x: y\r\n";
  EXPECT_EQ(status_of(get(headers)), 200);
  EXPECT_EQ(status_of(get(headers + "x: y\r\n")), 431);
  EXPECT_EQ(status_of(get("x: " + std::string(33'000, 'x') + "\r\n")), 431);
  EXPECT_EQ(status_of("GET /" + std::string(64'000, 'x')), 431);
  const HttpLimits limits{.body_bytes = 8, .kserve_body_bytes = 16, .chunks = 4};
  EXPECT_EQ(status_of(post("Content-Length: 8\r\n", "12345678"), limits), 200);
  EXPECT_EQ(status_of(post("Content-Length: 9\r\n", ""), limits), 413);
  EXPECT_EQ(
      status_of("POST /v2/x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n123456789", limits),
      200);
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  EXPECT_EQ(status_of(post(chunked, "4\r\n1234\r\n4\r\n1234\r\n0\r\n\r\n"), limits), 200);
  EXPECT_EQ(status_of(post(chunked, "4\r\n1234\r\n5\r\n"), limits), 413);
  EXPECT_EQ(status_of(post(chunked, "1\r\nx\r\n1\r\nx\r\n1\r\nx\r\n1\r\nx\r\n0\r\n\r\n"), limits),
            413);
}

TEST(HttpRequest, PathsAreDecoded) {
  const auto path_of = [](const std::string& target) {
    RequestParser parser{HttpLimits()};
    parser.feed(get("", target));
    return parser.request().path;
  };
  EXPECT_EQ(path_of("/v1/models/a%2Fb?q=%zz"), "/v1/models/a/b");
  EXPECT_EQ(path_of("http://a/x?y"), "/x");
  EXPECT_EQ(path_of("http://a"), "/");
  for (const char* target : {"/%00", "/%0a", "/%", "/%1", "/%zz"})
    EXPECT_EQ(status_of(get("", target)), 400) << target;
}

TEST(HttpRequest, WaitsWhereTheClientWaits) {
  RequestParser parser{HttpLimits()};
  parser.feed("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
  EXPECT_TRUE(parser.waits_for_continue());
  parser.feed("x");
  EXPECT_FALSE(parser.waits_for_continue());
  EXPECT_TRUE(parser.is_done());
}

}  // namespace
}  // namespace megalith::serve
