list(APPEND kernel_sources
  embedding/embedding.cpp embedding/embedding_reference.cpp embedding/embedding_cpu.cpp
  embedding/sinusoidal.cpp embedding/sinusoidal_reference.cpp embedding/sinusoidal_cpu.cpp)
list(APPEND kernel_tests embedding/embedding_test.cpp embedding/sinusoidal_test.cpp)
list(APPEND kernel_benches embedding/embedding_bench.cpp)
