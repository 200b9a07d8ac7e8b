// SPDX-License-Identifier: Apache-2.0
// The implementations behind the lists of column_sum.cpp, tree_sum.cpp, pool_rows.cpp, norms.cpp
// and row_norms.cpp. Arguments have been checked; `simd` takes f32, bf16 and f16.
#pragma once

#include "kernels/reduction/column_sum.h"
#include "kernels/reduction/norms.h"
#include "kernels/reduction/pool_rows.h"
#include "kernels/reduction/row_norms.h"
#include "kernels/reduction/tree_sum.h"

namespace megalith::kernels {

void column_sum_simd(Exec& exec, const ColumnSum& arguments);
void column_sum_reference(Exec& exec, const ColumnSum& arguments);
void tree_sum_simd(Exec& exec, const TreeSum& arguments);
void tree_sum_reference(Exec& exec, const TreeSum& arguments);
void pool_rows_forward_simd(Exec& exec, const PoolRowsForward& arguments);
void pool_rows_forward_reference(Exec& exec, const PoolRowsForward& arguments);
void pool_rows_backward_simd(Exec& exec, const PoolRowsBackward& arguments);
void pool_rows_backward_reference(Exec& exec, const PoolRowsBackward& arguments);
void sum_of_squares_simd(Exec& exec, const SumOfSquares& arguments);
void sum_of_squares_reference(Exec& exec, const SumOfSquares& arguments);
void ordered_sum_reference(Exec& exec, const OrderedSum& arguments);
void row_squares_simd(Exec& exec, const RowSquares& arguments);
void row_squares_reference(Exec& exec, const RowSquares& arguments);
void all_finite_simd(Exec& exec, const AllFinite& arguments);
void all_finite_reference(Exec& exec, const AllFinite& arguments);

}  // namespace megalith::kernels
