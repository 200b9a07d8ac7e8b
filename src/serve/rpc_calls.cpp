// SPDX-License-Identifier: Apache-2.0
#include "serve/rpc_calls.h"

#include <algorithm>

#include "base/clock.h"
#include "base/one_line.h"
#include "grpc_protocol/infer_message.h"
#include "serve/access.h"

namespace megalith::serve {

using grpc_protocol::Method;
using grpc_protocol::MethodKind;
using protocols::ApiError;

struct RpcCalls::Call {
  const Method* method = nullptr;
  std::string client;
  double begin = 0, last = 0;  // monotonic: its begin, and when it last had a request
  double deadline = 0;
  bool has_message = false;
  bool half_closed = false;
  std::set<std::shared_ptr<Exchange>> exchanges;  // that are under way
};

/// The answer to one infer request: the whole of a call, or messages of a stream.
class RpcCalls::Exchange final : public serve::Exchange,
                                 public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(RpcCalls& calls, uint64_t call, bool streams)
      : calls_(&calls), call_(call), streams_(streams) {}
  grpc_protocol::InferNames names;
  /// The call has ended.
  void forget() {
    calls_ = nullptr;
    if (on_gone) on_gone();
  }

  void send(std::string_view data) override {
    if (calls_ != nullptr && !data.empty()) calls_->server_.send(call_, std::string(data));
  }
  void end_stream() override {
    if (calls_ == nullptr) return;
    const auto self = shared_from_this();
    RpcCalls& calls = leave();
    const Call& call = calls.calls_.at(call_);
    if (!streams_ || (call.half_closed && call.exchanges.empty())) calls.finish(call_, 0, "");
  }
  void confirm() override { write_whole({.body = ""}); }
  void refuse(const ApiError& error) override {
    if (calls_ == nullptr) return;
    if (streams_) {  // which goes on
      send(grpc_protocol::stream_error(error, names.id));
      return end_stream();
    }
    const auto self = shared_from_this();
    leave().refuse(call_, error);
  }

 private:
  void write_whole(HttpResponse response) override {
    if (calls_ != nullptr) calls_->server_.send(call_, std::move(response.body));
    end_stream();
  }
  void write_head(HttpResponse) override {}
  /// The call goes on without it.
  RpcCalls& leave() {
    RpcCalls& calls = *std::exchange(calls_, nullptr);
    Call& call = calls.calls_.at(call_);
    call.exchanges.erase(shared_from_this());
    call.last = monotonic_seconds();
    return calls;
  }

  RpcCalls* calls_;
  uint64_t call_;
  bool streams_;
};

RpcCalls::RpcCalls(rpc::RpcServer& server, const RpcLimits& limits)
    : server_(server), limits_(limits) {}
RpcCalls::~RpcCalls() = default;

void RpcCalls::on_event(rpc::RpcEvent event) {
  const uint64_t number = event.call;
  try {
    if (event.kind == rpc::RpcEvent::Kind::begun) return begin(std::move(event));
    const auto at = calls_.find(number);
    if (at == calls_.end()) return;
    if (event.kind == rpc::RpcEvent::Kind::gone) return forget(number);
    if (event.kind == rpc::RpcEvent::Kind::half_closed) return half_close(number, at->second);
    on_message(number, at->second, std::move(event.message));
  } catch (const ApiError& error) {
    if (service_ != nullptr) ++service_->metrics().bad_requests;
    refuse(number, error);
  } catch (const std::exception& error) {
    refuse(number, ApiError("", "{}", error.what()).with_status(500));
  }
}

void RpcCalls::begin(rpc::RpcEvent event) {
  if (service_ == nullptr) throw ApiError("", "Loading model").with_status(503);
  const Method* const method = grpc_protocol::method_at(event.method);
  if (method == nullptr)
    throw ApiError("", "there is no method {}", one_line(event.method, 100)).with_status(405);
  const auto& keys = service_->options().api_keys;
  const auto key = key_of(event.authorization, keys);
  if (!keys.empty() && !method->is_public && !key)
    throw ApiError("", "this server requires a key: metadata authorization: Bearer KEY")
        .with_status(401);
  Call& call = calls_[event.call];
  call.method = method;
  call.client = Service::client_of(key, event.peer);
  call.begin = call.last = monotonic_seconds();
  call.deadline = call.begin + event.seconds;
  service_->metrics().calls = static_cast<int64_t>(calls_.size());
  server_.read(event.call);
}

void RpcCalls::on_message(uint64_t number, Call& call, std::string message) {
  call.has_message = true;
  if (call.method->kind == MethodKind::repository) {
    const auto asked = grpc_protocol::repository_change(*call.method, message);
    const auto exchange = std::make_shared<Exchange>(*this, number, false);
    call.exchanges.insert(exchange);
    return service_->change_repository(asked.name, asked.loads, exchange);
  }
  if (call.method->kind != MethodKind::question) return take(number, call, std::move(message));
  const grpc_protocol::ServerState state{.version = service_->options().version,
                                         .is_ready = service_->phase() == Service::Phase::ready,
                                         .models = service_->repository()};
  server_.send(number, answer_question(*call.method, message, service_->model(), state));
  finish(number, 0, "");
}

void RpcCalls::take(uint64_t number, Call& call, std::string message) {
  const bool streams = call.method->kind == MethodKind::stream;
  const auto exchange = std::make_shared<Exchange>(*this, number, streams);
  const double now = monotonic_seconds();
  const size_t size = message.size();
  call.exchanges.insert(exchange);
  call.last = now;
  held_ += size;
  try {
    if (held_ > limits_.held_bytes)
      throw ApiError("", "too much is being read at once: try again soon").with_status(429);
    service_->take({.exchange = exchange,
                    .path = std::string(call.method->path),
                    .client = call.client,
                    .seconds = call.deadline - now,
                    .make =
                        [exchange, streams,
                         message = std::move(message)](const protocols::ServedModel& model) {
                          grpc_protocol::InferNames& names = exchange->names;
                          Work work{.texts = grpc_protocol::prepare_infer_message(message, model,
                                                                                  streams, names)};
                          work.adapter = names.adapter;
                          return work;
                        },
                    .was_read =
                        [this, number, size, streams] {
                          held_ -= size;
                          if (streams) server_.read(number);
                        }});
  } catch (const ApiError& error) {
    held_ -= size;
    ++service_->metrics().bad_requests;
    exchange->refuse(error);
    if (streams) server_.read(number);
  }
}

void RpcCalls::half_close(uint64_t number, Call& call) {
  call.half_closed = true;
  if (call.method->kind != MethodKind::stream) throw ApiError("", "the call has no message");
  if (call.exchanges.empty()) finish(number, 0, "");
}

/// It has ended, and whatever is under way for it.
void RpcCalls::forget(uint64_t number) {
  const auto node = calls_.extract(number);
  if (node.empty()) return;
  for (const auto& exchange : node.mapped().exchanges) exchange->forget();
  if (service_ != nullptr) service_->metrics().calls = static_cast<int64_t>(calls_.size());
}

void RpcCalls::refuse(uint64_t number, const ApiError& error) {
  finish(number, grpc_protocol::grpc_code(error.status()), one_line(error.what()));
}

void RpcCalls::finish(uint64_t number, int code, std::string text) {
  server_.finish(number, code, std::move(text));
  forget(number);
}

void RpcCalls::tick(double now) {
  std::vector<uint64_t> late;
  for (const auto& [number, call] : calls_) {
    const bool waits = call.method->kind == MethodKind::stream
                           ? call.exchanges.empty() && now - call.last > limits_.idle_seconds
                           : !call.has_message && now - call.begin > limits_.message_seconds;
    if (waits) late.push_back(number);
  }
  for (const uint64_t number : late)
    refuse(number, ApiError("", "no request came for too long").with_status(408));
}

void RpcCalls::end_all() {
  while (!calls_.empty())
    refuse(calls_.begin()->first, ApiError("", "the server is shutting down").with_status(503));
}

}  // namespace megalith::serve
