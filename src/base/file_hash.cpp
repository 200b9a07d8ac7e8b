// SPDX-License-Identifier: Apache-2.0
#include "base/file_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

#include "base/error.h"
#include "base/format.h"

namespace megalith {

struct FileHash::State {
  XXH3_state_t* xxh;
};

FileHash::FileHash() : state_(std::make_unique<State>(State{XXH3_createState()})) {
  if (state_->xxh == nullptr) throw SystemError("XXH3_createState: out of memory");
  XXH3_128bits_reset(state_->xxh);
}

FileHash::~FileHash() { XXH3_freeState(state_->xxh); }

void FileHash::update(const void* data, size_t size) {
  XXH3_128bits_update(state_->xxh, data, size);
}

std::string FileHash::digest() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->xxh));
  std::string text;
  for (const unsigned char byte : canonical.digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string file_hash(std::span<const std::byte> bytes) {
  FileHash hash;
  hash.update(bytes.data(), bytes.size());
  return hash.digest();
}

}  // namespace megalith
