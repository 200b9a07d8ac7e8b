// SPDX-License-Identifier: Apache-2.0
// How busy other programs keep this machine while something is timed here.
#pragma once

namespace megalith::trials {

class OtherLoad {
 public:
  /// From now on.
  OtherLoad();
  /// Of the time of all cores since then, the part that other processes (and the host of a virtual
  /// machine) took: 0 to 1. The system counts in hundredths of a second. 0 where it does not say.
  double share() const;
  /// Likewise, the part that this process took.
  double own_share() const;

 private:
  struct Ticks {
    double busy = 0, all = 0, own = 0;
  };
  static Ticks now();
  Ticks begin_;
};

}  // namespace megalith::trials
