list(APPEND kernel_sources
  reduction/column_sum.cpp reduction/tree_sum.cpp reduction/column_sum_cpu.cpp
  reduction/pool_rows.cpp reduction/pool_rows_cpu.cpp
  reduction/norms.cpp reduction/norms_cpu.cpp reduction/row_norms.cpp reduction/read_bandwidth.cpp)
list(APPEND kernel_tests reduction/pool_rows_test.cpp reduction/reduction_test.cpp reduction/row_norms_test.cpp)
list(APPEND kernel_benches reduction/reduction_bench.cpp)
