// SPDX-License-Identifier: Apache-2.0
// Adapters against the folders of all families: what their factors add to our weights is what they
// add to the folder's own tensors. And what is wrong with a folder is named.
#include "store/adapter_source.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/checkpoint_fixture.h"
#include "comm/backends.h"
#include "inference/inference_model.h"
#include "store/adapter_fixture.h"
#include "store/merged_weights.h"

namespace megalith::store {
namespace {

using checkpoint::fault_of;
using ::testing::HasSubstr;

/// What peft's merge_and_unload() does to the folder's tensors, in double precision.
Tensors merged(const models::ModelSpec& spec, Tensors base, const Tensors& adapter) {
  for (const Module& module : modules_of(spec)) {
    Values& w = base.at(module.name + ".weight");
    const Values& a = adapter.at(tensor_of(module, "lora_A"));
    const Values& b = adapter.at(tensor_of(module, "lora_B"));
    for (int64_t o = 0; o < module.outputs(); ++o) {
      for (int64_t i = 0; i < module.inputs(); ++i) {
        double sum = 0;
        for (int64_t r = 0; r < 4; ++r)
          sum += static_cast<double>(b.values[static_cast<size_t>(o * 4 + r)]) *
                 a.values[static_cast<size_t>(r * module.inputs() + i)];
        float& at = w.values[static_cast<size_t>(module.transposed ? i * module.outputs() + o
                                                                   : o * module.inputs() + i)];
        at = static_cast<float>(at + kScale * sum);
      }
    }
  }
  return base;
}

/// Learned vectors of every product, and the configuration that names those of inputs.
std::string vector_of(const Module& module) { return "base_model.model." + module.name + ".ia3_l"; }
Tensors vector_tensors(const models::ModelSpec& spec) {
  Tensors tensors;
  for (const Module& module : modules_of(spec)) {
    const auto seed = static_cast<unsigned>(2000 + tensors.size());
    const Shape shape = module.of_inputs ? Shape{1, module.inputs()} : Shape{module.outputs(), 1};
    tensors.emplace(vector_of(module), random_values(shape, seed));
  }
  return tensors;
}
Json vector_config(const models::ModelSpec& spec, const Json& change = Json::object()) {
  Json inputs = Json::array();
  for (const Module& module : modules_of(spec))
    if (module.of_inputs) inputs.push_back(module.name);
  Json json = {
      {"peft_type", "IA3"}, {"target_modules", "all-linear"}, {"feedforward_modules", inputs}};
  json.update(change);
  return json;
}

/// What peft's merge_and_unload() does to the folder's tensors: one multiplication each.
Tensors multiplied(const models::ModelSpec& spec, Tensors base, const Tensors& vectors) {
  for (const Module& module : modules_of(spec)) {
    const std::vector<float>& l = vectors.at(vector_of(module)).values;
    Values& w = base.at(module.name + ".weight");
    for (int64_t o = 0; o < module.outputs(); ++o)
      for (int64_t i = 0; i < module.inputs(); ++i)
        w.values[static_cast<size_t>(module.transposed ? i * module.outputs() + o
                                                       : o * module.inputs() + i)] *=
            l[static_cast<size_t>(module.of_inputs ? i : o)];
    const auto bias = base.find(module.name + ".bias");
    if (module.of_inputs || bias == base.end()) continue;
    for (size_t o = 0; o < l.size(); ++o) bias->second.values[o] *= l[o];
  }
  return base;
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Fills an adapter on one tensor rank and on two, and calls check(world, parameter, factors) for
/// each of its `products`.
template <typename Check>
void expect_filled(const AdapterSource& source, const models::ModelSpec& spec, int products,
                   const Check& check) {
  for (const int tensor : {1, 2}) {
    comm::run_ranks(tensor, [&](comm::Communicator& world) {
      const auto device = device::make_cpu_device(1);
      inference::InferenceModel placed(spec, *device, world,
                                       {.tensor_shards = 2, .layout = {.tensor = tensor}});
      layers::Adapter adapter(placed.parameters(), *device, source.ranks());
      engine::ShardedModel& sharded = placed.engine().model();
      source.fill(adapter, placed.parameters(), sharded.exec(), sharded.mesh().tensor());
      int found = 0;
      for (const parameters::Parameter& parameter : placed.parameters().all()) {
        const auto* const factors = adapter.find(parameter.name());
        if (factors == nullptr) continue;
        ++found;
        check(world, parameter, *factors);
      }
      EXPECT_EQ(found, products);
    });
  }
}

TEST_F(AdapterFolders, EveryFamilysModulesAreFoundAmongOurProducts) {
  int families = 0;
  for (const models::Family* const family : models::families()) {
    const models::ModelSpec spec = small(*family);
    const std::string name(family->name);
    const Tensors base = base_tensors(spec), adapter = adapter_tensors(spec);
    const ModelSource model = ModelSource::open(write_model(name, spec, base));
    const ModelSource after =
        ModelSource::open(write_model(name + "-merged", spec, merged(spec, base, adapter)));
    const AdapterSource source =
        AdapterSource::open(write_adapter(name + "-adapter", adapter), model);
    EXPECT_EQ(source.parameters(), [&] {
      int64_t elements = 0;
      for (const auto& [tensor, values] : adapter) elements += values.shape.num_elements();
      return elements;
    }()) << name;
    for (const StoredTensor& tensor : model.weights().tensors()) {
      const std::vector<float> w = floats(model.weights().read(tensor)),
                               expected =
                                   floats(after.weights().read(*after.weights().find(tensor.name)));
      if (!source.ranks().contains(tensor.name)) {
        EXPECT_EQ(w, expected) << name << " " << tensor.name;
        continue;
      }
      const auto [rank, a_bytes, b_bytes, blocks] =
          source.factors(tensor.name, Shard::whole(tensor.shape));
      const std::vector<float> a = floats(a_bytes), b = floats(b_bytes);
      const int64_t outputs = tensor.shape[0], inputs = tensor.shape[1];
      double worst = 0;
      for (int64_t o = 0; o < outputs; ++o) {
        for (int64_t i = 0; i < inputs; ++i) {
          double sum = w[static_cast<size_t>(o * inputs + i)];
          for (int64_t r = 0; r < rank; ++r)
            sum += static_cast<double>(a[static_cast<size_t>(i * rank + r)]) *
                   b[static_cast<size_t>(r * outputs + o)];
          worst = std::max(worst, std::abs(sum - expected[static_cast<size_t>(o * inputs + i)]));
        }
      }
      // One rounding of a number of at most 4; the scale is a power of two.
      EXPECT_LE(worst, 2 * 0x1p-24) << name << " " << tensor.name;
    }
    ++families;
  }
  EXPECT_GE(families, 19);
}

// Merged, they are the folder's own tensors times the same numbers, to the bit.
TEST_F(AdapterFolders, EveryFamilysVectorsAreFoundAmongOurProducts) {
  int families = 0;
  for (const models::Family* const family : models::families()) {
    const models::ModelSpec spec = small(*family);
    const std::string name(family->name);
    const Tensors base = base_tensors(spec), vectors = vector_tensors(spec);
    const fs::path folder = write_model(name, spec, base);
    const fs::path adapter = write_adapter(name + "-vectors", vectors, vector_config(spec));
    const ModelSource after =
        ModelSource::open(write_model(name + "-multiplied", spec, multiplied(spec, base, vectors)));
    const AdapterSource source = AdapterSource::open(adapter, ModelSource::open(folder));
    for (const auto& [weight, rank] : source.ranks()) {
      EXPECT_EQ(rank.rank, 0) << name << " " << weight;
      EXPECT_NE(rank.vector, layers::AdapterRank::Vector::none) << name << " " << weight;
    }
    const ModelSource merged = with_adapter_merged(ModelSource::open(folder), adapter);
    for (const StoredTensor& tensor : merged.weights().tensors()) {
      EXPECT_EQ(floats(merged.weights().read(tensor)),
                floats(after.weights().read(*after.weights().find(tensor.name))))
          << name << " " << tensor.name;
    }
    ++families;
  }
  EXPECT_GE(families, 19);
}

TEST_F(AdapterFolders, VectorsAreFilledAsTheWeightIsCut) {
  const models::ModelSpec spec = small(models::kLlama);
  const ModelSource model = ModelSource::open(write_model("base", spec, base_tensors(spec)), 2);
  Json config = vector_config(spec, {{"target_modules", {"v_proj", "up_proj", "down_proj"}}});
  Tensors vectors = vector_tensors(spec);
  std::erase_if(vectors, [](const auto& entry) {
    return entry.first.find("v_proj") == std::string::npos &&
           entry.first.find("up_proj") == std::string::npos &&
           entry.first.find("down_proj") == std::string::npos;
  });
  const AdapterSource source =
      AdapterSource::open(write_adapter("vectors", vectors, config), model);
  const Shape wide = model.weights().find("layers.0.attention.qkv.weight")->shape;
  const std::vector<float> whole =
      source.vector("layers.0.attention.qkv.weight", Shard::whole(wide));
  // Of each group of 2 x 8 queries, a key and a value the last has a vector.
  const std::vector<float>& v =
      vectors.at("base_model.model.model.layers.0.self_attn.v_proj.ia3_l").values;
  ASSERT_EQ(std::ssize(whole), wide[0]);
  for (size_t o = 0; o < whole.size(); ++o)
    EXPECT_EQ(whole[o], o % 32 < 24 ? 1 : v[o / 32 * 8 + o % 32 - 24]) << o;
  expect_filled(source, spec, 6, [&](auto& world, const auto& parameter, const auto& factors) {
    const bool of_inputs = parameter.name().ends_with("down.weight");
    const View l = of_inputs ? factors.input_I : factors.output_O;
    const std::vector<float> all = source.vector(parameter.name(), Shard::whole(parameter.shape()));
    ASSERT_EQ(l.num_elements() * world.size(), std::ssize(all)) << parameter.name();
    for (int64_t i = 0; i < l.num_elements(); ++i)
      EXPECT_EQ(l.as<float>()[i], all[static_cast<size_t>(i + world.rank() * l.num_elements())])
          << parameter.name();
  });
}

TEST_F(AdapterFolders, FaultsOfVectorsAreNamed) {
  const models::ModelSpec spec = small(models::kLlama);
  const ModelSource model = ModelSource::open(write_model("base", spec, base_tensors(spec)));
  const Tensors good = vector_tensors(spec);
  const std::string down = "base_model.model.model.layers.0.mlp.down_proj.ia3_l";
  int number = 0;
  const auto open = [&](const Tensors& tensors, const Json& json) {
    AdapterSource::open(write_adapter(fmt::format("v{}", number++), tensors, json), model);
  };
  open(good, vector_config(spec));
  const auto integrity = [&](const Tensors& tensors, const Json& json, const std::string& words) {
    EXPECT_THAT(fault_of<IntegrityError>([&] { open(tensors, json); }), HasSubstr(words));
  };
  Tensors other = good;
  other.erase(down);
  integrity(other, vector_config(spec), "tensor " + down + " is missing");
  other.emplace(down, random_values(Shape{48, 1}, 1));
  integrity(other, vector_config(spec), "tensor " + down + " is [48, 1]");
  integrity(adapter_tensors(spec), vector_config(spec), "is no vector of a product");
  integrity(good, vector_config(spec, {{"target_modules", {"k_proj"}}}),
            "which is not among target_modules");
  const auto user = [&](const Json& json, const std::string& words) {
    EXPECT_THAT(fault_of<UserError>([&] { open(good, json); }), HasSubstr(words));
  };
  user(vector_config(spec, {{"feedforward_modules", Json::array()}}),
       "multiplies the outputs of model.layers.0.self_attn.o_proj is not supported");
  user(vector_config(spec, {{"feedforward_modules", {"proj"}}}), "multiplies the inputs of model.");
}

// The parts that ranks have are those of the whole.
TEST_F(AdapterFolders, PartsAreCutAsTheWeightIs) {
  const models::ModelSpec spec = small(models::kLlama);
  const ModelSource model = ModelSource::open(write_model("base", spec, base_tensors(spec)));
  const AdapterSource source =
      AdapterSource::open(write_adapter("adapter", adapter_tensors(spec)), model);
  const std::string column = "layers.0.attention.qkv.weight", row = "layers.0.mlp.down.weight";
  const Shape wide = model.weights().find(column)->shape, deep = model.weights().find(row)->shape;
  const auto whole = source.factors(column, Shard::whole(wide));
  const Shard two{0, 2, 3, 11, 2};
  const auto part = source.factors(column, two);
  EXPECT_EQ(part.a_IR, whole.a_IR);
  const std::vector<float> all = floats(whole.b_RO), mine = floats(part.b_RO);
  ASSERT_EQ(std::ssize(mine), whole.rank * 5);
  for (int64_t r = 0; r < whole.rank; ++r)
    for (int64_t i = 0; i < 5; ++i)
      EXPECT_EQ(mine[static_cast<size_t>(r * 5 + i)],
                all[static_cast<size_t>(r * wide[0] + (i < 3 ? 2 + i : 8 + i))]);
  const auto down = source.factors(row, Shard::whole(deep)),
             half = source.factors(row, Shard::part(deep, 1, 1, 2));
  EXPECT_EQ(half.b_RO, down.b_RO);
  EXPECT_EQ(half.a_IR,
            std::vector<std::byte>(down.a_IR.end() - std::ssize(half.a_IR), down.a_IR.end()));
}

// The scale is rounded before it multiplies, as in training (low_rank/factors.h).
TEST_F(AdapterFolders, FactorsAreScaledAsInTraining) {
  constexpr int64_t kRank = 12;
  const models::ModelSpec spec = small(models::kLlama);
  const ModelSource model = ModelSource::open(write_model("base", spec, base_tensors(spec)));
  const Shape shape = model.weights().find("layers.0.mlp.down.weight")->shape;
  Tensors tensors;
  for (const char* const layer : {"0", "1"}) {
    const std::string module = fmt::format("base_model.model.model.layers.{}.mlp.down_proj", layer);
    tensors.emplace(module + ".lora_A.weight", random_values(Shape{kRank, shape[1]}, 1));
    tensors.emplace(module + ".lora_B.weight", random_values(Shape{shape[0], kRank}, 2));
  }
  const AdapterSource source = AdapterSource::open(
      write_adapter("adapter", tensors, config({{"r", kRank}, {"target_modules", {"down_proj"}}})),
      model);
  const std::vector<float>& theirs_OR =
      tensors.at("base_model.model.model.layers.0.mlp.down_proj.lora_B.weight").values;
  const std::vector<float> b_RO =
      floats(source.factors("layers.0.mlp.down.weight", Shard::whole(shape)).b_RO);
  ASSERT_EQ(std::ssize(b_RO), kRank * shape[0]);
  const double scale = 8.0 / kRank;
  int others = 0;  // of the scale in double precision
  for (int64_t o = 0; o < shape[0]; ++o) {
    for (int64_t r = 0; r < kRank; ++r) {
      const float b = theirs_OR[static_cast<size_t>(o * kRank + r)],
                  made = b_RO[static_cast<size_t>(r * shape[0] + o)];
      EXPECT_EQ(made, static_cast<float>(scale) * b) << o << " " << r;
      others += made != static_cast<float>(scale * b) ? 1 : 0;
    }
  }
  EXPECT_GT(others, 0);
}

// What ranks are filled with is their part, packed: of q, k and v, and of gate and up, without the
// zeros.
TEST_F(AdapterFolders, PartsAreFilledAsTheyAreCut) {
  const models::ModelSpec spec = small(models::kLlama);
  const ModelSource model = ModelSource::open(write_model("base", spec, base_tensors(spec)), 2);
  AdapterSource source =
      AdapterSource::open(write_adapter("adapter", adapter_tensors(spec)), model);
  source.hold();  // whatever becomes of the file
  fs::resize_file(folder_ / "adapter" / "adapter_model.safetensors", 8);
  expect_filled(source, spec, 8, [&](auto&, const auto& parameter, const auto& factors) {
    const auto host = source.factors(parameter.name(), parameter.declaration().shard);
    const View b = factors.b_PO;
    EXPECT_EQ(b.size(0), 4) << parameter.name();
    std::vector<float> whole(static_cast<size_t>(host.rank * b.size(1)));
    for (const auto& [columns, first, ranks] : factors.blocks)
      for (int64_t o = columns.begin; o < columns.end; ++o)
        for (int64_t r = 0; r < ranks; ++r)
          whole[static_cast<size_t>(
              (first[static_cast<size_t>(o - columns.begin) % 2] + r) * b.size(1) + o)] =
              b.row<float>(r)[o];
    EXPECT_EQ(whole, floats(host.b_RO)) << parameter.name();
  });
}

TEST_F(AdapterFolders, FaultsAreNamed) {
  const models::ModelSpec spec = small(models::kLlama);
  const ModelSource model = ModelSource::open(write_model("base", spec, base_tensors(spec)));
  const Tensors good = adapter_tensors(spec);
  const std::string q = "model.layers.0.self_attn.q_proj";
  const std::string first = "base_model.model." + q + ".lora_A.weight",
                    second = "base_model.model." + q + ".lora_B.weight";
  int number = 0;
  const auto integrity = [&](const Tensors& tensors, const Json& json, const std::string& words) {
    const fs::path path = write_adapter(fmt::format("a{}", number++), tensors, json);
    EXPECT_THAT(fault_of<IntegrityError>([&] { AdapterSource::open(path, model); }),
                HasSubstr(words));
  };
  const auto with = [&](const std::string& name, std::optional<Shape> shape) {
    Tensors tensors = good;
    tensors.erase(name);
    if (shape) tensors.emplace(name, random_values(*shape, 1));
    return tensors;
  };
  integrity(with(first, {}), config(), "tensor " + first + " is missing");
  integrity(with(second, {}), config(), "tensor " + second + " is missing");
  integrity(with(first, Shape{4, 3}), config(), "tensor " + first + " is [4, 3]");
  integrity(with(first, Shape{5, good.at(first).shape[1]}), config(), "make it [4, ");
  integrity(with("base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight", Shape{4, 4}),
            config(), "has no product model.layers.9.self_attn.q_proj");
  integrity(with("base_model.model.lm_head.lora_A.weight", Shape{4, 4}), config(),
            "has no product lm_head");
  integrity(with("base_model.model." + q + ".lora_magnitude_vector", Shape{4}), config(),
            "lora_magnitude_vector is no factor of a product");
  integrity(good, config({{"target_modules", {"q_proj"}}}), "which is not among target_modules");
  integrity(good, config({{"r", 8}}), "make it [8, ");
  integrity(good, config({{"rank_pattern", {{"k_proj", 2}}}}), "k_proj.lora_A.weight is [4, ");

  const auto user = [&](const fs::path& path, const std::string& words) {
    EXPECT_THAT(fault_of<UserError>([&] { AdapterSource::open(path, model); }), HasSubstr(words));
  };
  user(folder_ / "nothing", "is no folder");
  fs::create_directories(folder_ / "empty");
  user(folder_ / "empty", "has no adapter_config.json");
  put(folder_ / "empty" / "adapter_config.json", config().dump());
  EXPECT_THAT(fault_of<IntegrityError>([&] { AdapterSource::open(folder_ / "empty", model); }),
              HasSubstr("adapter_model.safetensors: is missing"));
  put(folder_ / "empty" / "adapter_model.bin", "x");
  user(folder_ / "empty", "a pickle, which may run code, is not read");
  user(write_adapter("bad", good, config({{"lora_bias", true}})), "lora_bias");
  user(write_adapter("none", {}, config({{"target_modules", {"nothing"}}})),
       "target_modules names no product");
  fs::create_symlink("/etc/passwd", folder_ / "link");
  fs::create_directories(folder_ / "out");
  fs::create_symlink("/etc/passwd", folder_ / "out" / "adapter_config.json");
  EXPECT_THAT(fault_of<IntegrityError>([&] { AdapterSource::open(folder_ / "out", model); }),
              HasSubstr("adapter_config.json"));
}

// Modules of a model that was adapted without its head have no prefix.
TEST_F(AdapterFolders, TheFamilysPrefixMayBeLeftOut) {
  const models::ModelSpec spec = small(models::kGpt2);
  const ModelSource model = ModelSource::open(write_model("base", spec, base_tensors(spec)));
  Tensors bare;
  for (auto [name, values] : adapter_tensors(spec)) {
    const std::string prefix = "base_model.model.transformer.";
    ASSERT_TRUE(name.starts_with(prefix)) << name;
    bare.emplace("base_model.model." + name.substr(prefix.size()), values);
  }
  const AdapterSource whole =
      AdapterSource::open(write_adapter("whole", adapter_tensors(spec)), model);
  const AdapterSource source = AdapterSource::open(write_adapter("bare", bare), model);
  EXPECT_EQ(source.ranks(), whole.ranks());
  EXPECT_NE(source.fingerprint(), whole.fingerprint());
  const std::string weight = "layers.1.mlp.up.weight";
  const Shard all = Shard::whole(model.weights().find(weight)->shape);
  EXPECT_EQ(source.factors(weight, all).b_RO, whole.factors(weight, all).b_RO);
}

}  // namespace
}  // namespace megalith::store
