// SPDX-License-Identifier: Apache-2.0
#include "train/stop_request.h"

#include <csignal>

#include <atomic>

namespace megalith::train {
namespace {

// A signal handler can reach nothing but process-wide state; this is the only such variable.
std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) {
  int expected = 0;
  if (caught.compare_exchange_strong(expected, signal)) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

StopRequest::StopRequest() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    // Who started the run with nohup wants it to outlive the terminal.
    if (kSignals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  caught = 0;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int StopRequest::signal() const { return caught; }

}  // namespace megalith::train
