list(APPEND kernel_sources optimizer/adamw.cpp optimizer/adamw_cpu.cpp)
list(APPEND kernel_tests optimizer/adamw_test.cpp)
list(APPEND kernel_benches optimizer/adamw_bench.cpp)
