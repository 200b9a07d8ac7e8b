// SPDX-License-Identifier: Apache-2.0
// FasterTransformer's tensors: one row of the batch is one text.
#include <algorithm>
#include <span>

#include "base/one_line.h"
#include "protocols/generation_fields.h"
#include "protocols/kserve_infer_reply.h"

namespace megalith::protocols {
namespace {

/// The inputs of a request, by name; knows which were asked for.
class InputRows {
 public:
  InputRows(const KserveRequest& request, int64_t rows) : request_(request), rows_(rows) {}

  const KserveTensor* find(std::string_view name) {
    asked_.insert(std::string(name));
    for (const KserveTensor& tensor : request_.inputs)
      if (tensor.name == name) return &tensor;
    return nullptr;
  }
  /// One number of each row; `otherwise` where it is not given.
  template <typename T>
  T at(std::string_view name, int64_t row, const char* datatype, T otherwise) {
    const KserveTensor* const tensor = find(name);
    if (tensor == nullptr) return otherwise;
    if (tensor->datatype != datatype)
      throw ApiError(tensor->name, "{} is {}, not {}", name, datatype, tensor->datatype);
    if (tensor->elements() != rows_)
      throw ApiError(tensor->name, "{} has {} values for {} rows", name, tensor->elements(), rows_);
    return static_cast<T>(std::get<std::vector<T>>(tensor->data).at(static_cast<size_t>(row)));
  }
  uint64_t whole(std::string_view name, int64_t row, uint64_t otherwise) {
    return at<uint64_t>(name, row, "UINT32", otherwise);
  }
  double number(std::string_view name, int64_t row, double low, double high, double otherwise) {
    const double value = at<double>(name, row, "FP32", otherwise);
    if (!(value >= low && value <= high))
      throw ApiError(std::string(name), "{} must be from {} to {}, not {}", name, low, high, value);
    return value;
  }
  void refuse_others() const {
    for (const KserveTensor& tensor : request_.inputs)
      if (!asked_.contains(tensor.name))
        throw ApiError(tensor.name, "the input {} is not taken by this model", tensor.name);
  }

 private:
  const KserveRequest& request_;
  int64_t rows_;
  std::set<std::string> asked_;
};

/// A row of stop_words_list or bad_words_list: ids one after another, and where each run ends.
std::vector<std::vector<int32_t>> word_rows(InputRows& inputs, std::string_view name, int64_t row,
                                            int64_t rows, int64_t vocab) {
  const KserveTensor* const tensor = inputs.find(name);
  if (tensor == nullptr) return {};
  const bool fits = tensor->datatype == "INT32" && tensor->shape.size() == 3 &&
                    tensor->shape[0] == rows && tensor->shape[1] == 2;
  if (!fits) throw ApiError(tensor->name, "{} must be INT32 of [{}, 2, n]", name, rows);
  const auto& data = std::get<std::vector<int64_t>>(tensor->data);
  const int64_t width = tensor->shape[2];
  const auto ids = std::span(data).subspan(static_cast<size_t>(row * 2 * width));
  std::vector<std::vector<int32_t>> words;
  int64_t begin = 0;
  for (int64_t i = 0; i < width; ++i) {
    const int64_t end = ids[static_cast<size_t>(width + i)];
    if (end < 0) break;  // filled up from here
    if (end <= begin || end > width || words.size() >= 1000)
      throw ApiError(tensor->name, "{}: its ends do not ascend, or are too many", name);
    std::vector<int32_t> word;
    for (; begin < end; ++begin) {
      const int64_t id = ids[static_cast<size_t>(begin)];
      if (id < 0 || id >= vocab)
        throw ApiError(tensor->name, "{}: {} is no token of the vocabulary", name, id);
      word.push_back(static_cast<int32_t>(id));
    }
    words.push_back(std::move(word));
  }
  return words;
}

generate::SamplingOptions read_row_sampling(InputRows& inputs, int64_t row) {
  generate::SamplingOptions sampling;
  sampling.top_k = static_cast<int64_t>(inputs.whole("runtime_top_k", row, 0));
  sampling.top_p = inputs.number("runtime_top_p", row, 0, 1, 0);
  // FasterTransformer without either takes the most likely token.
  if (sampling.top_p == 0) {
    sampling.top_p = 1;
    if (sampling.top_k == 0) sampling.top_k = 1;
  }
  sampling.temperature = inputs.number("temperature", row, 0, 100, 1);
  sampling.repetition_penalty = inputs.number("repetition_penalty", row, 1e-3, 100, 1);
  sampling.seed = inputs.at<uint64_t>("random_seed", row, "UINT64", 0);
  return sampling;
}

/// FasterTransformer's settings of a beam search, which draws nothing: all beams are told.
void read_row_search(InputRows& inputs, int64_t row, const ServedModel& model,
                     generate::GenerateOptions& options) {
  // FasterTransformer's own default is 0; its clients send 1.
  const double length = inputs.number("len_penalty", row, -100, 100, 0);
  if (inputs.at<double>("beam_search_diversity_rate", row, "FP32", 0) != 0)
    throw ApiError("beam_search_diversity_rate", "beam_search_diversity_rate must be 0");
  const uint64_t width = inputs.whole("beam_width", row, 1);
  const int64_t most = std::min(generate::kMostBeams, model.most_beams);
  if (width < 1 || width > static_cast<uint64_t>(most) || width != inputs.whole("beam_width", 0, 1))
    throw ApiError("beam_width", "beam_width must be from 1 to {}, and one for all rows", most);
  if (width == 1) {
    if (length != 0 && length != 1)
      throw ApiError("len_penalty", "len_penalty must be 0 or 1 without beams");
    return;
  }
  generate::SamplingOptions& sampling = options.sampling;
  if (sampling.top_k > 1 || sampling.top_p != 1 || sampling.temperature != 1)
    throw ApiError("beam_width",
                   "beams draw nothing: leave runtime_top_k, runtime_top_p and "
                   "temperature out");
  if (!options.stop.empty())
    throw ApiError("stop_words_list", "stop_words_list must be of single tokens with beams");
  sampling.top_k = 0;
  options.beams = options.best = static_cast<int64_t>(width);
  options.length_penalty = length;
}

void read_row_ends(InputRows& inputs, int64_t row, int64_t rows, const ServedModel& model,
                   generate::GenerateOptions& options) {
  options.end_ids = model.end_ids;
  if (inputs.find("end_id") != nullptr)
    options.end_ids = {
        static_cast<int32_t>(std::min<uint64_t>(inputs.whole("end_id", row, 0), INT32_MAX))};
  for (const auto& word : word_rows(inputs, "stop_words_list", row, rows, model.vocab)) {
    if (word.size() == 1) {
      options.end_ids.push_back(word[0]);
    } else {
      options.stop.push_back(require_tokenizer(model, "stop_words_list").decode(word, true));
    }
  }
  options.sampling.bad_words = word_rows(inputs, "bad_words_list", row, rows, model.vocab);
}

void check_outputs(const KserveRequest& request) {
  for (const KserveOutput& output : request.outputs) {
    const bool is_known = std::ranges::any_of(
        kserve_outputs(), [&](const NamedTensor& known) { return known.name == output.name; });
    if (!is_known) throw ApiError("outputs", "there is no output '{}'", one_line(output.name, 100));
  }
}

/// input_ids as rows of tokens.
const std::vector<uint64_t>& ids_of(const KserveTensor* tensor, int64_t& rows, int64_t& length) {
  if (tensor == nullptr) throw ApiError("input_ids", "the input input_ids is missing");
  if (tensor->datatype != "UINT32" || tensor->shape.size() != 2 || tensor->shape[0] < 1 ||
      tensor->shape[0] > kMostRows)
    throw ApiError("input_ids", "input_ids must be UINT32 of [1 to {}, n]", kMostRows);
  rows = tensor->shape[0];
  length = tensor->shape[1];
  return std::get<std::vector<uint64_t>>(tensor->data);
}

}  // namespace

Prepared prepare_infer(KserveRequest request, const std::string& name, const ServedModel& model,
                       const InferFormat& format) {
  if (!model.writes)
    throw ApiError("model", "'{}' is a model that reads; it does not write", model.name);
  check_outputs(request);
  int64_t rows = 0, length = 0;
  const auto& ids = ids_of(InputRows(request, 0).find("input_ids"), rows, length);
  InputRows inputs(request, rows);
  inputs.find("input_ids");
  require_places(model, static_cast<size_t>(rows));
  if (inputs.find("request_output_len") == nullptr)
    throw ApiError("request_output_len", "the input request_output_len is missing");
  Prepared prepared;
  std::vector<InferRow> kept;
  int64_t width = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const uint64_t here = inputs.whole("input_lengths", row, static_cast<uint64_t>(length));
    if (here > static_cast<uint64_t>(length))
      throw ApiError("input_lengths", "input_lengths has {} for rows of {}", here, length);
    PreparedSequence sequence;
    const uint64_t start = inputs.whole("start_id", row, 0);
    for (uint64_t i = 0; i < std::max<uint64_t>(here, 1); ++i) {
      const uint64_t id = here == 0 ? start : ids[static_cast<size_t>(row * length) + i];
      if (id >= static_cast<uint64_t>(prompt_vocab(model)))
        throw ApiError("input_ids", "{} is no token of the vocabulary of {}", id, model.vocab);
      sequence.prompt.push_back(static_cast<int32_t>(id));
    }
    check_virtual(model, sequence.prompt, "input_ids");
    sequence.options.sampling = read_row_sampling(inputs, row);
    read_row_ends(inputs, row, rows, model, sequence.options);
    read_row_search(inputs, row, model, sequence.options);
    const auto asked = static_cast<int64_t>(inputs.whole("request_output_len", row, 0));
    sequence.options.max_new_tokens =
        new_tokens(model, sequence.prompt.size(), asked, 0, "request_output_len");
    width = std::max(width, asked);
    const int32_t end = sequence.options.end_ids.empty() ? 0 : sequence.options.end_ids[0];
    const bool tells = inputs.at<uint64_t>("is_return_log_probs", row, "BOOL", 1) != 0;
    kept.push_back({sequence.prompt, end, tells});
    prepared.sequences.push_back(std::move(sequence));
  }
  const int64_t beams = prepared.sequences.front().options.beams;
  if (const int64_t elements = rows * beams * (std::max<int64_t>(length, 1) + width);
      elements > kMostAnswerElements)
    throw ApiError("request_output_len", "output_ids would have {} elements; {} are the most",
                   elements, kMostAnswerElements);
  inputs.refuse_others();
  Fields parameters(request.parameters, "parameters.");
  parameters.find("binary_data_output");  // the parser of the tensors has read it
  // Triton's: in microseconds.
  if (const auto timeout = parameters.whole("timeout", 0, INT64_MAX))
    prepared.timeout = static_cast<double>(*timeout) * 1e-6;
  parameters.find("triton_enable_empty_final_response");  // a last one always comes
  prepared.unknown_fields = parameters.unknown();
  prepared.reply =
      make_infer_reply(name, std::move(request), std::move(kept), width, beams, format);
  return prepared;
}

Prepared prepare_infer(std::string_view body, std::string_view json_bytes, const std::string& name,
                       const ServedModel& model) {
  return prepare_infer(parse_kserve_request(body, json_bytes), name, model,
                       {.encode = kserve_answer_body});
}

}  // namespace megalith::protocols
