// SPDX-License-Identifier: Apache-2.0
// Where the time of real steps went: by kernel and by part of the model, each beside the time that
// its work must take on this machine (the roofline: Williams, Waterman & Patterson 2009), and what
// lies between the kernels.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "device/recorder.h"

namespace megalith::account {

/// What the machine can do at best, measured.
struct Roofline {
  double flops = 0;  // per second
  double bytes = 0;  // per second, read from memory
  double seconds(const device::Work& work) const;
};

struct ProfileRow {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
  double least_seconds = 0;  // by the roofline; data in a cache may beat it
  device::Work work;
};

struct Profile {
  int64_t steps = 0;
  double seconds = 0;  // of these steps, by the clock
  double least_seconds = 0;
  double gap_seconds = 0;             // in no kernel
  std::vector<ProfileRow> by_kernel;  // longest first
  std::vector<ProfileRow> by_part;    // "layers.*.mlp": all layers together
};

/// Of `steps` steps that took `seconds` while `recorder` was on.
Profile profile_of(const device::Recorder& recorder, int64_t steps, double seconds,
                   const Roofline& roofline);

/// Two tables for people, per step.
std::string to_text(const Profile& profile, const Roofline& roofline);

/// The events that the recorder kept, in the Chrome trace format; `path` is replaced as a whole.
void write_trace(const device::Recorder& recorder, const std::filesystem::path& path);

}  // namespace megalith::account
