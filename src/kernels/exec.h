// SPDX-License-Identifier: Apache-2.0
// What every kernel is given first: the rank's device (kind, target, threads, stream, recorder),
// where its scratch comes from, and which arithmetic is wanted. Kernels see neither layers nor
// ranks.
//
// The contract that all of them share:
//   - work is queued on the device's stream; arguments must stay valid, and results are ready, as
//   of a
//     later ticket of the device;
//   - activation gradients overwrite, parameter gradients accumulate (+=), exceptions are named;
//   - scratch is a pure function of shapes and target, taken from `workspace` for the call;
//   - under the trace kind no pointer is followed: arguments are checked, scratch is allocated, the
//   cost
//     recorded;
//   - every operation has a list of implementations, tried in order; the last one is the reference:
//   plain
//     loops in double precision over any dtype (f64 included), which is the specification.
#pragma once

#include <span>
#include <string_view>

#include "device/device.h"
#include "tensor/view.h"

namespace megalith::kernels {

/// `exact`: fixed arithmetic, the same bits for any thread count, blocking, instruction set and CPU
/// maker (docs/design). `fast`: libraries may choose.
enum class Numerics : uint8_t { exact, fast };

struct Exec {
  device::Device& device;
  device::Arena& workspace;
  Numerics numerics = Numerics::exact;
  /// Tests and benches: only the implementation of this name; empty for the first that accepts.
  std::string_view only = {};

  explicit Exec(device::Device& on, Numerics arithmetic = Numerics::exact)
      : device(on), workspace(on.arena(device::MemoryClass::workspace)), numerics(arithmetic) {}
};

/// One entry of an operation's list. `refuse` returns why it cannot take the arguments (shown with
/// --log-level debug), or nothing.
template <typename Arguments>
struct Implementation {
  std::string_view name;
  std::string_view (*refuse)(const Exec&, const Arguments&);
  void (*run)(Exec&, const Arguments&);
};

/// The first entry that accepts. There always is one: the reference takes everything that passed
/// the operation's checks. InternalError when `only` names an entry that refuses.
template <typename Arguments>
const Implementation<Arguments>& choose(std::span<const Implementation<Arguments>> list,
                                        const Exec& exec, const Arguments& arguments) {
  std::string_view reason = "no such implementation";
  for (const Implementation<Arguments>& entry : list) {
    if (!exec.only.empty() && entry.name != exec.only) continue;
    reason = entry.refuse(exec, arguments);
    if (reason.empty()) return entry;
  }
  MEGA_CHECK(false, "no implementation ('{}' asked) takes these arguments: {}", exec.only, reason);
}

}  // namespace megalith::kernels
