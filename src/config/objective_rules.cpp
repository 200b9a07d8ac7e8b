// SPDX-License-Identifier: Apache-2.0
// What objectives, their sections and the samples that they are asked about fit with.
#include <fmt/format.h>

#include "config/rules.h"

namespace megalith::config {
namespace {

void middle_rules(const Recipe& r, Faults& faults) {
  const FimSection& f = r.train.fim;
  if (f.rate == 0) {
    if (f != FimSection{})
      add(faults, "train.fim", {"train.fim.rate"},
          "has no effect with train.fim.rate 0; take it out of the recipe, or set the rate");
    return;
  }
  if (r.train.objective != Objective::causal)
    add(faults, "train.fim.rate", {"train.objective"},
        fmt::format("fill-in-the-middle is of train.objective: causal, not {}", r.train.objective));
  const int given = !f.prefix.empty() + !f.middle.empty() + !f.suffix.empty();
  if (given != 0 && given != 3)
    add(faults, "train.fim.prefix", {"train.fim.middle", "train.fim.suffix"},
        "give all of prefix, middle and suffix, or none");
}

/// Whole documents say by themselves what the masks do.
void documents_rules(const Recipe& r, Faults& faults) {
  if (r.data.sequences != Sequences::documents) return;
  const auto refuse = [&](bool given, const char* key, const char* why) {
    if (given)
      add(faults, key, {"data.sequences"},
          fmt::format("{} with data.sequences: documents; take it out of the recipe", why));
  };
  refuse(r.data.document_mask, "data.document_mask", "attention stays within each anyway");
  refuse(r.data.reset_positions, "data.reset_positions", "positions begin at 0 in each anyway");
  refuse(!r.data.end_of_document_loss, "data.end_of_document_loss",
         "the last token of a document has no target anyway");
  refuse(r.train.fim.rate > 0, "train.fim.rate", "samples cannot be rearranged");
  refuse(r.train.objective == Objective::spans, "train.objective",
         "spans are hidden in runs of tokens, not");
}

/// A decoder answers one question about a whole sample.
void spans_rules(const Recipe& r, Faults& faults) {
  const SpansSection& s = r.train.spans;
  if (r.train.objective != Objective::spans) {
    if (s != SpansSection{})
      add(faults, "train.spans", {"train.objective"},
          fmt::format("has no effect with train.objective: {}; take it out of the recipe",
                      r.train.objective));
    return;
  }
  if (s.sentinel.find("{}") == std::string::npos)
    add(faults, "train.spans.sentinel", {},
        fmt::format("{:?} has no {{}} where the number of a sentinel stands", s.sentinel));
  const auto refuse = [&](bool given, const char* key, const char* why) {
    if (given)
      add(faults, key, {"train.objective"},
          fmt::format("has no meaning with train.objective: spans: {}; take it out of the recipe",
                      why));
  };
  const char* const kOneSequence = "a sample is one sequence of the encoder and one of the decoder";
  refuse(r.data.document_mask, "data.document_mask", kOneSequence);
  refuse(r.data.reset_positions, "data.reset_positions", kOneSequence);
  refuse(!r.data.end_of_document_loss, "data.end_of_document_loss",
         "the decoder says what was hidden, ends of documents too");
  refuse(r.train.sample_every > 0, "train.sample_every", "a model of spans continues no text");
}

/// A sample is a pair and the text behind it.
void pair_rules(const Recipe& r, Faults& faults) {
  if (r.train.sentence_pairs == SentencePairs::none) return;
  const auto refuse = [&](bool given, const char* key, const char* why) {
    if (given) add(faults, key, {"train.sentence_pairs"}, why);
  };
  refuse(r.train.objective != Objective::masked, "train.sentence_pairs",
         "sentence pairs are of train.objective: masked");
  const char* const kApart =
      "a sample of a sentence pair has its own sequences; take it out of the recipe";
  refuse(r.data.document_mask, "data.document_mask", kApart);
  refuse(r.data.reset_positions, "data.reset_positions", kApart);
  refuse(r.data.sequences == Sequences::documents, "data.sequences", kApart);
}

void masking_rules(const Recipe& r, Faults& faults) {
  const MaskingSection& m = r.train.masking;
  if (r.train.objective != Objective::masked) {
    if (m != MaskingSection{})
      add(faults, "train.masking", {"train.objective"},
          fmt::format("has no effect with train.objective: {}; take it out of the recipe",
                      r.train.objective));
    return;
  }
  if (m.mask_share + m.random_share > 1)
    add(faults, "train.masking.random_share", {"train.masking.mask_share"},
        fmt::format("{} and train.masking.mask_share {} are more than 1 together", m.random_share,
                    m.mask_share));
  if (!r.data.end_of_document_loss)
    add(faults, "data.end_of_document_loss", {"train.objective"},
        "false has no effect with train.objective: masked, which never predicts special tokens; "
        "take it out of the recipe");
  if (r.train.sample_every > 0)
    add(faults, "train.sample_every", {"train.objective"},
        "a model of hidden tokens continues no text; set it to 0");
}

}  // namespace

void objective_rules(const Recipe& r, Faults& faults) {
  middle_rules(r, faults);
  documents_rules(r, faults);
  pair_rules(r, faults);
  spans_rules(r, faults);
  masking_rules(r, faults);
}

}  // namespace megalith::config
