list(APPEND kernel_tests elementary/run_chosen_test.cpp elementary/simd_math_test.cpp)
