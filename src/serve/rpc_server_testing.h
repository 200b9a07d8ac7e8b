// SPDX-License-Identifier: Apache-2.0
// Tests only: an RpcServer without gRPC.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rpc/rpc_server.h"

namespace megalith::serve {

/// Keeps what is asked of it.
class FakeRpcServer final : public rpc::RpcServer {
 public:
  struct Call {
    int reads = 0;
    std::vector<std::string> sent;
    std::optional<int> code;
    std::string text;
  };
  void adopt(int, std::string) override {}
  void read(uint64_t call) override { ++calls[call].reads; }
  void send(uint64_t call, std::string message) override {
    EXPECT_FALSE(calls[call].code);
    calls[call].sent.push_back(std::move(message));
  }
  void finish(uint64_t call, int code, std::string text) override {
    EXPECT_FALSE(calls[call].code) << "ended twice";
    calls[call].code = code;
    calls[call].text = std::move(text);
  }
  void close(double) override {}
  std::map<uint64_t, Call> calls;
};

}  // namespace megalith::serve
