// SPDX-License-Identifier: Apache-2.0
#include "protocols/kserve_infer_reply.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace megalith::protocols {
namespace {

class InferReply final : public Reply {
 public:
  InferReply(std::string name, KserveRequest request, std::vector<InferRow> rows, int64_t width,
             int64_t beams, const InferFormat& format)
      : name_(std::move(name)),
        request_(std::move(request)),
        rows_(std::move(rows)),
        width_(width),
        beams_(beams),
        format_(format),
        counts_(rows_.size()),
        sums_(rows_.size()) {
    streams = format.streams;
  }

  /// The token alone: what came before it the client has. A search has nothing to tell before its
  /// end.
  std::string on_token(size_t sequence, const Token& token) override {
    if (beams_ > 1) return "";
    const InferRow& row = rows_[sequence];
    const double logprob = told(row, token.choice.logprob);
    const auto read = std::ssize(row.prompt);
    const auto length = static_cast<uint64_t>(read + ++counts_[sequence]);
    sums_[sequence] += logprob;
    const auto id = static_cast<uint64_t>(token.choice.id);
    KserveAnswer answer =
        answer_of({{"output_ids", "UINT32", {1, 1, 1}, std::vector{id}},
                   {"sequence_length", "UINT32", {1, 1}, std::vector{length}},
                   {"response_input_lengths", "INT32", {1, 1}, std::vector{read}},
                   {"cum_log_probs", "FP32", {1, 1}, std::vector{sums_[sequence]}},
                   {"output_log_probs", "FP32", {1, 1, 1}, std::vector{logprob}}});
    answer.is_last = false;
    answer.sequence = static_cast<int64_t>(sequence);
    return format_.encode(answer).text;
  }

  Body finish(std::vector<Written> written) override {
    const auto rows = std::ssize(rows_);
    int64_t longest_prompt = 0;
    for (const InferRow& row : rows_)
      longest_prompt = std::max(longest_prompt, std::ssize(row.prompt));
    const int64_t length = longest_prompt + width_;
    std::vector<uint64_t> ids, lengths;
    std::vector<int64_t> prompts;
    std::vector<double> sums, logprobs;
    for (size_t r = 0; r < rows_.size(); ++r) {
      const InferRow& row = rows_[r];
      prompts.push_back(std::ssize(row.prompt));
      std::vector<generate::Generated> beams = std::exchange(written[r].result.others, {});
      beams.insert(beams.begin(), std::move(written[r].result));
      for (int64_t b = 0; b < beams_; ++b) {
        // Where fewer were found, the rest is of length 0, not even the prompt's, and the least
        // likely: no text that was found looks so.
        const bool is_found = b < std::ssize(beams);
        std::vector<int32_t> all;
        std::vector<double> own;
        if (is_found) {
          const generate::Generated& result = beams[static_cast<size_t>(b)];
          all = row.prompt;
          all.insert(all.end(), result.ids.begin(), result.ids.end());
          for (const double x : result.logprobs) own.push_back(told(row, x));
        }
        lengths.push_back(all.size());
        all.resize(static_cast<size_t>(length), row.end_id);
        ids.insert(ids.end(), all.begin(), all.end());
        sums.push_back(is_found ? std::accumulate(own.begin(), own.end(), 0.0)
                                : told(row, -std::numeric_limits<double>::infinity()));
        own.resize(static_cast<size_t>(width_));
        logprobs.insert(logprobs.end(), own.begin(), own.end());
      }
    }
    KserveAnswer answer =
        answer_of({{"output_ids", "UINT32", {rows, beams_, length}, std::move(ids)},
                   {"sequence_length", "UINT32", {rows, beams_}, std::move(lengths)},
                   {"response_input_lengths", "INT32", {rows, 1}, std::move(prompts)},
                   {"cum_log_probs", "FP32", {rows, beams_}, std::move(sums)},
                   {"output_log_probs", "FP32", {rows, beams_, width_}, std::move(logprobs)}});
    if (streams) answer.is_last = true;
    return format_.encode(answer);
  }

  std::string broken_off(const ApiError& error) const override {
    return format_.broken_off(error, request_.id);
  }

 private:
  static double told(const InferRow& row, double logprob) {
    return row.wants_logprobs ? json_of_logprob(logprob).get<double>() : 0;
  }
  KserveAnswer answer_of(std::vector<KserveTensor> outputs) const {
    KserveAnswer answer{.model = name_, .id = request_.id, .outputs = {}};
    for (KserveTensor& tensor : outputs) {
      if (request_.outputs.empty()) {
        answer.outputs.emplace_back(std::move(tensor), request_.all_binary);
        continue;
      }
      for (const KserveOutput& asked : request_.outputs)
        if (asked.name == tensor.name) answer.outputs.emplace_back(tensor, asked.is_binary);
    }
    return answer;
  }

  std::string name_;
  KserveRequest request_;
  std::vector<InferRow> rows_;
  int64_t width_;  // of new tokens
  int64_t beams_;  // of each row
  InferFormat format_;
  std::vector<int64_t> counts_;  // of tokens told of, by row
  std::vector<double> sums_;     // of their log-probabilities
};

}  // namespace

std::unique_ptr<Reply> make_infer_reply(std::string name, KserveRequest request,
                                        std::vector<InferRow> rows, int64_t width, int64_t beams,
                                        const InferFormat& format) {
  return std::make_unique<InferReply>(std::move(name), std::move(request), std::move(rows), width,
                                      beams, format);
}

}  // namespace megalith::protocols
