// SPDX-License-Identifier: Apache-2.0
// Two models on the same documents, from their samples files (ours or lm-eval's).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "metrics/statistics.h"

namespace megalith::evaluate {

struct MetricComparison {
  std::string metric = {}, filter = {};
  double first = 0, second = 0;  // means
  metrics::PairedDifference paired;
  int64_t examples = 0;
};

/// Of each metric whose values are numbers (of perplexities their log-probabilities): samples are
/// the same where filter, number and hashes of document, prompt and right answer are. UserError
/// with FILE:LINE for what is no sample, or where the two files are of different questions.
std::vector<MetricComparison> compare_samples(const std::filesystem::path& first,
                                              const std::filesystem::path& second);

}  // namespace megalith::evaluate
