// SPDX-License-Identifier: Apache-2.0
#include "config/rules_fixture.h"

namespace megalith::config {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Objectives, Rules,
    testing::Values(Case{"masking_of_no_effect", [](Recipe& r) { r.train.masking.rate = 0.3; },
                         "train.masking", "has no effect with train.objective: causal"},
                    Case{"shares_of_one",
                         [](Recipe& r) {
                           r.train.objective = Objective::masked;
                           r.train.masking.random_share = 0.25;
                         },
                         "train.masking.random_share", "more than 1 together"},
                    Case{"rate_of_nothing", [](Recipe& r) { r.train.masking.rate = 0; },
                         "train.masking.rate", "above 0"},
                    Case{"masked_continues_no_text",
                         [](Recipe& r) {
                           r.train.objective = Objective::masked;
                           r.train.sample_every = 1;
                         },
                         "train.sample_every", "continues no text"},
                    Case{"masked_predicts_no_ends",
                         [](Recipe& r) {
                           r.train.objective = Objective::masked;
                           r.data.end_of_document_loss = false;
                         },
                         "data.end_of_document_loss", "never predicts special tokens"},
                    Case{"middle_of_no_effect", [](Recipe& r) { r.train.fim.spm_rate = 0.3; },
                         "train.fim", "has no effect with train.fim.rate 0"},
                    Case{"middle_is_causal",
                         [](Recipe& r) {
                           r.train.fim.rate = 0.5;
                           r.train.objective = Objective::masked;
                         },
                         "train.fim.rate", "of train.objective: causal, not masked"},
                    Case{"middle_tokens_together",
                         [](Recipe& r) {
                           r.train.fim.rate = 0.5;
                           r.train.fim.middle = "<m>";
                         },
                         "train.fim.prefix", "or none"},
                    Case{"spans_of_no_effect", [](Recipe& r) { r.train.spans.rate = 0.3; },
                         "train.spans", "has no effect with train.objective: causal"},
                    Case{"spans_of_all",
                         [](Recipe& r) {
                           r.train.objective = Objective::spans;
                           r.train.spans.rate = 1;
                         },
                         "train.spans.rate", "below 1"},
                    Case{"spans_of_part_of_a_token",
                         [](Recipe& r) {
                           r.train.objective = Objective::spans;
                           r.train.spans.mean_length = 0.5;
                         },
                         "train.spans.mean_length", "from 1"},
                    Case{"sentinels_without_number",
                         [](Recipe& r) {
                           r.train.objective = Objective::spans;
                           r.train.spans.sentinel = "<x>";
                         },
                         "train.spans.sentinel", "has no {}"},
                    Case{"spans_of_documents",
                         [](Recipe& r) {
                           r.train.objective = Objective::spans;
                           r.data.document_mask = true;
                         },
                         "data.document_mask", "one sequence of the encoder"},
                    Case{"spans_with_positions_of_documents",
                         [](Recipe& r) {
                           r.train.objective = Objective::spans;
                           r.data.reset_positions = true;
                         },
                         "data.reset_positions", "one sequence of the encoder"},
                    Case{"spans_say_ends",
                         [](Recipe& r) {
                           r.train.objective = Objective::spans;
                           r.data.end_of_document_loss = false;
                         },
                         "data.end_of_document_loss", "ends of documents too"},
                    Case{"spans_continue_no_text",
                         [](Recipe& r) {
                           r.train.objective = Objective::spans;
                           r.train.sample_every = 1;
                         },
                         "train.sample_every", "continues no text"},
                    Case{"documents_mask_themselves",
                         [](Recipe& r) {
                           r.data.sequences = Sequences::documents;
                           r.data.document_mask = true;
                         },
                         "data.document_mask", "within each anyway"},
                    Case{"documents_reset_positions_themselves",
                         [](Recipe& r) {
                           r.data.sequences = Sequences::documents;
                           r.data.reset_positions = true;
                         },
                         "data.reset_positions", "begin at 0 in each anyway"},
                    Case{"documents_end_without_target",
                         [](Recipe& r) {
                           r.data.sequences = Sequences::documents;
                           r.data.end_of_document_loss = false;
                         },
                         "data.end_of_document_loss", "has no target anyway"},
                    Case{"documents_are_not_rearranged",
                         [](Recipe& r) {
                           r.data.sequences = Sequences::documents;
                           r.train.fim.rate = 0.5;
                         },
                         "train.fim.rate", "cannot be rearranged"},
                    Case{"documents_without_spans",
                         [](Recipe& r) {
                           r.data.sequences = Sequences::documents;
                           r.train.objective = Objective::spans;
                         },
                         "train.objective", "in runs of tokens"},
                    Case{"pairs_are_masked",
                         [](Recipe& r) { r.train.sentence_pairs = SentencePairs::next; },
                         "train.sentence_pairs", "are of train.objective: masked"},
                    Case{"pairs_have_sequences",
                         [](Recipe& r) {
                           r.train.objective = Objective::masked;
                           r.train.sentence_pairs = SentencePairs::order;
                           r.data.document_mask = true;
                         },
                         "data.document_mask", "its own sequences"},
                    Case{"pairs_are_not_documents",
                         [](Recipe& r) {
                           r.train.objective = Objective::masked;
                           r.train.sentence_pairs = SentencePairs::order;
                           r.data.sequences = Sequences::documents;
                         },
                         "data.sequences", "its own sequences"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace megalith::config
