// SPDX-License-Identifier: Apache-2.0
// The hash of what must not be damaged (checkpoints, corpora): XXH3-128 (xxHash 0.8), which runs at
// the speed of memory and
// misses a damage with probability 2^-128. It says nothing about files that somebody changed on
// purpose, and nor would any hash that lies beside them. Written down as XXH128_hash_t's canonical
// bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace megalith {

class FileHash {
 public:
  FileHash();
  ~FileHash();
  FileHash(const FileHash&) = delete;
  FileHash& operator=(const FileHash&) = delete;
  void update(const void* data, size_t size);
  /// 32 lower-case hexadecimal digits, of all so far.
  std::string digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Of `bytes`, as FileHash gives it.
std::string file_hash(std::span<const std::byte> bytes);

}  // namespace megalith
