// SPDX-License-Identifier: Apache-2.0
#include "serve/metrics.h"

#include <fmt/format.h>

#include <array>

namespace megalith::serve {
namespace {

// vLLM's bounds.
constexpr std::array kFirstTokenBounds{.001, .005, .01, .02, .04, .06, .08, .1,  .25,  .5,   .75,
                                       1.,   2.5,  5.,  7.5, 10., 20., 40., 80., 160., 640., 2560.};
constexpr std::array kTokenBounds{.01, .025, .05, .075, .1,  .15, .2,  .3,  .4, .5,
                                  .75, 1.,   2.5, 5.,   7.5, 10., 20., 40., 80.};
constexpr std::array kRequestBounds{.3,  .5,  .8,  1.,  1.5,  2.,   2.5,  5.,   10.,   15.,  20.,
                                    30., 40., 50., 60., 120., 240., 480., 960., 1920., 7680.};
constexpr std::array kLengthBounds{1.,   2.,  5.,  10., 20., 50., 100., 200.,
                                   500., 1e3, 2e3, 5e3, 1e4, 2e4, 5e4,  1e5};
constexpr std::array kChoiceBounds{1., 2., 5., 10., 20.};

/// A label's value: quotes, backslashes and line ends escaped.
std::string label_value(const std::string& text) {
  std::string value;
  for (const char c : text) {
    if (c == '\n') {
      value += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') value += '\\';
    value += c;
  }
  return value;
}

std::string family(const std::string& name, const char* type, const char* help) {
  return fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

}  // namespace

Metrics::Metrics()
    : first_token(kFirstTokenBounds),
      between_tokens(kTokenBounds),
      per_token(kTokenBounds),
      whole(kRequestBounds),
      prompt_lengths(kLengthBounds),
      text_lengths(kLengthBounds),
      n(kChoiceBounds),
      most_tokens(kLengthBounds),
      queued(kRequestBounds),
      prefill(kRequestBounds),
      decode(kRequestBounds),
      inference(kRequestBounds) {}

std::string Metrics::text(const std::string& model, const EngineState& engine) const {
  const std::string labels = fmt::format("model_name=\"{}\",engine=\"0\"", label_value(model));
  std::string all;
  const auto one = [&](const std::string& name, const char* type, const char* help, auto value) {
    all += family(name, type, help) + fmt::format("{}{{{}}} {}\n", name, labels, value);
  };
  one("megalith:requests_running", "gauge", "Texts that are being written.", engine.running);
  one("vllm:num_requests_running", "gauge", "The same.", engine.running);
  one("megalith:requests_waiting", "gauge", "Texts that wait.", engine.waiting);
  one("vllm:num_requests_waiting", "gauge", "The same.", engine.waiting);
  one("megalith:kv_cache_usage", "gauge", "Share of the blocks of keys and values in use.",
      engine.cache_usage);
  one("vllm:kv_cache_usage_perc", "gauge", "The same, from 0 to 1.", engine.cache_usage);
  one("megalith:kv_blocks", "gauge", "Blocks of keys and values.", engine.blocks);
  one("megalith:kv_blocks_in_use", "gauge", "Those that texts hold.", engine.blocks_in_use);
  one("megalith:connections", "gauge", "Open connections.", connections);
  one("megalith:grpc_calls", "gauge", "Open calls over gRPC.", calls);
  one("megalith:requests_started_total", "counter", "Valid requests to write or to embed texts.",
      started);
  one("megalith:requests_finished_total", "counter", "Of these, answered.", finished);
  one("megalith:requests_cancelled_total", "counter", "Of these, abandoned by the client.",
      cancelled);
  one("megalith:requests_failed_total", "counter", "Of these, ended by an error.", failed);
  one("megalith:requests_rejected_total", "counter", "Of these, refused: the queue was full.",
      rejected);
  one("megalith:requests_bad_total", "counter", "Invalid requests.", bad_requests);
  one("megalith:passes_total", "counter", "Passes of the model.", engine.passes);
  one("vllm:prompt_tokens_total", "counter", "Tokens of prompts.", prompt_tokens);
  one("vllm:generation_tokens_total", "counter", "Tokens that were written.", generated_tokens);
  one("vllm:num_preemptions_total", "counter", "Texts that gave up their blocks for a while.",
      engine.preemptions);
  one("vllm:prefix_cache_queries_total", "counter",
      "Tokens of texts that were admitted, whose blocks were looked for.", engine.prefix_queries);
  one("vllm:prefix_cache_hits_total", "counter", "Of these, found: not read again.",
      engine.prefix_hits);
  one("vllm:spec_decode_num_draft_tokens_total", "counter", "Tokens that were guessed.", guesses);
  one("vllm:spec_decode_num_accepted_tokens_total", "counter", "Of these, right.", right_guesses);
  all += family("vllm:request_success_total", "counter", "Texts by the way they ended.");
  for (const auto& [reason, count] : finish_reasons) {
    all += fmt::format("vllm:request_success_total{{{},finished_reason=\"{}\"}} {}\n", labels,
                       reason, count);
  }
  return all + histograms(labels, engine);
}

std::string Metrics::histograms(const std::string& labels, const EngineState& engine) const {
  std::string all;
  const auto histogram = [&](const std::string& name, const char* help, const Histogram& values) {
    all += family(name, "histogram", help) + values.text(name, labels);
  };
  histogram("vllm:time_to_first_token_seconds", "From a request's arrival.", first_token);
  histogram("vllm:inter_token_latency_seconds", "From a token to the next.", between_tokens);
  histogram("vllm:time_per_output_token_seconds", "Mean of a text, its first token aside.",
            per_token);
  histogram("vllm:e2e_request_latency_seconds", "From a request's arrival to its end.", whole);
  histogram("vllm:request_queue_time_seconds", "Of a text, until it is in a pass.", queued);
  histogram("vllm:request_prefill_time_seconds", "From there to its first token.", prefill);
  histogram("vllm:request_decode_time_seconds", "From there to its end.", decode);
  histogram("vllm:request_inference_time_seconds", "Both together.", inference);
  histogram("vllm:iteration_tokens_total", "Tokens of a pass.", engine.pass_tokens);
  histogram("vllm:request_prompt_tokens", "Tokens of a prompt.", prompt_lengths);
  histogram("vllm:request_generation_tokens", "Tokens of a text.", text_lengths);
  histogram("vllm:request_params_n", "Texts of a prompt.", n);
  histogram("vllm:request_params_max_tokens", "New tokens at most.", most_tokens);
  return all;
}

}  // namespace megalith::serve
