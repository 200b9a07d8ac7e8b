// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/file.h"
#include "characters/utf8.h"
#include "text/tokenizer_data.h"
#include "text/tokenizer_json.h"

namespace megalith::text {
namespace {

void require_token(const TokenizerData& data, int64_t id) {
  if (!data.vocabulary.has(id))
    throw UserError("no token has the id {} (the vocabulary has ids 0 to {})", id,
                    data.vocabulary.size() - 1);
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const TokenizerData> data) : data_(std::move(data)) {}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return parse(read_file(path, kMaxTokenizerBytes), path.string());
}

Tokenizer Tokenizer::parse(std::string_view json, std::string_view name) {
  return Tokenizer(std::make_shared<const TokenizerData>(read_tokenizer_json(json, name)));
}

std::string Tokenizer::to_json() const { return write_tokenizer_json(*data_); }

void Tokenizer::save(const std::filesystem::path& path) const {
  write_file_durable(path, to_json());
}

int64_t Tokenizer::vocab_size() const { return data_->vocabulary.size(); }

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  return data_->vocabulary.find(token);
}

std::string Tokenizer::token_text(int64_t id) const {
  require_token(*data_, id);
  return std::string(data_->vocabulary.token(static_cast<int32_t>(id)));
}

std::string_view Tokenizer::token_bytes(int64_t id) const {
  require_token(*data_, id);
  return data_->vocabulary.bytes(static_cast<int32_t>(id));
}

bool Tokenizer::is_special(int64_t id) const {
  require_token(*data_, id);
  return data_->is_special[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::end_of_document() const {
  for (const std::string_view name :
       {kEndOfText, std::string_view("<|end_of_text|>"), std::string_view("</s>"),
        std::string_view("<|im_end|>"), std::string_view("[SEP]")})
    if (const std::optional<int32_t> id = id_of(name)) return id;
  return std::nullopt;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<int32_t> ids;
  Encoder encoder(*this, std::clamp<size_t>(text.size() / 16, 16, size_t{1} << 15));
  encoder.encode(text, ids, add_special_tokens);
  return ids;
}

Encoding Tokenizer::encode_typed(std::string_view text, std::optional<std::string_view> pair,
                                 bool add_special_tokens) const {
  Encoding encoding;
  const size_t size = text.size() + (pair ? pair->size() : 0);
  Encoder encoder(*this, std::clamp<size_t>(size / 16, 16, size_t{1} << 15));
  encoder.encode_typed(text, pair, encoding, add_special_tokens);
  return encoding;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool keep_special) const {
  if (!data_->decoder.only_joins_bytes()) {
    StreamDecoder stream(*this, keep_special);
    std::string text;
    for (const int32_t id : ids) stream.append(id, text);
    return text += stream.finish();
  }
  std::string bytes;
  for (const int32_t id : ids)
    if (const std::string_view token = token_bytes(id); keep_special || !is_special(id))
      bytes.append(token);
  std::string text;
  characters::append_repaired_utf8(text, bytes);
  return text;
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool keep_special)
    : tokenizer_(tokenizer),
      keep_special_(keep_special),
      run_(std::make_unique<DecoderRun>(tokenizer_.data().decoder)) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

std::string StreamDecoder::push(int32_t id) {
  std::string text;
  append(id, text);
  return text;
}

void StreamDecoder::append(int32_t id, std::string& text) {
  require_token(tokenizer_.data(), id);
  if (!keep_special_ && tokenizer_.is_special(id)) return run_->pass_over(text);
  run_->push(tokenizer_.data().vocabulary.token(id), text);
}

std::string StreamDecoder::finish() {
  std::string text;
  run_->finish(text);
  return text;
}

}  // namespace megalith::text
