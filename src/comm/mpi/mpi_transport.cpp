// SPDX-License-Identifier: Apache-2.0
// The plug-in libmegalith_mpi.so: messages by MPI (MPI-3.1, made with Open MPI). Calls are
// serialised by one mutex, so MPI_THREAD_SERIALIZED is enough; nothing but messages is used.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/mpi/mpi_plugin.h"

namespace megalith::comm {
namespace {

/// Counts of MPI are ints.
constexpr int64_t kMostBytes = int64_t{1} << 30;
/// How long a receive that has begun may take to end when it is given up.
constexpr int kCancelTurns = 1000;

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(std::string(call) + ": " + std::string(text, length));
}

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED)
      throw std::runtime_error("MPI_Init_thread: this MPI cannot be called from several threads");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Handle start_send(int to, int tag, const std::byte* data, int64_t bytes) override {
    return start(bytes, [&](int64_t at, int count, MPI_Request* request) {
      check(MPI_Isend(data + at, count, MPI_BYTE, to, tag, comm_, request), "MPI_Isend");
    });
  }

  Handle start_receive(int from, int tag, std::byte* data, int64_t bytes) override {
    const int source = from == kAnyRank ? MPI_ANY_SOURCE : from;
    return start(bytes, [&](int64_t at, int count, MPI_Request* request) {
      check(MPI_Irecv(data + at, count, MPI_BYTE, source, tag, comm_, request), "MPI_Irecv");
    });
  }

  bool test(Handle handle) override {
    const std::lock_guard lock(mutex_);
    return test_locked(handle);
  }

  bool cancel_receive(Handle handle) override {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(handle);
    if (found == open_.end()) return false;
    for (MPI_Request& request : found->second) {
      if (request != MPI_REQUEST_NULL) check(MPI_Cancel(&request), "MPI_Cancel");
    }
    for (int turn = 0; turn < kCancelTurns; ++turn) {
      if (test_locked(handle)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  void leave(bool in_order) override {
    const std::lock_guard lock(mutex_);
    if (!in_order) return;
    check(MPI_Comm_free(&comm_), "MPI_Comm_free");
    check(MPI_Finalize(), "MPI_Finalize");
  }

 private:
  template <typename Start>
  Handle start(int64_t bytes, const Start& start_part) {
    const std::lock_guard lock(mutex_);
    std::vector<MPI_Request> requests;
    for (int64_t at = 0; at < bytes || requests.empty(); at += kMostBytes) {
      requests.push_back(MPI_REQUEST_NULL);
      start_part(at, static_cast<int>(std::min(kMostBytes, bytes - at)), &requests.back());
    }
    open_[++last_] = std::move(requests);
    return last_;
  }

  bool test_locked(Handle handle) {
    const auto found = open_.find(handle);
    if (found == open_.end()) return true;
    int done = 0;
    const int code = MPI_Testall(static_cast<int>(found->second.size()), found->second.data(),
                                 &done, MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS || done != 0) open_.erase(found);
    check(code, "MPI_Testall");
    return done != 0;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::mutex mutex_;
  Handle last_ = 0;
  std::map<Handle, std::vector<MPI_Request>> open_;
};

}  // namespace
}  // namespace megalith::comm

extern "C" megalith::comm::Transport* megalith_open_mpi(char* error, int error_size) {
  try {
    return std::make_unique<megalith::comm::MpiTransport>().release();
  } catch (const std::exception& reason) {
    const std::string text = reason.what();
    const auto length = std::min(text.size(), static_cast<size_t>(error_size) - 1);
    std::copy_n(text.begin(), length, error);
    error[length] = '\0';
    return nullptr;
  }
}
