// SPDX-License-Identifier: Apache-2.0
#include "text/vocabulary.h"

#include "base/error.h"
#include "tokenize/byte_level.h"

namespace megalith::text {

void Vocabulary::add(int32_t id, std::string_view token, std::string_view where) {
  if (id >= size()) tokens_.resize(static_cast<size_t>(id) + 1);
  Entry& entry = tokens_[static_cast<size_t>(id)];
  if (entry.used)
    throw UserError("{}: the tokens \"{}\" and \"{}\" have the same id {}", where, this->token(id),
                    token, id);
  std::optional<std::string> mapped;
  if (spelling_ == TokenSpelling::byte_alphabet) mapped = tokenize::token_to_bytes(token);
  const std::string_view stands_for = mapped ? *mapped : token;
  entry = {.spelling_begin = static_cast<uint32_t>(spellings_.size()),
           .spelling_length = static_cast<uint32_t>(token.size()),
           .bytes_begin = static_cast<uint32_t>(bytes_.size()),
           .bytes_length = static_cast<uint32_t>(stands_for.size()),
           .used = true,
           .mapped = mapped || spelling_ == TokenSpelling::text};
  spellings_.append(token);
  bytes_.append(stands_for);
  const auto token_of = [this](int32_t i) { return this->token(i); };
  if (!by_token_.insert(id, this->token(id), token_of))
    throw UserError("{}: the token \"{}\" has two ids, {} and {}", where, token, *find(token), id);
}

void Vocabulary::index_bytes(const std::vector<int32_t>& without) {
  by_bytes_ = {};
  std::vector<bool> left_out(tokens_.size(), false);
  for (const int32_t id : without)
    if (has(id)) left_out[static_cast<size_t>(id)] = true;
  for (int32_t id = 0; id < size(); ++id)
    if (has(id) && tokens_[static_cast<size_t>(id)].mapped && !left_out[static_cast<size_t>(id)])
      by_bytes_.insert(id, bytes(id), [this](int32_t i) { return bytes(i); });
}

}  // namespace megalith::text
