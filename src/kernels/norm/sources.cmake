list(APPEND kernel_sources
  norm/layer_norm.cpp norm/layer_norm_reference.cpp norm/layer_norm_cpu.cpp
  norm/head_norm.cpp norm/head_norm_reference.cpp norm/head_norm_cpu.cpp
  norm/whole_norm.cpp norm/whole_norm_reference.cpp norm/whole_norm_cpu.cpp)
list(APPEND kernel_tests
  norm/layer_norm_test.cpp norm/gamma_offset_test.cpp norm/head_norm_test.cpp
  norm/whole_norm_test.cpp)
list(APPEND kernel_benches
  norm/layer_norm_bench.cpp norm/head_norm_bench.cpp norm/whole_norm_bench.cpp)
