// SPDX-License-Identifier: Apache-2.0
// One call of the gRPC plug-in. Private to it.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "rpc/rpc_server.h"

namespace megalith::rpc {

using Clock = std::chrono::steady_clock;

struct Call;
/// What comes back from the completion queue.
struct Tag {
  enum class What : uint8_t { begin, read, write, finish, done };
  What what;
  Call* call;
};

/// All but the constructor under the server's lock.
struct Call {
  explicit Call(uint64_t given) : number(given) {}
  uint64_t number;
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  Tag begin{Tag::What::begin, this}, read{Tag::What::read, this}, write{Tag::What::write, this},
      finish{Tag::What::finish, this}, done{Tag::What::done, this};
  grpc::ByteBuffer incoming;
  std::deque<std::string> unsent;  // the first is being sent while `writes`
  size_t unsent_bytes = 0;
  std::optional<grpc::Status> status;  // to end with, when all is sent
  Clock::time_point write_begin;
  int pending = 0;  // tags that are to come back
  bool reads = false, writes = false, finishes = false;
  bool is_told = false;  // it was delivered that it began
  bool is_done = false;
};

inline std::string text_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return "";
  std::string text;
  text.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices)
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

inline RpcEvent begun(const Call& call) {
  RpcEvent event{.call = call.number, .method = call.context.method()};
  const auto& metadata = call.context.client_metadata();
  if (const auto at = metadata.find("authorization"); at != metadata.end())
    event.authorization.assign(at->second.data(), at->second.size());
  const auto deadline = call.context.deadline();
  if (deadline != std::chrono::system_clock::time_point::max())
    event.seconds =
        std::chrono::duration<double>(deadline - std::chrono::system_clock::now()).count();
  return event;
}

}  // namespace megalith::rpc
