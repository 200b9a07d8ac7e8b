// SPDX-License-Identifier: Apache-2.0
// The steps that every operation takes after checking its arguments: record the cost, choose an
// implementation, take its scratch, run it unless the device only counts. And the checks and
// partitions that row-wise operations share.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/exec.h"

namespace megalith::kernels {

/// Lists on the host that arguments point to, copied for a kernel that runs after the call. Has a
/// specialisation for arguments that have some.
template <typename Arguments>
struct HostLists {
  explicit HostLists(Arguments&) {}
};

/// A call on its way through the device's stream.
template <typename Arguments>
class QueuedCall final : public device::QueuedKernel {
 public:
  QueuedCall(const Exec& exec, void (*kernel)(Exec&, const Arguments&), const Arguments& arguments)
      : exec_(exec),
        kernel_(kernel),
        payload_{arguments, exec.scratch},
        lists_(payload_.arguments) {}
  void run() override {
    exec_.scratch = payload_.scratch;
    kernel_(exec_, payload_.arguments);
  }
  std::span<std::byte> addresses() override {
    return std::as_writable_bytes(std::span(&payload_, 1));
  }

 private:
  struct Payload {
    Arguments arguments;
    std::byte* scratch;
  };
  Exec exec_;
  void (*kernel_)(Exec&, const Arguments&);
  Payload payload_;
  HostLists<Arguments> lists_;
};

template <typename Arguments>
void run_chosen(Exec& exec, std::string_view name, const device::Work& work,
                std::span<const Implementation<Arguments>> list, const Arguments& arguments) {
  const device::KernelScope scope(exec.device, name, work);
  const Implementation<Arguments>& chosen = choose(list, exec, arguments);
  Exec running = exec;
  device::Allocation scratch;
  if (chosen.scratch_bytes != nullptr) {
    running.scratch_bytes = chosen.scratch_bytes(exec, arguments);
    if (running.scratch_bytes > 0) scratch = exec.workspace.allocate(running.scratch_bytes);
    running.scratch = scratch.data();
  }
  if (exec.device.is_trace()) return;
  if (exec.device.queues_kernels()) {
    exec.device.enqueue(std::make_unique<QueuedCall<Arguments>>(running, chosen.run, arguments));
  } else {
    chosen.run(running, arguments);
  }
}

/// Types that activations are stored in and vector code computes on, in f32.
inline bool is_narrow(DType dtype) { return dtype == DType::f32 || is_half(dtype); }

/// Why the vector code refuses: it takes no f64. Absent views are allowed.
inline std::string_view refuse_wide(std::initializer_list<ConstView> views) {
  for (const ConstView& view : views) {
    if (!view.absent() && !is_narrow(view.dtype())) return "takes f32, bf16 and f16 only";
  }
  return {};
}
/// f32, bf16 and f16 in any mix, or f64 throughout.
inline void check_storage(std::initializer_list<ConstView> views) {
  int narrow = 0, wide = 0;
  for (const ConstView& view : views) {
    if (view.absent()) continue;
    const bool is_wide = view.dtype() == DType::f64;
    MEGA_CHECK(is_wide || is_narrow(view.dtype()), "storage {}", view.dtype());
    ++(is_wide ? wide : narrow);
  }
  MEGA_CHECK(narrow == 0 || wide == 0, "f64 mixed with narrower storage");
}
inline void check_same_shape(const ConstView& a, const ConstView& b) {
  MEGA_CHECK(a.shape() == b.shape(), "{} against {}", a.shape(), b.shape());
}
/// A 1-D view of n contiguous elements of this type.
inline void check_vector(const ConstView& view, DType dtype, int64_t n) {
  MEGA_CHECK_EQ(view.dtype(), dtype);
  MEGA_CHECK_EQ(view.num_elements(), n);
  MEGA_CHECK(view.is_contiguous());
}

/// Any view as [rows, columns]: dimension 0 against all later ones; 1-D is one row.
template <typename Byte>
BasicView<Byte> as_matrix(const BasicView<Byte>& view) {
  if (view.shape().num_dims() < 2) {
    MEGA_CHECK(view.row_stride() == 1 || view.num_elements() <= 1, "a strided vector");
    const int64_t n = view.num_elements();
    return {view.data(), view.dtype(), Shape{1, n}, n};
  }
  int64_t columns = 1;
  for (int dim = 1; dim < view.shape().num_dims(); ++dim) columns *= view.size(dim);
  return {view.data(), view.dtype(), Shape{view.size(0), columns}, view.row_stride()};
}
/// One row that holds everything, if the view is contiguous.
template <typename Byte>
BasicView<Byte> as_one_row(const BasicView<Byte>& view) {
  const int64_t n = view.num_elements();
  return {view.data(), view.dtype(), Shape{1, n}, n};
}

/// Calls body(row, begin, end) for pieces that cover [rows, columns], statically over the device's
/// threads in grains of some thousand elements: whole rows, or parts of a single row.
template <typename Body>
void for_pieces(Exec& exec, int64_t rows, int64_t columns, const Body& body) {
  constexpr int64_t kGrain = 8192;
  if (rows == 0 || columns == 0) return;
  if (rows == 1) {
    exec.device.pool().for_range(columns, kGrain,
                                 [&](Range range, int) { body(0, range.begin, range.end); });
    return;
  }
  exec.device.pool().for_range(rows, std::max<int64_t>(1, kGrain / columns), [&](Range range, int) {
    for (int64_t row = range.begin; row < range.end; ++row) body(row, 0, columns);
  });
}

}  // namespace megalith::kernels
