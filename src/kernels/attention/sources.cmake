list(APPEND kernel_sources
  attention/attention.cpp attention/attention_work.cpp attention/attention_reference.cpp
  attention/attention_bias.cpp attention/relative_buckets.cpp
  attention/attention_forward_cpu.cpp attention/attention_backward_cpu.cpp
  attention/attention_forward_bf16.cpp attention/attention_backward_bf16.cpp
  attention/kv_cache.cpp attention/kv_cache_cpu.cpp attention/kv_cache_bf16.cpp
  attention/kv_cache_reference.cpp)
list(APPEND kernel_tests attention/attention_test.cpp attention/attention_bits_test.cpp
  attention/attention_window_test.cpp attention/attention_cross_test.cpp
  attention/attention_partials_test.cpp attention/attention_bias_test.cpp
  attention/relative_buckets_test.cpp
  attention/attention_bf16_test.cpp attention/attention_stated_test.cpp
  attention/kv_cache_test.cpp attention/kv_cache_window_test.cpp)
list(APPEND kernel_benches attention/attention_bench.cpp)
