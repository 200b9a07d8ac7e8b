// SPDX-License-Identifier: Apache-2.0
#include "data/fingerprint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/file_hash.h"
#include "base/folder.h"
#include "base/log.h"

namespace megalith::data {
namespace {

constexpr std::string_view kAll = "all-";
constexpr size_t kDigits = 32;

std::string line_of(const char* name, const File& file) {
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0)
    throw SystemError("{} (fstat): {}", file.path().string(), std::strerror(errno));
  return fmt::format("{} {} {}.{:09}\n", name, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

}  // namespace

std::string fingerprint_of(const std::string& idx_digest, const std::string& bin_digest) {
  const std::string both = idx_digest + bin_digest;
  return std::string(kAll) + file_hash(std::as_bytes(std::span(both)));
}

bool is_of_all_bytes(std::string_view fingerprint) {
  return fingerprint.size() == kAll.size() + kDigits && fingerprint.starts_with(kAll) &&
         fingerprint.find_first_not_of("0123456789abcdef", kAll.size()) == std::string_view::npos;
}

std::string stamp_of(const File& idx, const File& bin) {
  return "megalith fingerprint 1\n" + line_of("idx", idx) + line_of("bin", bin);
}

std::filesystem::path fingerprint_path(const std::filesystem::path& prefix) {
  std::filesystem::path path = prefix;
  path += ".fingerprint";
  return path;
}

std::optional<std::string> kept_fingerprint(const std::filesystem::path& prefix,
                                            std::string_view stamp) {
  constexpr int64_t kMostBytes = 4096;
  const std::filesystem::path path = fingerprint_path(prefix);
  std::string text;
  try {
    text = read_regular(path, kMostBytes);
  } catch (const Error&) {
    return std::nullopt;  // absent, mostly
  }
  if (!text.starts_with(stamp) || !text.ends_with('\n')) return std::nullopt;
  std::string kept = text.substr(stamp.size(), text.size() - stamp.size() - 1);
  return is_of_all_bytes(kept) ? std::optional(std::move(kept)) : std::nullopt;
}

void keep_fingerprint(const std::filesystem::path& prefix, std::string_view stamp,
                      std::string_view fingerprint) {
  try {
    write_file_durable(
        fingerprint_path(prefix),
        [&](File& file) { file.write(fmt::format("{}{}\n", stamp, fingerprint)); }, false);
  } catch (const Error& error) {
    log::debug("the fingerprint of {} is not kept, and is worked out at each start: {}",
               prefix.string(), error.what());
  }
}

std::string digest_of(const File& file, const AtWork& at_work) {
  FileHash hash;
  const int64_t bytes = file.size();
  std::vector<std::byte> piece(static_cast<size_t>(std::min(bytes, int64_t{1} << 20)));
  for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(piece.size())) {
    if (at_work) at_work();
    const auto part = static_cast<size_t>(std::min(static_cast<int64_t>(piece.size()), bytes - at));
    file.read_at(piece.data(), part, at);
    hash.update(piece.data(), part);
  }
  return hash.digest();
}

}  // namespace megalith::data
