// SPDX-License-Identifier: Apache-2.0
// Ranks that wait long tell the others in what. Two that wait in different calls may never compare
// them (a send and a collective, one call on two groups): the one that gives up can name both.
#pragma once

#include <array>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "comm/messages/wire.h"

namespace megalith::comm {

class LongWaits {
 public:
  explicit LongWaits(Wire& wire);
  ~LongWaits();
  LongWaits(const LongWaits&) = delete;
  LongWaits& operator=(const LongWaits&) = delete;

  /// Tells all others what this rank's thread `lane` waits in; "": it no longer does.
  void tell(int lane, const std::string& call);
  /// What thread `lane` of `rank` told last; "" when nothing.
  std::string of(int rank, int lane);

 private:
  struct Note {
    int32_t rank = 0;
    int32_t lane = 0;
    std::array<char, 504> call{};
  };
  struct Sent {
    std::shared_ptr<const Note> note;
    Wire::Handle handle;
  };
  void await_note();

  Wire& wire_;
  std::mutex mutex_;  // of all below
  Note incoming_;
  Wire::Handle waiting_ = 0;
  std::list<Sent> sent_;
  std::map<std::pair<int, int>, std::string> told_;  // by rank and lane
};

}  // namespace megalith::comm
