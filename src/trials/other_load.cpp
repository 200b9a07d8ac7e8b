// SPDX-License-Identifier: Apache-2.0
#include "trials/other_load.h"

#include <sys/times.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace megalith::trials {

OtherLoad::OtherLoad() : begin_(now()) {}

OtherLoad::Ticks OtherLoad::now() {
  Ticks ticks;
  std::ifstream file("/proc/stat");
  std::string name;
  file >> name;
  // user, nice, system, idle, waiting for disks, interrupts, soft interrupts, taken by the host
  for (int i = 0; i < 8; ++i) {
    double value = 0;
    if (!(file >> value)) return {};
    ticks.all += value;
    if (i != 3 && i != 4) ticks.busy += value;
  }
  struct tms own = {};
  ::times(&own);
  ticks.own = static_cast<double>(own.tms_utime + own.tms_stime + own.tms_cutime + own.tms_cstime);
  return ticks;
}

double OtherLoad::share() const {
  const Ticks end = now();
  const double all = end.all - begin_.all;
  if (all <= 0) return 0;
  return std::clamp(((end.busy - begin_.busy) - (end.own - begin_.own)) / all, 0.0, 1.0);
}

double OtherLoad::own_share() const {
  const Ticks end = now();
  const double all = end.all - begin_.all;
  return all > 0 ? (end.own - begin_.own) / all : 0;
}

}  // namespace megalith::trials
