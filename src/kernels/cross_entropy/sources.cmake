list(APPEND kernel_sources
  cross_entropy/cross_entropy.cpp cross_entropy/cross_entropy_reference.cpp
  cross_entropy/cross_entropy_cpu.cpp cross_entropy/preference_loss.cpp
  cross_entropy/span_loss.cpp)
list(APPEND kernel_tests cross_entropy/cross_entropy_test.cpp cross_entropy/preference_loss_test.cpp
  cross_entropy/span_loss_test.cpp)
list(APPEND kernel_benches cross_entropy/cross_entropy_bench.cpp)
