list(APPEND kernel_sources
  cross_entropy/cross_entropy.cpp cross_entropy/cross_entropy_reference.cpp
  cross_entropy/cross_entropy_cpu.cpp)
list(APPEND kernel_tests cross_entropy/cross_entropy_test.cpp)
list(APPEND kernel_benches cross_entropy/cross_entropy_bench.cpp)
