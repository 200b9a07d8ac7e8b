// SPDX-License-Identifier: Apache-2.0
#include "spec/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "families/families.h"
#include "families/model_spec_json.h"
#include "models/foreign_map.h"
#include "settings/fields_json.h"

namespace megalith::models {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

ModelSpec uneven() {
  ModelSpec model = llama({.layers = 5, .hidden = 24, .heads = 4, .kv_heads = 2, .vocab = 99});
  model.layers[2].attention.window = 7;
  model.layers[2].attention.rope.scaling = layers::RopeScaling::longrope;
  model.layers[2].attention.rope.short_factors = {1, 1.5, 2};
  model.layers[2].attention.rope.long_factors = {0.1, 1e300, 4};
  model.layers[3].mlp.ffn = 11;
  model.layers[4].mlp.ffn = 11;
  return model;
}

ModelSpec classifier() {
  ModelSpec model = gpt2({.layers = 2, .hidden = 48, .heads = 4, .vocab = 99});
  model.head = {.kind = layers::HeadKind::sequence_classification,
                .tied = false,
                .pooling = layers::Pooling::mean,
                .dense = layers::HeadDense::tanh,
                .outputs = 5};
  return model;
}

TEST(ModelSpec, AHeadIsPartOfIt) {
  const Json json = to_json(classifier());
  EXPECT_EQ(json["head"], (Json{{"kind", "sequence_classification"},
                                {"tied", false},
                                {"pooling", "mean"},
                                {"dense", "tanh"},
                                {"outputs", 5}}));
  EXPECT_EQ(model_spec_from(json, "manifest.json"), classifier());
  // As before there were kinds.
  EXPECT_EQ(to_json(uneven())["head"], (Json{{"tied", false}}));
  EXPECT_FALSE(to_json(gpt2({})).contains("head"));
}

TEST(ModelSpec, ARecipeTrainsHeadsOfLanguageModelsAlone) {
  ModelSpec recipes = classifier();
  recipes.head = {};
  try {
    require_same_weights(recipes, classifier(), "recipe: train.init runs/a");
    ADD_FAILURE() << "a classifier was taken";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("train.init runs/a: a model with a head for "
                                        "sequence_classification"));
    EXPECT_THAT(error.what(), HasSubstr("no data with targets"));
  }
}

TEST(ModelSpec, ReadsBackAsItself) {
  for (const ModelSpec& model :
       {gpt2({}), llama({.layers = 2, .hidden = 64, .heads = 4}), uneven()}) {
    const Json json = to_json(model);
    EXPECT_EQ(model_spec_from(json, "manifest.json"), model) << json;
  }
}

TEST(ModelSpec, FilesHoldWhatDiffersFromTheDefaults) {
  const Json json = to_json(gpt2({}));
  EXPECT_EQ(json, (Json{{"version", 2},
                        {"family", "gpt2"},
                        {"hidden", 768},
                        {"context", 1024},
                        {"vocab", 50257},
                        {"layers", {{{"count", 12}}}}}));
  EXPECT_EQ(to_json(uneven())["layers"].size(), 3);
}

/// A description that no version before had: absent unless its key is there.
TEST(ModelSpec, CrossAttentionIsWrittenWhereThereIsSome) {
  layers::LayerSpec layer, without, read;
  layer.cross = layers::AttentionSpec{.heads = 4, .kv_heads = 2, .causal = false};
  const auto json = settings::changed_fields_json(layer);
  EXPECT_EQ(json.size(), 1u) << json;
  EXPECT_TRUE(settings::changed_fields_json(without).empty());
  settings::read_fields_json(json.dump(), "m", [&](settings::FieldVisitor& v) { read.visit(v); });
  EXPECT_EQ(read, layer);
  read = {};
  settings::read_fields_json("{}", "m", [&](settings::FieldVisitor& v) { read.visit(v); });
  EXPECT_EQ(read, without);
  Json wrong = json;
  wrong["cross"]["head"] = 4;
  EXPECT_THROW(settings::read_fields_json(wrong.dump(), "m",
                                          [&](settings::FieldVisitor& v) { read.visit(v); }),
               UserError);
}

TEST(ModelSpec, RelativePositionsAreWrittenWhereThereAreSome) {
  layers::LayerSpec layer, read;
  layer.attention.relative = layers::RelativeSpec{.buckets = 16};
  const auto json = settings::changed_fields_json(layer);
  EXPECT_EQ(Json(json),
            (Json{{"attention", {{"relative", {{"buckets", 16}, {"max_distance", 128}}}}}}));
  settings::read_fields_json(json.dump(), "m", [&](settings::FieldVisitor& v) { read.visit(v); });
  EXPECT_EQ(read, layer);
}

TEST(ModelSpec, UnknownKeysAndValuesAreRefusedByName) {
  const std::vector<std::pair<const char*, Json>> cases = {
      {"/windows", 5},
      {"/layers/0/attention/windows", 5},
      {"/layers/0/mlp/activation", "swish"},
      {"/layers/0/count", 0},
      {"/layers/0/count", 1e9},
      {"/layers/0/attention/heads", "4"},
      {"/layers/0/attention/heads", 0},
      {"/version", 3},
      {"/hidden", 1e300},
  };
  for (const auto& [path, value] : cases) {
    Json json = to_json(uneven());
    json[Json::json_pointer(path)] = value;
    try {
      model_spec_from(json, "manifest.json");
      ADD_FAILURE() << path << " " << value << " was taken";
    } catch (const UserError& error) {
      const std::string key = std::string(path).substr(std::string(path).rfind('/') + 1);
      EXPECT_THAT(error.what(), HasSubstr("manifest.json")) << path;
      EXPECT_THAT(error.what(), HasSubstr(key)) << path;
    }
  }
  EXPECT_THROW(model_spec_from(Json::array(), "x"), UserError);
  EXPECT_THROW(model_spec_from(Json{{"version", 2}, {"layers", Json::array()}}, "x"), UserError);
}

TEST(ModelSpec, TheFlatObjectOfVersion1IsGpt2sShape) {
  const Json json = {{"layers", 2},
                     {"hidden", 16},
                     {"heads", 4},
                     {"kv_heads", 2},
                     {"ffn", 40},
                     {"context", 16},
                     {"vocab", 260},
                     {"norm", "layer_norm"},
                     {"position", "learned"},
                     {"mlp", "gelu_erf"},
                     {"attention", "materialised"},
                     {"bias", true},
                     {"tied", false},
                     {"dropout", 0.1},
                     {"norm_eps", 1e-6},
                     {"init_std", 0.3}};
  ModelSpec expected = gpt2({.layers = 2,
                             .hidden = 16,
                             .heads = 4,
                             .kv_heads = 2,
                             .ffn = 40,
                             .context = 16,
                             .vocab = 260});
  expected.for_each_layer([](layers::LayerSpec& layer) {
    layer.mlp.activation = layers::Activation::gelu_erf;
    layer.attention.materialised = true;
    layer.norm.eps = 1e-6;
  });
  expected.final_norm.eps = 1e-6;
  expected.head.tied = false;
  expected.dropout = 0.1;
  expected.init_std = 0.3;
  EXPECT_EQ(model_spec_from(json, "m"), expected);
  for (const auto& [key, value] : std::vector<std::pair<const char*, Json>>{
           {"norm", "rms_norm"}, {"position", "rotary"}, {"mlp", "swiglu"}, {"bias", false}}) {
    Json other = json;
    other[key] = value;
    EXPECT_THROW(model_spec_from(other, "m"), UserError) << key;
    other.erase(key);
    EXPECT_THROW(model_spec_from(other, "m"), UserError) << key;
  }
}

TEST(ModelSpec, CountsWhatItsLayersDeclare) {
  ModelSpec both = uneven();
  both.for_each_layer([](layers::LayerSpec& layer) {
    layer.norm_place = layers::NormPlace::both;
    layer.attention.qkv_bias = true;
    layer.mlp.bias = true;
  });
  ModelSpec normed = gpt2({.hidden = 48, .heads = 4});  // layer norms with a bias
  normed.for_each_layer(
      [](layers::LayerSpec& layer) { layer.attention.qk_norm = layers::QkNorm::head; });
  ModelSpec whole = uneven();
  whole.for_each_layer(
      [](layers::LayerSpec& layer) { layer.attention.qk_norm = layers::QkNorm::whole; });
  ModelSpec crossed = both;
  crossed.layers[1].cross = crossed.layers[3].attention;
  crossed.layers[1].cross->causal = false;
  crossed.layers[1].cross->rope.dim = 0;
  ModelSpec relative = uneven();
  relative.for_each_layer(
      [](layers::LayerSpec& layer) { layer.attention.relative = layers::RelativeSpec{}; });
  for (const ModelSpec& model :
       {gpt2({.hidden = 48, .heads = 4}), both, normed, whole, crossed, relative, classifier(),
        kT5.make({.layers = 2, .decoder_layers = 3, .hidden = 48, .heads = 4, .ffn = 20}, "t"),
        kMt5.make({.layers = 3, .decoder_layers = 1, .hidden = 48, .heads = 4}, "t")}) {
    int64_t elements = 0;
    for (const DeclaredTensor& tensor : declared_tensors(model))
      elements += tensor.shape.num_elements();
    const bool one_table = model.head.tied || model.head.outputs > 0;
    const int64_t tables = one_table ? 1 : 2;
    EXPECT_EQ(elements - tables * (model.padded_vocab(1) - model.vocab) * model.hidden,
              model.num_parameters());
  }
}

TEST(ModelSpec, ImpossibleOnesAreRefused) {
  const auto refuses = [](auto change, const char* what) {
    ModelSpec model = llama({.layers = 2, .hidden = 64, .heads = 4});
    change(model);
    try {
      model.check("recipe");
      ADD_FAILURE() << what << " was taken";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  };
  refuses([](ModelSpec& m) { m.layers[1].attention.kv_heads = 3; }, "kv_heads");
  refuses([](ModelSpec& m) { m.layers[0].attention.rope.dim = 18; }, "rotary");
  refuses([](ModelSpec& m) { m.layers[0].attention.rope.dim = 3; }, "rotary");
  refuses([](ModelSpec& m) { m.layers[0].norm.bias = true; }, "bias");
  refuses([](ModelSpec& m) { m.layers[0].norm.eps = 0; }, "epsilon");
  refuses([](ModelSpec& m) { m.vocab = 0; }, "vocab");
  const auto refuses_t5 = [&](auto change, const char* what) {
    refuses(
        [&](ModelSpec& m) {
          m = kT5.make({.layers = 2, .hidden = 64, .heads = 4, .vocab = 100}, "t");
          change(m);
        },
        what);
  };
  refuses_t5([](ModelSpec& m) { m.encoder_layers = 4; }, "leave no decoder");
  refuses_t5([](ModelSpec& m) { m.encoder_layers = -1; }, "encoder_layers is -1");
  refuses_t5([](ModelSpec& m) { m.encoder_layers = 1; }, "layer 1 of a decoder is without");
  refuses_t5([](ModelSpec& m) { m.layers[3].cross->causal = true; }, "an order of positions");
  refuses_t5([](ModelSpec& m) { m.layers[3].cross->kv_heads = 3; }, "kv_heads");
  refuses_t5([](ModelSpec& m) { m.layers[1].attention.causal = true; },
             "layer 1 of an encoder is causal");
  refuses_t5([](ModelSpec& m) { m.layers[3].attention.causal = false; }, "a decoder is not causal");
  refuses_t5([](ModelSpec& m) { m.layers[2].cross->kv_heads = 0; }, "kv_heads is 0");
  refuses_t5(
      [](ModelSpec& m) {
        for (layers::LayerSpec& layer : m.layers)
          layer.attention.relative->buckets = int64_t{1} << 40;
      },
      "at most 65536");
  refuses_t5([](ModelSpec& m) { m.layers[2].attention.relative->buckets = 16; }, "share one table");
  refuses_t5([](ModelSpec& m) { m.embedding.token_types = 2; }, "table of tokens alone");
  refuses_t5([](ModelSpec& m) { m.head = classifier().head; }, "a language model's");
  refuses_t5([](ModelSpec& m) { m.layer_groups = 1; }, "do not share their weights");
  refuses_t5([](ModelSpec& m) { m.decoder_start = 100; }, "outside the vocabulary");
  refuses([](ModelSpec& m) { m.head.scale = 0; }, "logits");
  refuses([](ModelSpec& m) { m.head.outputs = 2; }, "of heads of sequences");
  refuses(
      [](ModelSpec& m) {
        m.head = classifier().head;
        m.head.outputs = 1;
      },
      "at least 2");
  refuses(
      [](ModelSpec& m) {
        m.head = classifier().head;
        m.head.tied = true;
      },
      "head.tied");
  refuses(
      [](ModelSpec& m) {
        m.head = classifier().head;
        m.head.softcap = 3;
      },
      "vocabulary");
  refuses([](ModelSpec& m) { m.layers[0].attention.causal = false; }, "some layers are causal");
  refuses([](ModelSpec& m) { m.embedding.position_offset = 2; }, "table of positions");
  const auto relative = [](ModelSpec& m, int64_t buckets, int64_t max_distance) {
    m.for_each_layer([&](layers::LayerSpec& layer) {
      layer.attention.relative = layers::RelativeSpec{buckets, max_distance};
    });
  };
  refuses([&](ModelSpec& m) { relative(m, 31, 128); }, "31 buckets of distances");
  refuses([&](ModelSpec& m) { relative(m, 32, 16); }, "distances up to 16");
  refuses(
      [&](ModelSpec& m) {
        relative(m, 32, 128);
        m.layers[1].attention.softcap = 3;
      },
      "no code caps scores that have relative positions");
  refuses(
      [&](ModelSpec& m) {
        relative(m, 32, 128);
        m.layers[1].attention.relative.reset();
      },
      "share one table of relative positions");
  refuses(
      [&](ModelSpec& m) {
        relative(m, 32, 128);
        m.layer_groups = 1;
      },
      "no code for relative positions in layers that share their weights");
  refuses([](ModelSpec& m) { m.head = {.kind = layers::HeadKind::none}; }, "head.tied");
  refuses(
      [](ModelSpec& m) {
        m.head = classifier().head;
        m.head.labels = {"a", "b"};
      },
      "2 labels for 5 outputs");
  refuses(
      [](ModelSpec& m) {
        m.layers[1].cross = m.layers[1].attention;
        m.layers[1].cross->causal = false;
      },
      "no encoder before it");
  refuses([](ModelSpec& m) { m.layers.clear(); }, "layers");
  refuses(
      [](ModelSpec& m) {
        m.layers[0].parallel = true;
        m.layers[0].norm_place = layers::NormPlace::both;
      },
      "parallel");
}

}  // namespace
}  // namespace megalith::models
