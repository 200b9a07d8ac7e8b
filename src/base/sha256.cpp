// SPDX-License-Identifier: Apache-2.0
// SHA-256 by OpenSSL's EVP interface (FIPS 180-4), which picks the SHA instructions of the CPU.
#include <openssl/evp.h>

#include <array>

#include "base/check.h"
#include "base/file.h"

namespace megalith {
namespace {
EVP_MD_CTX* evp(void* context) { return static_cast<EVP_MD_CTX*>(context); }
}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw SystemError("EVP_MD_CTX_new: out of memory");
  if (EVP_DigestInit_ex(evp(context_), EVP_sha256(), nullptr) != 1) {
    EVP_MD_CTX_free(evp(context_));
    throw SystemError("OpenSSL offers no SHA-256 here");
  }
}

Sha256::~Sha256() { EVP_MD_CTX_free(evp(context_)); }

void Sha256::update(const void* data, size_t size) {
  MEGA_CHECK(context_ != nullptr, "update after finish");
  if (EVP_DigestUpdate(evp(context_), data, size) != 1)
    throw SystemError("EVP_DigestUpdate failed");
}

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  MEGA_CHECK(context_ != nullptr, "finished twice");
  if (EVP_DigestFinal_ex(evp(context_), digest.data(), &size) != 1)
    throw SystemError("EVP_DigestFinal_ex failed");
  // OpenSSL would take further updates in silence.
  EVP_MD_CTX_free(evp(context_));
  context_ = nullptr;
  std::string text;
  text.reserve(2 * size);
  for (unsigned int i = 0; i < size; ++i)
    fmt::format_to(std::back_inserter(text), "{:02x}", digest[i]);
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hash.finish();
}

}  // namespace megalith
