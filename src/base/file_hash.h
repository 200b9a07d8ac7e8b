// SPDX-License-Identifier: Apache-2.0
// The hash that guards checkpoints and corpora against damage: XXH3-128 (xxHash 0.8). It runs at
// the speed of memory and misses random damage with probability 2^-128. It does not protect against
// deliberate changes, and no hash stored beside the data could. Written as the canonical bytes of
// XXH128_hash_t.
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
  /// 32 lower-case hexadecimal digits over everything so far.
  std::string digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The digest that FileHash gives for `bytes`.
std::string file_hash(std::span<const std::byte> bytes);

}  // namespace megalith
