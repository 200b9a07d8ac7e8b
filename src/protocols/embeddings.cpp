// SPDX-License-Identifier: Apache-2.0
#include "protocols/embeddings.h"

#include <bit>
#include <cmath>
#include <numeric>

#include "protocols/generation_fields.h"

namespace megalith::protocols {
namespace {

/// The floats' bytes, little-endian, in base64.
std::string base64_of(const std::vector<double>& row) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  for (const double x : row) {
    const auto narrow = static_cast<float>(x);
    bytes.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  }
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t here = std::min<size_t>(bytes.size() - i, 3);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j)
      bits = (bits << 8) | (j < here ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) text += j <= here ? kDigits[(bits >> (18 - 6 * j)) & 63] : '=';
  }
  return text;
}

void scale_to_one(std::vector<double>& row) {
  const double norm = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
  for (double& x : row) x /= std::max(norm, 1e-12);
}

Body vectors_answer(const std::string& name, int64_t tokens, bool as_base64,
                    std::vector<std::vector<double>> rows) {
  Json data = Json::array();
  for (std::vector<double>& row : rows) {
    scale_to_one(row);
    data.push_back({{"object", "embedding"},
                    {"index", data.size()},
                    {"embedding", as_base64 ? Json(base64_of(row)) : Json(row)}});
  }
  return {.text = text_of_json({{"object", "list"},
                                {"data", std::move(data)},
                                {"model", name},
                                {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})};
}

}  // namespace

PreparedReading prepare_embeddings(const Json& body, const ServedModel& model) {
  Fields fields(body);
  const auto name = fields.text("model", 256);
  if (!name) throw ApiError("model", "model is missing").with_reason("missing_field");
  require_model(model, *name);
  if (!model.embeds)
    throw ApiError("model", "'{}' has no vectors of texts to give: it is an encoder-decoder",
                   model.name);
  const std::string format = fields.text("encoding_format", 16).value_or("float");
  if (format != "float" && format != "base64")
    throw ApiError("encoding_format", "encoding_format must be float or base64");
  fields.refuse("dimensions", "is not supported: vectors have the model's length");
  fields.text("user", kMostUserBytes);
  const Json* const input = fields.find("input");
  if (input == nullptr) throw ApiError("input", "input is missing").with_reason("missing_field");
  PreparedReading made;
  int64_t tokens = 0;
  const auto add = [&](const Json& one) {
    inference::Reading reading;
    if (one.is_string()) {
      const text::Tokenizer& tokenizer = require_tokenizer(model, "input");
      text::Encoding encoding = tokenizer.encode_typed(one.get_ref<const std::string&>(), {}, true);
      reading.ids = std::move(encoding.ids);
      if (model.has_types) reading.types = std::move(encoding.type_ids);
    } else {
      reading.ids = token_ids(one, model.vocab, static_cast<size_t>(model.context), "input");
    }
    if (reading.ids.empty()) throw ApiError("input", "input has an empty text");
    if (std::ssize(reading.ids) > model.context) {
      throw ApiError("input", "This model's maximum context length is {} tokens; input has {}",
                     model.context, reading.ids.size())
          .with_reason("context_length_exceeded");
    }
    tokens += std::ssize(reading.ids);
    made.readings.push_back(std::move(reading));
  };
  if (input->is_string() || (input->is_array() && !input->empty() && input->front().is_number())) {
    add(*input);
  } else if (input->is_array() && !input->empty() && input->size() <= kMostPrompts) {
    for (const Json& one : *input) add(one);
  } else {
    throw ApiError("input", "input must be a string, a list of tokens, or 1 to {} of either",
                   kMostPrompts);
  }
  made.answer = [name = model.name, tokens,
                 as_base64 = format == "base64"](std::vector<std::vector<double>> rows) {
    return vectors_answer(name, tokens, as_base64, std::move(rows));
  };
  return made;
}

}  // namespace megalith::protocols
