// SPDX-License-Identifier: Apache-2.0
// The gRPC plug-in: every call is one of gRPC's generic service, a stream of bytes both ways; one
// thread waits at the completion queue.
#include <grpc/support/log.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "rpc/grpc/grpc_call.h"

namespace megalith::rpc {
namespace {

constexpr auto kSweep = std::chrono::seconds(1);
constexpr int kStreamsOfAConnection = 128;
constexpr int kMetadataBytes = 32 << 10;
constexpr int kPingMilliseconds = 60'000, kPongMilliseconds = 20'000;
constexpr int kPingsApartMilliseconds = 10'000;  // that clients send

class GrpcServer final : public RpcServer {
 public:
  explicit GrpcServer(const RpcOptions& options) : options_(options) {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    limit(builder);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      queue_->Shutdown();
      throw std::runtime_error("gRPC does not start");
    }
    expect_call();
    thread_ = std::thread([this] { run(); });
  }
  ~GrpcServer() override { close(0); }

  void adopt(int connection, std::string peer) override {
    const std::lock_guard lock(mutex_);
    if (is_closed_) {
      ::close(connection);
      return;
    }
    // As gRPC names what it has not accepted itself.
    peers_["fd:" + std::to_string(connection)] = std::move(peer);
    grpc::AddInsecureChannelFromFd(server_.get(), connection);
  }

  void read(uint64_t number) override {
    const std::lock_guard lock(mutex_);
    Call* const call = find(number);
    if (call == nullptr || call->reads) return;
    call->reads = true;
    ++call->pending;
    call->stream.Read(&call->incoming, &call->read);
  }

  void send(uint64_t number, std::string message) override {
    const std::lock_guard lock(mutex_);
    Call* const call = find(number);
    if (call == nullptr || call->status) return;
    call->unsent_bytes += message.size();
    call->unsent.push_back(std::move(message));
    if (call->unsent_bytes > options_.most_unsent_bytes && call->unsent.size() > 1)
      return call->context.TryCancel();
    pump(*call);
  }

  void finish(uint64_t number, int code, std::string text) override {
    const std::lock_guard lock(mutex_);
    Call* const call = find(number);
    if (call == nullptr || call->status) return;
    call->status.emplace(static_cast<grpc::StatusCode>(code), std::move(text));
    pump(*call);
  }

  void close(double seconds) override {
    if (!thread_.joinable()) return;
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(
                          std::chrono::duration<double>(seconds)));
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    queue_->Shutdown();
    thread_.join();
  }

 private:
  void limit(grpc::ServerBuilder& builder) const {
    builder.SetMaxReceiveMessageSize(static_cast<int>(options_.most_message_bytes));
    grpc::ResourceQuota quota("megalith");
    builder.SetResourceQuota(quota.Resize(options_.most_held_bytes));
    // A compressed message is bounded after it was unpacked, when it is too late.
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsOfAConnection);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                               static_cast<int>(1000 * options_.idle_seconds));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPongMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kPingsApartMilliseconds);
  }

  /// Null if it has ended.
  Call* find(uint64_t number) {
    const auto at = calls_.find(number);
    return is_closed_ || at == calls_.end() || at->second->is_done ? nullptr : at->second.get();
  }

  void expect_call() {
    const uint64_t number = ++last_call_;
    Call& call = *calls_.emplace(number, std::make_unique<Call>(number)).first->second;
    call.context.AsyncNotifyWhenDone(&call.done);
    service_.RequestCall(&call.context, &call.stream, queue_.get(), queue_.get(), &call.begin);
  }

  void pump(Call& call) {
    if (call.is_done || call.writes || call.finishes) return;
    if (!call.unsent.empty()) {
      call.writes = true;
      call.write_begin = Clock::now();
      ++call.pending;
      const grpc::Slice slice(call.unsent.front());
      call.stream.Write(grpc::ByteBuffer(&slice, 1), &call.write);
    } else if (call.status) {
      call.finishes = true;
      ++call.pending;
      call.stream.Finish(*call.status, &call.finish);
    }
  }

  void run() {
    Clock::time_point swept = Clock::now();
    for (;;) {
      void* tag = nullptr;
      bool ok = false;
      const auto until = std::chrono::system_clock::now() + kSweep;
      const auto next = queue_->AsyncNext(&tag, &ok, until);
      if (next == grpc::CompletionQueue::SHUTDOWN) return;
      if (next == grpc::CompletionQueue::GOT_EVENT) {
        std::optional<RpcEvent> event = on_tag(*static_cast<Tag*>(tag), ok);
        if (event) options_.deliver(std::move(*event));
      }
      if (Clock::now() - swept < kSweep) continue;
      swept = Clock::now();
      sweep();
    }
  }

  /// Clients that take nothing.
  void sweep() {
    const std::lock_guard lock(mutex_);
    const auto most = std::chrono::duration<double>(options_.write_seconds);
    for (const auto& [number, call] : calls_)
      if (call->writes && Clock::now() - call->write_begin > most) call->context.TryCancel();
  }

  /// What is to be told of it.
  std::optional<RpcEvent> on_tag(Tag& tag, bool ok) {
    const std::lock_guard lock(mutex_);
    Call& call = *tag.call;
    if (tag.what == Tag::What::begin) return on_begin(call, ok);
    --call.pending;
    std::optional<RpcEvent> event;
    if (tag.what == Tag::What::read) event = on_read(call, ok);
    if (tag.what == Tag::What::write) on_written(call, ok);
    if (tag.what == Tag::What::done) {
      call.is_done = true;
      if (call.is_told) event = {.kind = RpcEvent::Kind::gone, .call = call.number};
    }
    if (call.is_done && call.pending == 0) {
      num_open_ -= 1;
      calls_.erase(call.number);
    }
    return event;
  }

  std::optional<RpcEvent> on_begin(Call& call, bool ok) {
    if (!ok) {  // it never was one
      calls_.erase(call.number);
      return {};
    }
    if (!is_closed_) expect_call();
    call.pending = 1;  // that it is done
    if (++num_open_ > options_.most_calls) {
      call.status.emplace(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many calls are open");
      pump(call);
      return {};
    }
    call.is_told = true;
    RpcEvent event = begun(call);
    if (const auto at = peers_.find(call.context.peer()); at != peers_.end())
      event.peer = at->second;
    return event;
  }

  std::optional<RpcEvent> on_read(Call& call, bool ok) {
    call.reads = false;
    if (call.is_done) return {};
    if (!ok) return RpcEvent{.kind = RpcEvent::Kind::half_closed, .call = call.number};
    RpcEvent event{.kind = RpcEvent::Kind::message, .call = call.number};
    event.message = text_of(call.incoming);
    call.incoming.Clear();
    return event;
  }

  void on_written(Call& call, bool ok) {
    call.writes = false;
    call.unsent_bytes -= call.unsent.front().size();
    call.unsent.pop_front();
    if (ok) pump(call);
  }

  const RpcOptions options_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<Call>> calls_;  // with the one that is expected
  uint64_t last_call_ = 0;
  size_t num_open_ = 0;
  std::map<std::string, std::string> peers_;  // by gRPC's name of their connection
  bool is_closed_ = false;
  std::thread thread_;
};

}  // namespace
}  // namespace megalith::rpc

megalith::rpc::RpcServer* megalith_open_grpc(const megalith::rpc::RpcOptions& options, char* error,
                                             int error_size) {
  // The library would print what clients do wrong.
  gpr_set_log_function([](gpr_log_func_args*) {});
  try {
    return new megalith::rpc::GrpcServer(options);
  } catch (const std::exception& fault) {
    std::snprintf(error, static_cast<size_t>(error_size), "%s", fault.what());
    return nullptr;
  }
}
