list(APPEND kernel_sources rotary/rotary.cpp rotary/rotary_reference.cpp rotary/rotary_cpu.cpp)
list(APPEND kernel_tests rotary/rotary_test.cpp)
list(APPEND kernel_benches rotary/rotary_bench.cpp)
