// SPDX-License-Identifier: Apache-2.0
// Calls over gRPC: who may ask, what each message asks of the service, the way answers go. All is
// of the thread of the sockets; knows no gRPC.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "grpc_protocol/methods.h"
#include "rpc/rpc_server.h"
#include "serve/service.h"

namespace megalith::serve {

struct RpcLimits {
  size_t held_bytes = 256 << 20;  // of messages that are being read, of all calls
  double message_seconds = 30;    // for the message of a call that has one
  double idle_seconds = 600;      // of a stream without requests
};

class RpcCalls {
 public:
  /// `server` must outlive it. Without a service, which is still loading, calls are refused.
  RpcCalls(rpc::RpcServer& server, const RpcLimits& limits);
  ~RpcCalls();
  /// It must outlive this.
  void open(Service& service) { service_ = &service; }

  void on_event(rpc::RpcEvent event);
  /// Ends calls that ask nothing for too long; to be called now and then.
  void tick(double now);
  /// Ends those that are open: none of their requests is under way any more.
  void end_all();
  size_t size() const { return calls_.size(); }

 private:
  class Exchange;
  struct Call;
  void begin(rpc::RpcEvent event);
  void on_message(uint64_t number, Call& call, std::string message);
  void take(uint64_t number, Call& call, std::string message);
  void half_close(uint64_t number, Call& call);
  void forget(uint64_t number);
  void refuse(uint64_t number, const protocols::ApiError& error);
  void finish(uint64_t number, int code, std::string text);

  rpc::RpcServer& server_;
  const RpcLimits limits_;
  Service* service_ = nullptr;
  std::map<uint64_t, Call> calls_;
  size_t held_ = 0;
};

}  // namespace megalith::serve
