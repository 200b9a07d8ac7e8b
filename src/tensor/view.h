// SPDX-License-Identifier: Apache-2.0
// A non-owning view of elements in some device's memory: pointer, type, shape, and the distance
// between rows (elements between neighbours along dimension 0; all later dimensions are
// contiguous). It does not say which memory that is: only kernels of the right device kind may
// follow the pointer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace megalith {

template <typename Byte>
class BasicView {
 public:
  BasicView() = default;
  BasicView(Byte* data, DType dtype, const Shape& shape)
      : data_(data), dtype_(dtype), shape_(shape), row_stride_(elements_per_row()) {}
  BasicView(Byte* data, DType dtype, const Shape& shape, int64_t row_stride)
      : data_(data), dtype_(dtype), shape_(shape), row_stride_(row_stride) {}
  /// A View converts to a ConstView.
  operator BasicView<const std::byte>() const { return {data_, dtype_, shape_, row_stride_}; }

  /// True for a default-constructed view: an optional argument that is absent.
  bool absent() const { return data_ == nullptr; }
  explicit operator bool() const { return data_ != nullptr; }

  Byte* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t size(int dim) const { return shape_[dim]; }
  int64_t num_elements() const { return shape_.num_elements(); }
  int64_t bytes() const { return num_elements() * bytes_of(dtype_); }
  /// Elements between the starts of neighbouring rows.
  int64_t row_stride() const { return row_stride_; }
  bool is_contiguous() const {
    return row_stride_ == elements_per_row() || shape_.num_dims() == 0 || shape_[0] <= 1;
  }

  /// Typed pointer; checks the type.
  template <typename T>
  auto* as() const {
    MEGA_CHECK(dtype_ == kDTypeOf<T>, "a view of {} read as {}", name_of(dtype_),
               name_of(kDTypeOf<T>));
    if constexpr (std::is_const_v<Byte>) {
      return reinterpret_cast<const T*>(data_);
    } else {
      return reinterpret_cast<T*>(data_);
    }
  }
  /// Typed pointer to row i.
  template <typename T>
  auto* row(int64_t i) const {
    return as<T>() + i * row_stride_;
  }

  /// Rows [begin, begin + count).
  BasicView rows(int64_t begin, int64_t count) const {
    MEGA_CHECK(begin >= 0 && count >= 0 && begin + count <= shape_[0], "rows {} + {} of {}", begin,
               count, shape_[0]);
    Shape shape = shape_;
    shape.set(0, count);
    return {data_ + begin * row_stride_ * bytes_of(dtype_), dtype_, shape, row_stride_};
  }
  /// Columns [begin, begin + count) of a matrix; the rows keep their distance.
  BasicView columns(int64_t begin, int64_t count) const {
    MEGA_CHECK_EQ(shape_.num_dims(), 2);
    MEGA_CHECK(begin >= 0 && count >= 0 && begin + count <= shape_[1], "columns {} + {} of {}",
               begin, count, shape_[1]);
    return {data_ + begin * bytes_of(dtype_), dtype_, Shape{shape_[0], count}, row_stride_};
  }
  /// A vector seen as a matrix of `count` equal rows (row stride 0); for reading.
  BasicView<const std::byte> repeated(int64_t count) const {
    MEGA_CHECK_EQ(shape_.num_dims(), 1);
    return {data_, dtype_, Shape{count, shape_[0]}, 0};
  }
  /// The same contiguous elements under another shape.
  BasicView reshape(const Shape& shape) const {
    MEGA_CHECK(is_contiguous());
    MEGA_CHECK_EQ(shape.num_elements(), num_elements());
    return {data_, dtype_, shape};
  }

 private:
  int64_t elements_per_row() const {
    int64_t n = 1;
    for (int dim = 1; dim < shape_.num_dims(); ++dim) n *= shape_[dim];
    return n;
  }

  Byte* data_ = nullptr;
  DType dtype_ = DType::f32;
  Shape shape_;
  int64_t row_stride_ = 0;
};

using View = BasicView<std::byte>;
using ConstView = BasicView<const std::byte>;

}  // namespace megalith
