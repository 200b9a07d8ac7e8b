// SPDX-License-Identifier: Apache-2.0
#include "tune/recipe_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "metrics/tags.h"
#include "tune/rules_fixture.h"

namespace megalith::tune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string fault(const std::function<void(config::Recipe&)>& change) {
  config::Recipe recipe;
  recipe.tune.model = "model";
  recipe.tune.data = {"a.jsonl"};
  change(recipe);
  return faults_of(recipe);
}

TEST(RecipeRules, TakeWhatTunes) {
  EXPECT_EQ(fault([](auto&) {}), "");
  EXPECT_EQ(fault([](auto& r) { r.model.dropout = 0.1; }), "");
  EXPECT_EQ(fault([](auto& r) {
              r.tune.method = config::TuneMethod::lora;
              r.tune.rank = 4;
              r.tune.targets = {"q_proj"};
            }),
            "");
  EXPECT_EQ(fault([](auto& r) {
              r.train.validate_every = 5;
              r.tune.validation = {"b.jsonl"};
              r.tune.seeds = 5;
            }),
            "");
}

TEST(RecipeRules, NameWhatHasNoMeaning) {
  const auto refused = [](auto change, const char* expected) {
    EXPECT_THAT(fault(change), AllOf(HasSubstr("recipe.yaml: "), HasSubstr(expected)));
  };
  refused([](auto& r) { r.tune.model.clear(); }, "tune.model names no model");
  refused([](auto& r) { r.tune.data.clear(); }, "tune.data names no file");
  refused([](auto& r) { r.model.layers = 3; }, "model.layers has no effect beside tune.model");
  refused([](auto& r) { r.data.train = {{"x", {}}}; }, "data.train.0.path has no effect");
  refused([](auto& r) { r.data.tokenizer = "t"; }, "data.tokenizer has no effect");
  refused([](auto& r) { r.train.init = "x"; }, "train.init has no effect");
  refused([](auto& r) { r.train.objective = config::Objective::masked; }, "train.objective");
  refused([](auto& r) { r.train.fim.rate = 0.5; }, "train.fim.rate");
  refused([](auto& r) { r.tune.rank = 4; }, "tune.rank has no effect with tune.method: full");
  refused([](auto& r) { r.train.validate_every = 5; }, "train.validate_every needs");
  refused([](auto& r) { r.tune.seeds = 2; }, "tune.seeds compares validations");
  refused(
      [](auto& r) {
        r.tune.seeds = 2;
        r.run.seed = 9'000'000'000'000'000;
      },
      "tune.seeds 2 reaches beyond the largest run.seed");
  refused([](auto& r) { r.tune.validation = {"b"}; }, "tune.validation has no effect");
  EXPECT_EQ(fault([](auto& r) {
              r.tune.method = config::TuneMethod::adapter;
              r.tune.adapter_dim = 16;
            }),
            "");
  refused([](auto& r) { r.tune.adapter_dim = 16; }, "tune.adapter_dim has no effect");
  refused([](auto& r) { r.tune.magnitudes = true; }, "tune.dora has no effect");
  refused(
      [](auto& r) {
        r.tune.method = config::TuneMethod::lora;
        r.tune.magnitudes = true;
        r.tune.dropout = 0.1;
      },
      "tune.dora is not built with tune.dropout");
  const auto ia3 = [](auto change) {
    return [=](config::Recipe& r) {
      r.tune.method = config::TuneMethod::ia3;
      change(r);
    };
  };
  EXPECT_EQ(fault(ia3([](auto& r) { r.tune.targets = {"k_proj"}; })), "");
  refused(ia3([](auto& r) { r.tune.rank = 4; }), "tune.rank has no effect with tune.method: ia3");
  refused([](auto& r) { r.tune.targets = {"k_proj"}; }, "tune.targets has no effect");
  // Also the elements of a vector that stay one would be drawn to zero.
  EXPECT_EQ(fault(ia3([](auto& r) { r.optimizer.groups = {{"*", 2.0, 0.0}}; })), "");
  refused(ia3([](auto& r) {
            r.optimizer.groups = {{"*", 1.0, 0.1}};
          }),
          "weight_decay of \"*\" pulls vectors");
  // A classifier's head has no vectors.
  EXPECT_EQ(fault(ia3([](auto& r) {
              r.tune.objective = config::TuneObjective::classify;
              r.tune.labels = {"a", "b"};
              r.optimizer.groups = {{"head.*", 1.0, 0.1}};
            })),
            "");
  refused(ia3([](auto& r) {
            r.optimizer.groups = {{"head.*", 1.0, 0.1}, {"head*", 1.0, 0.1}};
          }),
          "weight_decay of \"head*\" pulls vectors");
  const auto prompt = [](auto change) {
    return [=](config::Recipe& r) {
      r.tune.method = config::TuneMethod::prompt;
      change(r);
    };
  };
  EXPECT_EQ(fault(prompt([](auto& r) { r.tune.virtual_tokens = 4; })), "");
  EXPECT_EQ(fault(prompt([](auto& r) {
              r.tune.prompt_init = config::PromptInit::text;
              r.tune.prompt_text = "Classify:";
            })),
            "");
  refused(prompt([](auto& r) { r.tune.prompt_init = config::PromptInit::text; }),
          "tune.prompt_init: text needs tune.prompt_text");
  refused(prompt([](auto& r) { r.tune.prompt_text = "x"; }), "tune.prompt_text has no effect");
  refused(prompt([](auto& r) { r.tune.targets = {"k_proj"}; }), "tune.targets has no effect");
  refused([](auto& r) { r.tune.virtual_tokens = 4; },
          "tune.virtual_tokens has no effect with tune.method: full");
  refused([](auto& r) { r.tune.prompt_init = config::PromptInit::random; },
          "tune.prompt_init has no effect");
  const auto p_tuning = [](auto change) {
    return [=](config::Recipe& r) {
      r.tune.method = config::TuneMethod::p_tuning;
      change(r);
    };
  };
  using config::PromptEncoderKind;
  EXPECT_EQ(fault(p_tuning([](auto& r) {
              r.tune.virtual_tokens = 4;
              r.tune.encoder_hidden = 64;
            })),
            "");
  EXPECT_EQ(fault(p_tuning([](auto& r) {
              r.tune.encoder = PromptEncoderKind::lstm;
              r.tune.encoder_hidden = 64;
              r.tune.encoder_layers = 3;
            })),
            "");
  EXPECT_EQ(fault(p_tuning([](auto& r) { r.tune.encoder = PromptEncoderKind::embedding; })), "");
  refused(p_tuning([](auto& r) { r.tune.encoder_layers = 3; }),
          "tune.encoder_layers has no effect with tune.encoder: mlp");
  // All at once.
  const auto table = p_tuning([](auto& r) {
    r.tune.encoder = PromptEncoderKind::embedding;
    r.tune.encoder_hidden = 64;
    r.tune.encoder_layers = 3;
    r.tune.prompt_init = config::PromptInit::random;
  });
  refused(table, "tune.encoder_hidden has no effect with tune.encoder: embedding");
  refused(table, "tune.encoder_layers has no effect with tune.encoder: embedding");
  refused(table, "tune.prompt_init has no effect with tune.method: p_tuning");
  refused(prompt([](auto& r) { r.tune.encoder_hidden = 64; }),
          "tune.encoder_hidden has no effect with tune.method: prompt");
  refused(prompt([](auto& r) { r.tune.encoder = PromptEncoderKind::lstm; }),
          "tune.encoder has no effect with tune.method: prompt");
  const auto classify = [](auto change) {
    return [=](config::Recipe& r) {
      r.tune.objective = config::TuneObjective::classify;
      r.tune.labels = {"a", "b"};
      change(r);
    };
  };
  EXPECT_EQ(fault(classify([](auto&) {})), "");
  EXPECT_EQ(fault(classify([](auto& r) {
              r.tune.method = config::TuneMethod::lora;
              r.tune.rank = 4;
            })),
            "");
  EXPECT_EQ(fault(classify([](auto& r) { r.tune.method = config::TuneMethod::ia3; })), "");
  refused(classify([](auto& r) { r.tune.method = config::TuneMethod::p_tuning; }),
          "tune.objective: classify is not built with tune.method: p_tuning");
  refused(classify([](auto& r) { r.tune.method = config::TuneMethod::dpo; }),
          "tune.method: dpo compares answers, and tune.objective: classify gives none");
  refused(classify([](auto& r) { r.tune.labels.clear(); }), "tune.labels names no class");
  refused(classify([](auto& r) { r.tune.labels = {"a", "b", "a"}; }), "a class twice");
  refused(classify([](auto& r) { r.tune.overlong = config::Overlong::truncate; }), "tune.overlong");
  refused(classify([](auto& r) { r.tune.template_text = "{a}"; }), "tune.template has no effect");
  refused(classify([](auto& r) { r.train.sample_every = 1; }), "train.sample_every");
  refused(
      [](auto& r) {
        r.tune.labels = {"a", "b"};
      },
      "tune.labels has no effect without tune.objective: classify; set that, or take it out of "
      "the recipe");
}

/// Each key by the rule of its own name, not by that of a key which it begins with.
TEST(RecipeRules, AKeyThatBeginsLikeAnotherHasItsOwnRule) {
  EXPECT_EQ(fault([](auto& r) {
              r.tune.method = config::TuneMethod::prompt;
              r.tune.data.clear();
              r.tune.tasks = {{.name = "task", .data = {"a.jsonl"}}};  // tune.task is refused here
            }),
            "");
  const auto of_one = [](auto change, const std::string& key, const std::string& other) {
    EXPECT_THAT(fault(change), AllOf(HasSubstr(" " + key + " has no effect "),
                                     Not(HasSubstr(other + " has no effect "))));
  };
  of_one([](auto& r) { r.tune.virtual_tokens = 4; }, "tune.virtual_tokens",
         "tune.virtual_token_splits");
  of_one([](auto& r) { r.tune.splits = {20}; }, "tune.virtual_token_splits", "tune.virtual_tokens");
  const auto once = [](auto change, const std::string& key) {
    const std::string said = fault(change);
    EXPECT_THAT(said, HasSubstr(key + " has no effect "));
    EXPECT_EQ(said.find(';'), said.rfind("; take it out")) << said;
  };
  once([](auto& r) { r.tune.encoder_hidden = 64; }, "tune.encoder_hidden");
  once([](auto& r) { r.tune.encoder_layers = 3; }, "tune.encoder_layers");
}

TEST(RecipeRules, OfClassesOfWordsAndOfAnswers) {
  const auto of = [](config::ClassifyTask task, auto change) {
    return fault([=](config::Recipe& r) {
      r.tune.objective = config::TuneObjective::classify;
      r.tune.task = task;
      change(r);
    });
  };
  constexpr auto kWords = config::ClassifyTask::token_classification,
                 kAnswers = config::ClassifyTask::question_answering;
  EXPECT_EQ(of(kWords,
               [](auto& r) {
                 r.tune.labels = {"O", "B-X"};
                 r.tune.overlong = config::Overlong::truncate;
               }),
            "");
  EXPECT_THAT(of(kWords, [](auto& r) { r.tune.labels = {"O"}; }), HasSubstr("two tune.labels"));
  EXPECT_THAT(of(kWords, [](auto&) {}), HasSubstr("tune.labels names no class"));
  EXPECT_THAT(of(kWords,
                 [](auto& r) {
                   r.tune.labels = {"O", "B-X"};
                   r.tune.stride = 64;
                 }),
              HasSubstr("tune.stride has no effect without tune.task: question_answering"));
  EXPECT_EQ(of(kAnswers, [](auto& r) { r.tune.stride = 64; }), "");
  EXPECT_THAT(of(kAnswers,
                 [](auto& r) {
                   r.tune.labels = {"O", "B-X"};
                 }),
              HasSubstr("tune.labels has no effect with tune.task: question_answering"));
  EXPECT_THAT(of(kAnswers, [](auto& r) { r.tune.overlong = config::Overlong::refuse; }),
              HasSubstr("tune.overlong has no effect with tune.task: question_answering"));
  EXPECT_THAT(of(kAnswers, [](auto& r) { r.train.sample_every = 1; }),
              HasSubstr("train.sample_every"));
  EXPECT_THAT(fault([](auto& r) { r.tune.task = kWords; }),
              HasSubstr("tune.task has no effect without tune.objective: classify; set that"));
}

TEST(RecipeRules, OfClassesBesideWhatStays) {
  using enum config::TuneMethod;
  using enum config::ClassifyTask;
  const auto beside = [](config::ClassifyTask task, config::TuneMethod method) {
    return fault([=](config::Recipe& r) {
      r.tune.objective = config::TuneObjective::classify;
      r.tune.method = method;
      r.tune.task = task;
      if (task != question_answering) r.tune.labels = {"O", "B-X"};
    });
  };
  for (const auto task : {sequence_classification, token_classification, question_answering}) {
    for (const auto method : {full, lora, ia3}) EXPECT_EQ(beside(task, method), "");
    for (const auto method : {adapter, prompt, p_tuning})
      EXPECT_THAT(beside(task, method),
                  HasSubstr("tune.objective: classify is not built with tune.method: "));
  }
}

TEST(RecipeRules, BlocksAreOfWeightsThatStay) {
  using config::FrozenWeights;
  const auto quantized = [](config::TuneMethod method, config::Compute compute) {
    return fault([=](config::Recipe& r) {
      r.tune.method = method;
      r.tune.quantize = FrozenWeights::q4_0;
      r.precision.compute = compute;
      if (method == config::TuneMethod::classify) r.tune.labels = {"a", "b"};
    });
  };
  using enum config::TuneMethod;
  for (const auto method : {lora, ia3, adapter, prompt, p_tuning})
    EXPECT_EQ(quantized(method, config::Compute::bf16), "");
  for (const auto method : {full, classify})
    EXPECT_THAT(quantized(method, config::Compute::bf16),
                HasSubstr("tune.quantize has no effect with tune.method: "));
  EXPECT_THAT(quantized(lora, config::Compute::fp8),
              HasSubstr("tune.quantize: q4_0 with precision.compute: fp8"));
}

TEST(RecipeRules, OfPreferences) {
  const auto dpo = [](auto change) {
    return fault([=](config::Recipe& r) {
      r.tune.objective = config::TuneObjective::dpo;
      change(r);
    });
  };
  for (const auto method : {config::TuneMethod::full, config::TuneMethod::lora,
                            config::TuneMethod::ia3, config::TuneMethod::prompt})
    EXPECT_EQ(dpo([&](auto& r) {
                r.tune.method = method;
                r.tune.beta = 0.5;
                r.tune.label_smoothing = 0.1;
                r.tune.template_text = "chat.jinja";
              }),
              "");
  EXPECT_THAT(dpo([](auto& r) {
                r.tune.method = config::TuneMethod::classify;
                r.tune.labels = {"a", "b"};
                r.tune.template_text = "{a}";
                r.train.z_loss = 0.1;
              }),
              AllOf(HasSubstr("tune.method: classify gives none"),
                    HasSubstr("have prompt, chosen and rejected"), HasSubstr("train.z_loss")));
  EXPECT_THAT(fault([](auto& r) {
                r.tune.beta = 0.5;
                r.tune.label_smoothing = 0.1;
              }),
              AllOf(HasSubstr("tune.beta has no effect without tune.objective: dpo"),
                    HasSubstr("tune.label_smoothing has no effect")));
}

/// What is said of a classifier that is best by a number.
std::string best_by_fault(config::BestBy by, config::ClassifyTask task,
                          const std::vector<std::string>& labels) {
  return fault([&](config::Recipe& r) {
    r.tune.objective = config::TuneObjective::classify;
    r.tune.task = task;
    r.tune.labels = labels;
    r.tune.validation = {"b"};
    r.train.validate_every = 5;
    r.train.best_by = by;
  });
}

TEST(RecipeRules, TheBestIsByANumberThatValidationsGive) {
  using enum config::ClassifyTask;
  using Labels = std::vector<std::string>;
  const Labels classes = {"a", "b"}, entities = {"O", "B-X"};
  const std::vector<double> one = {1, 0}, words = {2};
  // Each is a name of the scores that are computed, and what is refused is none.
  const struct {
    config::ClassifyTask task;
    Labels labels;
    metrics::Scores scores;
  } tasks[] = {{sequence_classification, classes, metrics::scores_of_classes(one, one, 2)},
               {sequence_classification, {"score"}, metrics::scores_of_numbers(one, one)},
               {token_classification, classes, metrics::scores_of_tags(classes, one, one, words)},
               {token_classification, entities, metrics::scores_of_tags(entities, one, one, words)},
               {question_answering, {}, {{"exact_match", 0}, {"f1", 0}}}};
  for (const auto& [task, labels, scores] : tasks) {
    for (size_t i = 0; i < settings::EnumNames<config::BestBy>::names.size(); ++i) {
      const auto by = static_cast<config::BestBy>(i);
      const bool is_given = i == 0 || std::ranges::find(scores, name_of(by), [](const auto& score) {
                                        return std::string_view(score.first);
                                      }) != scores.end();
      const std::string said = best_by_fault(by, task, labels);
      EXPECT_EQ(said.empty(), is_given) << name_of(task) << ": " << said;
    }
  }
  EXPECT_THAT(best_by_fault(config::BestBy::f1, sequence_classification, {"score"}),
              HasSubstr("give no f1; set one of loss, pearson, spearmanr"));
  EXPECT_THAT(fault([](auto& r) { r.train.best_by = config::BestBy::accuracy; }),
              HasSubstr("give no accuracy; set one of loss"));
}

}  // namespace
}  // namespace megalith::tune
