// SPDX-License-Identifier: Apache-2.0
#include "protocols/kserve.h"

#include <array>

#include "base/one_line.h"
#include "protocols/generation_fields.h"

namespace megalith::protocols {
namespace {

constexpr std::array kInputs{NamedTensor{"input_ids", "UINT32", 2, true},
                             NamedTensor{"input_lengths", "UINT32", 2},
                             NamedTensor{"request_output_len", "UINT32", 2, true},
                             NamedTensor{"runtime_top_k", "UINT32", 2},
                             NamedTensor{"runtime_top_p", "FP32", 2},
                             NamedTensor{"temperature", "FP32", 2},
                             NamedTensor{"len_penalty", "FP32", 2},
                             NamedTensor{"repetition_penalty", "FP32", 2},
                             NamedTensor{"beam_search_diversity_rate", "FP32", 2},
                             NamedTensor{"random_seed", "UINT64", 2},
                             NamedTensor{"is_return_log_probs", "BOOL", 2},
                             NamedTensor{"beam_width", "UINT32", 2},
                             NamedTensor{"start_id", "UINT32", 2},
                             NamedTensor{"end_id", "UINT32", 2},
                             NamedTensor{"stop_words_list", "INT32", 3},
                             NamedTensor{"bad_words_list", "INT32", 3}};
constexpr std::array kOutputs{
    NamedTensor{"output_ids", "UINT32", 3}, NamedTensor{"sequence_length", "UINT32", 2},
    NamedTensor{"response_input_lengths", "INT32", 2}, NamedTensor{"cum_log_probs", "FP32", 2},
    NamedTensor{"output_log_probs", "FP32", 3}};

Json metadata_of(std::span<const NamedTensor> tensors) {
  Json all = Json::array();
  for (const NamedTensor& tensor : tensors) {
    all.push_back({{"name", tensor.name},
                   {"datatype", tensor.datatype},
                   {"shape", std::vector<int>(static_cast<size_t>(tensor.dims), -1)}});
  }
  return all;
}

/// What becomes of one text.
class GenerateReply final : public Reply {
 public:
  GenerateReply(std::string name, std::string id, bool stream)
      : name_(std::move(name)), id_(std::move(id)) {
    streams = stream;
  }
  std::string on_token(size_t, const Token& token) override {
    sent_ += token.text.size();
    return token.text.empty() ? "" : event_of(answer(token.text));
  }
  std::string on_end(size_t, const Written& written) override {
    const std::string& text = written.result.text;
    const std::string rest = text.substr(std::min(sent_, text.size()));
    return rest.empty() ? "" : event_of(answer(rest));
  }
  Body finish(std::vector<Written> written) override {
    if (streams) return {};
    return {.text = answer(written.at(0).result.text)};
  }
  std::string broken_off(const ApiError& error) const override {
    return event_of(kserve_error(error));
  }

 private:
  std::string answer(const std::string& text) const {
    Json json;
    if (!id_.empty()) json["id"] = id_;
    json["model_name"] = name_;
    json["model_version"] = "1";
    json["text_output"] = text;
    return text_of_json(json);
  }
  std::string name_, id_;
  size_t sent_ = 0;
};

}  // namespace

std::span<const NamedTensor> kserve_inputs() { return kInputs; }
std::span<const NamedTensor> kserve_outputs() { return kOutputs; }

void require_kserve_model(const ServedModel& model, const std::string& name,
                          const std::string& version) {
  if ((name == model.name || name == "fastertransformer") && (version.empty() || version == "1"))
    return;
  throw ApiError("", "there is no model '{}'{} here; '{}' is served", one_line(name, 100),
                 version.empty() ? "" : " of version " + one_line(version, 20), model.name)
      .with_status(404);
}

std::string kserve_server_json(const std::string& version) {
  return text_of_json({{"name", "megalith"},
                       {"version", version},
                       {"extensions", {"binary_tensor_data", "generate", "model_repository"}}});
}

std::string kserve_model_json(const std::string& name) {
  return text_of_json({{"name", name},
                       {"versions", {"1"}},
                       {"platform", "megalith"},
                       {"inputs", metadata_of(kInputs)},
                       {"outputs", metadata_of(kOutputs)}});
}

Prepared prepare_kserve_generate(const Json& body, const std::string& name, bool streams,
                                 const ServedModel& model) {
  Fields outer(body);
  const auto id = outer.text("id", 256).value_or("");
  const auto text = outer.text("text_input", 8 << 20);
  if (!text) throw ApiError("text_input", "text_input is missing: a string");
  // What is no field of the request itself is a parameter, as in Triton.
  Json parameters = Json::object();
  if (const Json* const inner = outer.find("parameters"))
    for (const auto& [key, value] : Fields(*inner, "parameters.").object().items())
      parameters[key] = value;
  for (const std::string& key : outer.unknown()) parameters[key] = body.at(key);
  parameters["stream"] = streams;
  Fields fields(parameters);
  const GenerationFields made = read_generation(fields, model);
  if (made.n > 1 || made.sequences() > 1) throw ApiError("n", "one text is written here");
  for (const char* other : {"logprobs", "echo", "return_token_ids", "return_tokens_as_token_ids"})
    fields.refuse(other, "is a field of /v1/completions");
  PreparedSequence sequence = sequence_of(
      encode_text(model, *text, fields.flag("add_special_tokens").value_or(true), "text_input"),
      made, model);
  sequence.options.max_new_tokens = new_tokens(
      model, sequence.prompt.size(), fields.whole("max_tokens", 1, INT32_MAX), 16, "max_tokens");
  Prepared prepared;
  prepared.sequences.push_back(std::move(sequence));
  prepared.reply = std::make_unique<GenerateReply>(name, id, streams);
  prepared.user = made.user;
  prepared.unknown_fields = fields.unknown();
  return prepared;
}

}  // namespace megalith::protocols
