// SPDX-License-Identifier: Apache-2.0
// Chunks end behind the last line end (or the last blank line) read so far; only bytes not looked
// at before are searched, so a document of a gigabyte costs time linear in its size.
#include "data/document_chunks.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "characters/utf8.h"

namespace megalith::data {
namespace {

constexpr size_t kBlock = size_t{512} << 10;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

/// Calls visit(line without '\n') for every line.
template <typename Visit>
void split_lines(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

int64_t count_lines(std::string_view text) {
  constexpr size_t kBlockBytes = 128;  // a constant trip count, which compilers turn into SIMD
  int64_t lines = 0;
  while (text.size() >= kBlockBytes) {
    uint8_t count = 0;
    for (size_t i = 0; i < kBlockBytes; ++i) count += static_cast<uint8_t>(text[i] == '\n');
    lines += count;
    text.remove_prefix(kBlockBytes);
  }
  return lines + std::count(text.begin(), text.end(), '\n');
}

}  // namespace

ChunkReader::ChunkReader(std::unique_ptr<ByteSource> source, std::string name, Cut cut,
                         std::optional<int64_t> max_document_bytes)
    : source_(std::move(source)), name_(std::move(name)), cut_(cut) {
  const std::optional<int64_t> size = source_->size();
  const bool known = cut == Cut::file && size;
  max_document_bytes_ =
      max_document_bytes.value_or(known ? kMaxFileDocumentBytes : kMaxDocumentBytes);
  if (!known) return;
  if (*size > max_document_bytes_) refuse_size();
  // Grown step by step it would lie in memory twice.
  rest_.reserve(static_cast<size_t>(*size) + kBlock + simdjson::SIMDJSON_PADDING);
}

void ChunkReader::refuse_size() const {
  throw UserError("{}:{}: a document larger than {} bytes; cut it by line or paragraph", name_,
                  line_, max_document_bytes_);
}

/// Appends a block, shorter only at the end of the input; false if there is nothing more.
bool ChunkReader::read_block(std::string& buffer) {
  const size_t before = buffer.size();
  buffer.resize(before + kBlock);
  size_t have = 0;
  while (have < kBlock) {
    const size_t count = source_->read(buffer.data() + before + have, kBlock - have);
    if (count == 0) break;
    have += count;
  }
  buffer.resize(before + have);
  return have > 0;
}

/// The end of the last document that is whole, 0 if none; bytes before `scanned` hold no boundary.
size_t ChunkReader::find_boundary(std::string_view text, size_t scanned) const {
  if (cut_ == Cut::file) return 0;
  // Not from the end of all: a line of many blocks would be gone over again with each.
  size_t end = text.substr(scanned).rfind('\n');
  if (end == std::string_view::npos) return 0;
  end += scanned;
  if (cut_ != Cut::paragraph) return end + 1;
  while (end != std::string_view::npos && end >= scanned) {
    const size_t before = end == 0 ? std::string_view::npos : text.rfind('\n', end - 1);
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    if (is_blank(text.substr(begin, end - begin))) return end + 1;
    end = before;
  }
  return 0;
}

bool ChunkReader::next(Chunk& chunk) {
  std::string buffer = std::exchange(rest_, {});
  size_t boundary = 0;
  size_t scanned = 0;
  while (!ended_ && boundary == 0) {
    ended_ = !read_block(buffer);
    boundary = ended_ ? buffer.size() : find_boundary(buffer, scanned);
    scanned = buffer.size();
    if (boundary == 0 && static_cast<int64_t>(buffer.size()) > max_document_bytes_) refuse_size();
  }
  if (buffer.empty()) return false;
  rest_ = buffer.substr(boundary);
  chunk.bytes_ = std::move(buffer);
  chunk.bytes_.resize(boundary + simdjson::SIMDJSON_PADDING);
  chunk.size_ = boundary;
  chunk.name = name_;
  chunk.cut = cut_;
  chunk.first_line = line_;
  line_ += count_lines(chunk.text());
  return true;
}

struct DocumentParser::Json {
  simdjson::dom::parser parser;
};

DocumentParser::DocumentParser(std::string field)
    : json_(std::make_unique<Json>()), field_(std::move(field)) {}
DocumentParser::~DocumentParser() = default;

void DocumentParser::for_each(const Chunk& chunk, FunctionRef<void(std::string_view)> visit) {
  const std::string_view text = chunk.text();
  const size_t bad = characters::find_invalid_utf8(text);
  if (bad != std::string_view::npos) {
    throw UserError("{}:{}: invalid UTF-8 (byte 0x{:02x}); convert the file to UTF-8", chunk.name,
                    chunk.first_line + count_lines(text.substr(0, bad)),
                    static_cast<unsigned char>(text[bad]));
  }
  switch (chunk.cut) {
    case Cut::file:
      return visit(text);
    case Cut::line:
      return for_each_line(chunk, visit);
    case Cut::paragraph:
      return for_each_paragraph(chunk, visit);
    case Cut::json:
      return for_each_json(chunk, visit);
  }
}

void DocumentParser::for_each_line(const Chunk& chunk, FunctionRef<void(std::string_view)> visit) {
  split_lines(chunk.text(), [&](std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) visit(line);
  });
}

void DocumentParser::for_each_paragraph(const Chunk& chunk,
                                        FunctionRef<void(std::string_view)> visit) {
  const char* begin = nullptr;  // of the paragraph that is open
  const char* end = nullptr;
  const auto close = [&] {
    std::string_view paragraph(begin, static_cast<size_t>(end - begin));
    if (paragraph.ends_with('\r')) paragraph.remove_suffix(1);
    visit(paragraph);
    begin = nullptr;
  };
  split_lines(chunk.text(), [&](std::string_view line) {
    if (!is_blank(line)) {
      if (begin == nullptr) begin = line.data();
      end = line.data() + line.size();
    } else if (begin != nullptr) {
      close();
    }
  });
  if (begin != nullptr) close();
}

void DocumentParser::for_each_json(const Chunk& chunk, FunctionRef<void(std::string_view)> visit) {
  int64_t number = chunk.first_line - 1;
  split_lines(chunk.text(), [&](std::string_view line) {
    ++number;
    if (number == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (is_blank(line)) return;
    simdjson::dom::element element;
    // The chunk's padding lies behind every line, so the parser need not copy.
    simdjson::error_code error = json_->parser.parse(line.data(), line.size(), false).get(element);
    if (error) {
      throw UserError("{}:{}: not JSON: {}", chunk.name, number, simdjson::error_message(error));
    }
    simdjson::dom::object object;
    if (element.get(object)) {
      throw UserError("{}:{}: not a JSON object; each line is one, as {{\"{}\": \"...\"}}",
                      chunk.name, number, field_);
    }
    simdjson::dom::element value;
    int found = 0;
    for (const auto field : object) {
      if (field.key != field_) continue;
      value = field.value;
      ++found;
    }
    if (found > 1) {
      throw UserError("{}:{}: field \"{}\" is given twice; keep one", chunk.name, number, field_);
    }
    if (found == 0) {
      throw UserError("{}:{}: no field \"{}\"; name the one that holds the text with --field",
                      chunk.name, number, field_);
    }
    std::string_view text;
    if (value.get(text)) {
      throw UserError("{}:{}: field \"{}\" is not a string", chunk.name, number, field_);
    }
    visit(text);
  });
}

}  // namespace megalith::data
