// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/post_processor.h"

namespace megalith::vocabularies {
namespace {

Json token_piece(const std::string& token, int type) {
  return {{"SpecialToken", {{"id", token}, {"type_id", type}}}};
}

Json text_piece(const char* name, int type) {
  return {{"Sequence", {{"id", name}, {"type_id", type}}}};
}

Json template_with(Json single, Json pair, const std::vector<int32_t>& ids,
                   const std::function<std::string(int32_t)>& spelled) {
  Json tokens = Json::object();
  for (const int32_t id : ids) {
    const std::string token = spelled(id);
    tokens[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  }
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(tokens)}};
}

}  // namespace

Json template_of(const std::vector<int32_t>& before, const std::vector<int32_t>& after,
                 const std::function<std::string(int32_t)>& spelled) {
  if (before.empty() && after.empty()) return nullptr;
  const auto append = [&](const char* text, Json& pieces) {
    for (const int32_t id : before) pieces.push_back(token_piece(spelled(id), 0));
    pieces.push_back(text_piece(text, 0));
    for (const int32_t id : after) pieces.push_back(token_piece(spelled(id), 0));
  };
  Json single = Json::array(), pair = Json::array();
  append("A", single);
  append("A", pair);
  append("B", pair);
  std::vector<int32_t> ids = before;
  ids.insert(ids.end(), after.begin(), after.end());
  return template_with(std::move(single), std::move(pair), ids, spelled);
}

Json pair_template_of(int32_t cls, int32_t sep, bool as_roberta,
                      const std::function<std::string(int32_t)>& spelled) {
  const std::string first = spelled(cls), last = spelled(sep);
  const int type = as_roberta ? 0 : 1;  // of the second text
  Json single = {token_piece(first, 0), text_piece("A", 0), token_piece(last, 0)};
  Json pair = single;
  if (as_roberta) pair.push_back(token_piece(last, 0));
  pair.push_back(text_piece("B", type));
  pair.push_back(token_piece(last, type));
  return template_with(std::move(single), std::move(pair), {cls, sep}, spelled);
}

}  // namespace megalith::vocabularies
