list(APPEND kernel_sources
  norm/layer_norm.cpp norm/layer_norm_reference.cpp norm/layer_norm_cpu.cpp)
list(APPEND kernel_tests norm/layer_norm_test.cpp norm/gamma_offset_test.cpp)
list(APPEND kernel_benches norm/layer_norm_bench.cpp)
