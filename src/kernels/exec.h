// SPDX-License-Identifier: Apache-2.0
// What every kernel is given first: the rank's device (kind, target, threads, stream, recorder),
// where its scratch comes from, and which arithmetic is wanted. Kernels see neither layers nor
// ranks.
//
// The contract that all of them share:
//   - work is queued on the device's stream: views must stay valid, and results are ready, as of a
//     later ticket of the device; lists on the host are read before the call returns;
//   - activation gradients overwrite, parameter gradients accumulate (+=), exceptions are named;
//   - every operation has a list of implementations, tried in order, each for one kind of device;
//     for the cpu the last one is the reference: plain loops in double precision over any dtype
//     (f64 included), which is the specification;
//   - an entry declares its scratch, a pure function of shapes and target, which is taken from
//     `workspace` for the call. Then it runs, or under the trace kind does not: no entry knows of
//     tracing, and no pointer is followed outside of one.
#pragma once

#include <span>
#include <string_view>

#include "device/device.h"
#include "tensor/view.h"

namespace megalith::kernels {

/// `exact`: fixed arithmetic, the same bits for any thread count, blocking, instruction set and CPU
/// maker (docs/design/0001). `fast`: the same but where a library is faster (matmul/library.h).
enum class Numerics : uint8_t { exact, fast };

struct Exec {
  device::Device& device;
  device::Arena& workspace;
  Numerics numerics = Numerics::exact;
  /// Tests and benches: only the implementation of this name; empty for the first that accepts.
  std::string_view only = {};
  /// Of an entry that runs: what it declared.
  std::byte* scratch = nullptr;
  int64_t scratch_bytes = 0;

  explicit Exec(device::Device& on, Numerics arithmetic = Numerics::exact)
      : device(on), workspace(on.arena(device::MemoryClass::workspace)), numerics(arithmetic) {}
};

/// One entry of an operation's list. `refuse` returns why it cannot take the arguments (shown with
/// --log-level debug), or nothing; `scratch_bytes` (null: none) says what it needs to run.
template <typename Arguments>
struct Implementation {
  std::string_view name;
  std::string_view (*refuse)(const Exec&, const Arguments&);
  void (*run)(Exec&, const Arguments&);
  int64_t (*scratch_bytes)(const Exec&, const Arguments&) = nullptr;
  device::DeviceKind kind = device::DeviceKind::cpu;  // of the targets that it is for
};

/// The first entry for the device's target that accepts. On a cpu there always is one: the
/// reference takes everything that passed the operation's checks. InternalError when `only` names
/// an entry that refuses, or the list has none for this kind.
template <typename Arguments>
const Implementation<Arguments>& choose(std::span<const Implementation<Arguments>> list,
                                        const Exec& exec, const Arguments& arguments) {
  const device::DeviceKind kind = exec.device.target().kind;
  std::string_view reason = "no such implementation";
  for (const Implementation<Arguments>& entry : list) {
    if (entry.kind != kind || (!exec.only.empty() && entry.name != exec.only)) continue;
    reason = entry.refuse(exec, arguments);
    if (reason.empty()) return entry;
  }
  MEGA_CHECK(false, "no implementation for {} ('{}' asked) takes these arguments: {}", kind,
             exec.only, reason);
}

}  // namespace megalith::kernels
