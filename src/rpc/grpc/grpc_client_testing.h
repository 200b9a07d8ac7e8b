// SPDX-License-Identifier: Apache-2.0
// Tests only: a client over gRPC, one call at a time, in bytes.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <climits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace megalith::rpc {

inline constexpr const char* kService = "/inference.GRPCInferenceService/";

/// A connection of its own, unlike the library's default.
inline std::shared_ptr<grpc::Channel> channel_to(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(INT_MAX);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

class ClientCall {
 public:
  /// `seconds`: its deadline; nothing: none.
  ClientCall(std::shared_ptr<grpc::Channel> channel, const std::string& path,
             std::optional<double> seconds = {}, const std::string& key = "")
      : stub_(std::move(channel)) {
    if (seconds)
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::system_clock::duration>(
                               std::chrono::duration<double>(*seconds)));
    if (!key.empty()) context.AddMetadata("authorization", "Bearer " + key);
    stream_ = stub_.PrepareCall(&context, path, &queue_);
  }
  ~ClientCall() {
    if (!has_ended_) {
      context.TryCancel();
      finish();
    }
  }
  grpc::ClientContext context;  // to be changed before start() only

  void start() {
    stream_->StartCall(this);
    wait();
  }
  bool send(const std::string& message) {
    const grpc::Slice slice(message);
    stream_->Write(grpc::ByteBuffer(&slice, 1), this);
    return wait();
  }
  void close() {
    stream_->WritesDone(this);
    wait();
  }
  /// Nothing at the end.
  std::optional<std::string> receive() {
    grpc::ByteBuffer buffer;
    stream_->Read(&buffer, this);
    if (!wait()) return {};
    std::vector<grpc::Slice> slices;
    if (!buffer.Dump(&slices).ok()) return {};
    std::string message;
    for (const grpc::Slice& slice : slices)
      message.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    return message;
  }
  grpc::Status finish() {
    grpc::Status status;
    stream_->Finish(&status, this);
    wait();
    has_ended_ = true;
    return status;
  }

 private:
  bool wait() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }
  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  bool has_ended_ = false;
};

/// One message there, one back; empty with another status than OK.
inline std::string ask(ClientCall& call, const std::string& message, grpc::Status& status) {
  call.start();
  call.send(message);
  call.close();
  const auto answer = call.receive();
  status = call.finish();
  return status.ok() ? answer.value_or("") : "";
}

}  // namespace megalith::rpc
