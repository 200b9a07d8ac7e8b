list(APPEND kernel_tests elementary/simd_math_test.cpp)
