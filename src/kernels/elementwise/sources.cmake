list(APPEND kernel_sources
  elementwise/pointwise.cpp elementwise/pointwise_reference.cpp elementwise/pointwise_cpu.cpp
  elementwise/activate.cpp elementwise/activate_reference.cpp elementwise/activate_cpu.cpp
  elementwise/gated.cpp elementwise/gated_reference.cpp elementwise/gated_cpu.cpp
  elementwise/lstm_cell.cpp elementwise/lstm_cell_reference.cpp elementwise/lstm_cell_cpu.cpp
  elementwise/squared_error.cpp
  elementwise/dropout.cpp elementwise/dropout_reference.cpp elementwise/dropout_cpu.cpp)
list(APPEND kernel_tests
  elementwise/pointwise_test.cpp elementwise/activate_test.cpp elementwise/gated_test.cpp
  elementwise/dropout_test.cpp elementwise/lstm_cell_test.cpp elementwise/squared_error_test.cpp)
list(APPEND kernel_benches elementwise/elementwise_bench.cpp)
