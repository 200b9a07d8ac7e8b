list(APPEND kernel_sources
  narrow/convert.cpp narrow/convert_reference.cpp narrow/convert_cpu.cpp
  narrow/widen.cpp narrow/widen_reference.cpp narrow/widen_cpu.cpp
  narrow/quantize.cpp narrow/quantize_reference.cpp narrow/quantize_cpu.cpp
  narrow/quantize_blocks.cpp narrow/quantize_blocks_reference.cpp narrow/quantize_blocks_cpu.cpp
  narrow/scale_update.cpp narrow/scaled_product.cpp narrow/loss_scale.cpp
  narrow/core_product_reference.cpp narrow/core_product_cpu.cpp)
list(APPEND kernel_tests
  narrow/convert_test.cpp narrow/quantize_test.cpp narrow/quantize_blocks_test.cpp
  narrow/scale_update_test.cpp narrow/scaled_product_test.cpp narrow/loss_scale_test.cpp
  narrow/widen_test.cpp)
list(APPEND kernel_benches narrow/narrow_bench.cpp)
