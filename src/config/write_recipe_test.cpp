// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/recipe.h"
#include "math/random.h"

namespace megalith::config {

using settings::EnumReference;
using settings::FieldInfo;
using settings::ListReference;
using settings::ValueReference;

using settings::EnumReference;
using settings::FieldInfo;
using settings::ListReference;
using settings::ValueReference;
namespace {

/// Gives every field a value that differs from its default.
class Changer : public FieldVisitor {
 protected:
  void on_value(const FieldInfo&, const ValueReference& value) override {
    std::visit([&](auto target) { change(target); }, value);
  }
  void on_section(const FieldInfo&, FunctionRef<void(FieldVisitor&)> visit) override {
    visit(*this);
  }
  void on_list(const FieldInfo&, const ListReference& list) override {
    list.resize(3);
    for (size_t i = 0; i < 3; ++i) list.visit_item(i, *this);
  }

 private:
  void change(int64_t* value) { *value += 1 + next_++; }
  // An awkward fraction: all 53 bits are used.
  void change(double* value) { *value += std::abs(normal(1, next_++)) * 1e-7; }
  void change(bool* value) { *value = !*value; }
  void change(std::string* value) {
    constexpr std::string_view kAwkward[] = {"null",
                                             "",
                                             "a: b # c",
                                             "'\"\\",
                                             "line\nbreak\ttab\r",
                                             "~",
                                             "1e5",
                                             "true",
                                             "*alias",
                                             "- x",
                                             " spaces ",
                                             "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                                             "\x01\x1f\x7f",
                                             "\xc2\x85\xe2\x80\xa8",
                                             "<<",
                                             "[1, 2]",
                                             "%tag",
                                             "C:\\x"};
    *value = kAwkward[next_++ % std::size(kAwkward)];
  }
  void change(std::optional<double>* value) { *value = 0.1 * static_cast<double>(next_++); }
  void change(std::optional<bool>* value) { *value = next_++ % 2 == 0; }
  void change(std::vector<double>* value) {
    for (int i = 0; i < 3; ++i) change(&value->emplace_back(1));
  }
  void change(std::vector<std::string>* value) {
    for (int i = 0; i < 18; ++i) change(&value->emplace_back());
  }
  void change(EnumReference value) {
    value.set(value.value, (value.get(value.value) + 1) % value.names.size());
  }
  uint64_t next_ = 0;
};

class SingleChange : public FieldVisitor {
 public:
  explicit SingleChange(uint64_t which) : which_(which) {}
  uint64_t seen() const { return seen_; }

 protected:
  void on_value(const FieldInfo&, const ValueReference& value) override {
    if (seen_++ != which_) return;
    if (const auto* real = std::get_if<double*>(&value)) **real = std::nextafter(**real, 1e30);
    if (const auto* integer = std::get_if<int64_t*>(&value)) **integer += 1;
  }
  void on_section(const FieldInfo&, FunctionRef<void(FieldVisitor&)> visit) override {
    visit(*this);
  }
  void on_list(const FieldInfo&, const ListReference&) override {}

 private:
  uint64_t which_, seen_ = 0;
};

/// Reads a printed recipe without the rules between fields.
nlohmann::json json_of(const Recipe& r) { return nlohmann::json::parse(to_json(r)); }

TEST(WriteRecipe, DefaultsComeBackFromYaml) {
  Recipe r;
  r.model.vocab = 10;
  r.train.steps = 1;
  resolve(r);
  const std::string yaml = to_yaml(r);
  const Recipe back = parse_recipe(yaml, "r.yaml");
  EXPECT_EQ(to_yaml(back), yaml);
  EXPECT_EQ(json_of(back), json_of(r));
  EXPECT_TRUE(differences(r, back).empty());
}

TEST(WriteRecipe, AwkwardValuesComeBackToTheBit) {
  Recipe r;
  Changer changer;
  r.visit(changer);
  // What the rules between fields demand.
  r.model.hidden = 64, r.model.heads = r.model.kv_heads = 8, r.model.ffn = 256;
  r.model.dropout = 0.1 + 1e-17;
  r.data.validation_fraction = 0, r.data.end_of_document_loss = true;
  r.data.sequences = Sequences::tokens;
  r.train.best_by = BestBy::loss;
  r.train.sample_every = 0, r.train.fim = FimSection{}, r.train.spans = SpansSection{};
  r.train.sentence_pairs = SentencePairs::none;
  for (auto* corpora : {&r.data.train, &r.data.validation})
    for (Corpus& corpus : *corpora)
      if (corpus.path.empty()) corpus.path = "[x";
  r.train.steps = 5, r.train.tokens = -1, r.train.epochs = -1, r.train.hours = -1;
  r.train.global_batch = 8, r.train.micro_batch = 2, r.train.z_loss = 1.0 / 3;
  r.train.ramp_start = r.train.ramp_increment = r.train.ramp_samples = 0;
  r.optimizer.min_lr = 1e-4 / 3, r.optimizer.eps = 1e-8 / 7, r.optimizer.lr = 3e-4 / 7;
  r.optimizer.schedule = Schedule::inverse_sqrt;
  r.optimizer.layer_decay = 2.0 / 3;
  for (ParameterGroup& group : r.optimizer.groups)
    if (group.match.empty()) group.match = "~";
  r.optimizer.groups[1].weight_decay.reset();
  r.precision.loss_scale = "dynamic", r.precision.fp16 = Fp16Section{};
  r.precision.parameters = Precision::bf16;
  r.precision.compute = Compute::fp8, r.precision.fp8.recipe = Fp8Recipe::delayed;
  r.precision.fp8.margin = 3, r.precision.fp8.first_layers = r.precision.fp8.last_layers = 1;
  r.memory.recompute_layers = 3, r.memory.offload = Offload::none;
  r.parallel = ParallelSection{};
  r.parallel.tensor_shards = 4;
  std::string faults;
  for (const Fault& fault : validate(r)) faults += fault.text() + "\n";
  ASSERT_EQ(faults, "");
  const Recipe back = parse_recipe(to_yaml(r), "r.yaml");
  for (const Difference& d : differences(r, back))
    ADD_FAILURE() << d.path << ": " << d.before << " became " << d.after;
  EXPECT_EQ(std::bit_cast<uint64_t>(back.optimizer.lr), std::bit_cast<uint64_t>(r.optimizer.lr));
  EXPECT_EQ(back.train.sample_prompts, r.train.sample_prompts);
  EXPECT_EQ(json_of(back), json_of(r));
}

TEST(WriteRecipe, TheLeastChangeOfEveryNumberIsPrinted) {
  const std::string before = to_yaml(Recipe{});
  SingleChange count(~uint64_t{0});
  Recipe{}.visit(count);
  ASSERT_GT(count.seen(), 50u);
  uint64_t changed = 0;
  for (uint64_t i = 0; i < count.seen(); ++i) {
    Recipe r;
    SingleChange change(i);
    r.visit(change);
    changed += to_yaml(r) != before;
  }
  EXPECT_EQ(changed, 106u);  // the integers and reals of the recipe outside of lists
}

TEST(WriteRecipe, JsonIsOneLineInTheOrderOfTheFields) {
  Recipe r;
  r.data.train = {{"a", 2}};
  const std::string json = to_json(r);
  EXPECT_EQ(json.find('\n'), std::string::npos);
  EXPECT_LT(json.find("\"run\""), json.find("\"model\""));
  EXPECT_LT(json.find("\"numerics\":\"exact\""), json.find("\"checkpoint\""));
  const nlohmann::json parsed = json_of(r);
  EXPECT_EQ(parsed["data"]["train"][0]["path"], "a");
  EXPECT_EQ(parsed["data"]["train"][0]["weight"], 2.0);
  EXPECT_EQ(parsed["parallel"]["schedule"], "1f1b");
  EXPECT_EQ(parsed["optimizer"]["lr"], 3e-4);
}

}  // namespace
}  // namespace megalith::config
