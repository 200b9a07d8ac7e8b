list(APPEND kernel_sources
  matmul/linear.cpp matmul/linear_reference.cpp matmul/linear_exact.cpp matmul/linear_onednn.cpp
  matmul/gemm_plan.cpp matmul/gemm_cpu.cpp matmul/small_m_cpu.cpp matmul/quantized_cpu.cpp matmul/dot8_cpu.cpp
  matmul/fp8_rows_cpu.cpp matmul/row_runs.cpp matmul/linear_dot8.cpp matmul/low_rank.cpp matmul/low_rank_blocks.cpp
  matmul/low_rank_cpu.cpp matmul/ceiling.cpp matmul/library.cpp matmul/bottleneck.cpp)
list(APPEND kernel_tests matmul/linear_test.cpp matmul/linear_blocks_test.cpp
  matmul/linear_library_test.cpp matmul/linear_quantized_test.cpp matmul/linear_fp8_test.cpp
  matmul/low_rank_blocks_test.cpp matmul/low_rank_test.cpp matmul/row_runs_test.cpp matmul/dot8_test.cpp
  matmul/gemm_plan_test.cpp matmul/bottleneck_test.cpp)
list(APPEND kernel_benches matmul/linear_bench.cpp)
# oneDNN here is the build on GNU OpenMP; its thread count is set through that library.
list(APPEND kernel_libraries gomp)
# GCC takes ten minutes for the unrolled vector code of these two with AddressSanitizer: they are left
# out of it, and the tests watch the gaps between rows instead.
if(MEGA_SANITIZE STREQUAL "address")
  set_source_files_properties(matmul/gemm_cpu.cpp matmul/small_m_cpu.cpp PROPERTIES
    COMPILE_OPTIONS "-fno-sanitize=all")
endif()
