// SPDX-License-Identifier: Apache-2.0
// Both decoders follow concatenated members and frames (`cat a.gz b.gz`, pigz, pzstd), as gunzip
// and unzstd do. zstd's default window limit (128 MiB) bounds its memory.
#include "data/byte_source.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupted.h"

namespace megalith::data {
namespace {

constexpr size_t kInputBytes = size_t{256} << 10;
constexpr std::string_view kGzipMagic("\x1f\x8b", 2);
constexpr std::string_view kZstdMagic("\x28\xb5\x2f\xfd", 4);
/// Of a frame to skip, as pzstd writes one before each of text, without its first byte, which is
/// any of 0x50 to 0x5f. With it, it is plain text.
constexpr std::string_view kZstdSkipMagic("\x2a\x4d\x18", 3);

bool is_zstd_skip(std::string_view head) {
  return !head.empty() && (head[0] & 0xf0) == 0x50 && head.substr(1) == kZstdSkipMagic;
}

/// The bytes as they lie in the file or come through the pipe.
class RawSource final : public ByteSource {
 public:
  explicit RawSource(const std::filesystem::path& path) {
    if (path != "-") file_ = File(path, File::Mode::read);
  }
  size_t read(char* data, size_t size) override {
    if (file_.is_open()) return file_.read(data, size);
    const ssize_t count = retry([&] { return ::read(STDIN_FILENO, data, size); });
    if (count < 0) throw SystemError("standard input: read: {}", std::strerror(errno));
    return static_cast<size_t>(count);
  }
  std::optional<int64_t> size() const override {
    std::error_code error;
    if (!file_.is_open() || !std::filesystem::is_regular_file(file_.path(), error))
      return std::nullopt;
    return file_.size();
  }

 private:
  File file_;
};

/// Gives its first bytes away without losing them.
class PeekSource final : public ByteSource {
 public:
  explicit PeekSource(std::unique_ptr<ByteSource> inner) : inner_(std::move(inner)) {
    while (have_ < head_.size()) {
      const size_t count = inner_->read(head_.data() + have_, head_.size() - have_);
      if (count == 0) break;
      have_ += count;
    }
  }
  std::string_view head() const { return {head_.data(), have_}; }
  size_t read(char* data, size_t size) override {
    if (given_ == have_) return inner_->read(data, size);
    const size_t count = std::min(size, have_ - given_);
    std::memcpy(data, head_.data() + given_, count);
    given_ += count;
    return count;
  }
  std::optional<int64_t> size() const override { return inner_->size(); }

 private:
  std::unique_ptr<ByteSource> inner_;
  std::array<char, 4> head_{};
  size_t have_ = 0;
  size_t given_ = 0;
};

class GzipSource final : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> inner, std::string name)
      : inner_(std::move(inner)), name_(std::move(name)), input_(kInputBytes) {
    MEGA_CHECK(inflateInit2(&stream_, 15 + 16) == Z_OK, "inflateInit2");  // 16: gzip framing only
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  size_t read(char* data, size_t size) override {
    stream_.next_out = reinterpret_cast<Bytef*>(data);
    stream_.avail_out = static_cast<uInt>(std::min(size, size_t{1} << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0 && !refill()) {
        if (member_done_) return 0;
        throw UserError("{}: the gzip stream is cut short", name_);
      }
      if (member_done_) {
        inflateReset(&stream_);
        member_done_ = false;
      }
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) {
        member_done_ = true;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        throw UserError("{}: damaged gzip stream ({})", name_,
                        stream_.msg != nullptr ? stream_.msg : zError(status));
      }
    }
    return wanted - stream_.avail_out;
  }

 private:
  bool refill() {
    const size_t count = inner_->read(input_.data(), input_.size());
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(count);
    return count > 0;
  }

  std::unique_ptr<ByteSource> inner_;
  std::string name_;
  std::vector<char> input_;
  z_stream stream_{};
  bool member_done_ = false;
};

class ZstdSource final : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> inner, std::string name)
      : inner_(std::move(inner)), name_(std::move(name)), input_(kInputBytes) {
    MEGA_CHECK(stream_ != nullptr, "ZSTD_createDStream");
  }

  size_t read(char* data, size_t size) override {
    ZSTD_outBuffer out{data, size, 0};
    while (out.pos == 0) {
      // A full input is consumed before more is asked for, but zstd may still hold output of it.
      if (in_.pos == in_.size && !output_pending_ && !refill()) {
        if (frame_done_) return 0;
        throw UserError("{}: the zstd stream is cut short", name_);
      }
      const size_t status = ZSTD_decompressStream(stream_.get(), &out, &in_);
      if (ZSTD_isError(status)) {
        throw UserError("{}: damaged zstd stream ({})", name_, ZSTD_getErrorName(status));
      }
      frame_done_ = status == 0;
      output_pending_ = !frame_done_ && out.pos == out.size;
    }
    return out.pos;
  }

 private:
  bool refill() {
    const size_t count = inner_->read(input_.data(), input_.size());
    in_ = ZSTD_inBuffer{input_.data(), count, 0};
    return count > 0;
  }

  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<ByteSource> inner_;
  std::string name_;
  std::vector<char> input_;
  std::unique_ptr<ZSTD_DStream, Free> stream_{ZSTD_createDStream()};
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool frame_done_ = false;
  bool output_pending_ = false;
};

}  // namespace

std::string source_name(const std::filesystem::path& path) {
  return path == "-" ? "standard input" : path.string();
}

void check_source(const std::filesystem::path& path) {
  if (path == "-") return;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw UserError("{}: no such file", path.string());
  if (std::filesystem::is_directory(status)) {
    throw UserError("{}: a folder; name the files in it", path.string());
  }
  if (std::filesystem::is_regular_file(status)) open_source(path);
}

std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path) {
  const std::string name = source_name(path);
  auto source = std::make_unique<PeekSource>(std::make_unique<RawSource>(path));
  const std::string extension = path.extension().string();
  const std::string_view head = source->head();
  if (head.starts_with(kGzipMagic)) return std::make_unique<GzipSource>(std::move(source), name);
  // A frame to skip could be text: there the name decides.
  if (head.starts_with(kZstdMagic) || (extension == ".zst" && is_zstd_skip(head)))
    return std::make_unique<ZstdSource>(std::move(source), name);
  if (extension == ".gz" || extension == ".zst") {
    throw UserError("{}: ends in {} but is not compressed so; rename or restore it", name,
                    extension);
  }
  return source;
}

}  // namespace megalith::data
