// SPDX-License-Identifier: Apache-2.0
#include "apps/training/sample_sizes.h"

#include <fmt/format.h>

#include "base/log.h"

namespace megalith::apps {
namespace {

double percent_full(const data::BatchSource& source, int64_t tokens, int64_t of_sample) {
  return 100.0 * static_cast<double>(tokens) /
         static_cast<double>(source.samples_per_epoch() * of_sample);
}

/// Of `count` examples or pairs.
template <typename Source>
void say_units(const Source& source, const char* units, int64_t count, const tune::LengthRule& rule,
               const tune::ExampleCounts& counts) {
  const int64_t length = rule.most_tokens, long_ones = counts.dropped + counts.truncated;
  log::info("{}: {} {} of {} lines, {} tokens ({} learned) in {} samples of {} ({:.1f} % full)",
            rule.key, count, units, counts.lines, source.num_tokens(), source.num_learned(),
            source.samples_per_epoch(), length, percent_full(source, source.num_tokens(), length));
  if (long_ones > 0) {
    log::warning("{}: {} {} longer than {} tokens{}: {} left out, {} truncated", rule.key,
                 long_ones, units, length,
                 rule.most_read > 0 ? fmt::format(" to answer or, {} of them, {} to read",
                                                  counts.long_read, rule.most_read)
                                    : "",
                 counts.dropped, counts.truncated);
  }
  if (counts.unlabelled > 0)
    log::warning("{}: {} texts left out: none of their words has a tag", rule.key,
                 counts.unlabelled);
}

}  // namespace

void say_sizes(const tune::ExampleSource& source, const tune::LengthRule& rule,
               const tune::ExampleCounts& counts) {
  say_units(source, "examples", source.num_examples(), rule, counts);
  if (rule.most_read > 0)
    log::info("{}: of each sample an encoder reads {} tokens, {} of all ({:.1f} % full)", rule.key,
              rule.most_read, source.num_read(),
              percent_full(source, source.num_read(), rule.most_read));
}

void say_sizes(const tune::PreferenceSource& source, const tune::LengthRule& rule,
               const tune::ExampleCounts& counts) {
  say_units(source, "pairs", source.num_pairs(), rule, counts);
}

void say_validated(const tune::ExampleSource& source, const config::Recipe& recipe) {
  const int64_t taken = recipe.train.validate_samples, samples = source.samples_per_epoch();
  if (source.num_tasks() == 0 || taken >= samples) return;
  const std::vector<int64_t> in_part = source.examples_of_tasks(taken),
                             in_all = source.examples_of_tasks(samples);
  for (size_t i = 0; i < in_all.size(); ++i) {
    if (in_all[i] == 0) continue;
    const std::string& name = recipe.tune.tasks[i].name;
    if (in_part[i] > 0)
      log::info("tune.validation: task {}: a validation takes {} of its {} examples", name,
                in_part[i], in_all[i]);
    else
      log::warning(
          "tune.validation: task {}: none of its {} examples is in the first {} of {} samples, "
          "which a validation takes; set a larger train.validate_samples",
          name, in_all[i], taken, samples);
  }
}

}  // namespace megalith::apps
