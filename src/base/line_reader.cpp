// SPDX-License-Identifier: Apache-2.0
#include "base/line_reader.h"

namespace megalith {
namespace {

constexpr size_t kBlock = size_t{64} << 10;

}  // namespace

LineReader::LineReader(const std::filesystem::path& path, int64_t most_line_bytes)
    : file_(path, File::Mode::read), most_line_bytes_(most_line_bytes) {}

bool LineReader::next(std::string_view& line) {
  while (true) {
    const size_t end = buffer_.find('\n', scanned_);
    const size_t bytes = (end == std::string::npos ? buffer_.size() : end) - begin_;
    if (static_cast<int64_t>(bytes) > most_line_bytes_) {
      too_long_ = true;
      return false;
    }
    if (end != std::string::npos) {
      line = std::string_view(buffer_).substr(begin_, bytes);
      begin_ = scanned_ = end + 1;
      ++number_;
      return true;
    }
    if (ended_) return false;
    buffer_.erase(0, begin_);
    begin_ = 0;
    scanned_ = buffer_.size();
    buffer_.resize(scanned_ + kBlock);
    const size_t count = file_.read(buffer_.data() + scanned_, kBlock);
    buffer_.resize(scanned_ + count);
    ended_ = count < kBlock;
  }
}

}  // namespace megalith
