// SPDX-License-Identifier: Apache-2.0
#include "train/product_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/folder_writer.h"
#include "checkpoint/manifest.h"
#include "kernels/matmul/product_class.h"

namespace megalith::train {
namespace {

device::Target target(uint32_t products) {
  return {.isa = device::Isa::avx512, .num_threads = 2, .library_products = products};
}

TEST(ProductChoices, ComeBackByName) {
  for (const uint32_t products :
       {0u, 1u, 0b100000000010u, (1u << kernels::kNumProductClasses) - 1}) {
    const auto json = nlohmann::json::parse(choices_json(target(products)).dump());
    const ProductChoices back = choices_from(json);
    EXPECT_EQ(back.products, products);
    EXPECT_EQ(back.isa, "avx512");
    EXPECT_EQ(back.library, kernels::library_version());
  }
  EXPECT_EQ(choices_json(target(1))["library_products"][0], name_of(kernels::product_class(0)));
}

TEST(ProductChoices, WhatIsNoneIsRefused) {
  for (const char* text :
       {"{}", "[]", R"({"isa": "a", "library": "b", "library_products": 5})",
        R"({"isa": 1, "library": "b", "library_products": []})",
        R"({"isa": "a", "library": "b", "library_products": ["f64 sideways"]})"}) {
    EXPECT_THROW(choices_from(nlohmann::json::parse(text)), IntegrityError) << text;
  }
}

TEST(ProductChoices, ThoseOfAWholeCheckpointThatCannotBeReadAreNotPassedOver) {
  std::string name = ::testing::TempDir() + "megalith-choices-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const std::filesystem::path run = name;
  const auto save = [&](int64_t step, const nlohmann::json& products) {
    std::filesystem::create_directory(run / "checkpoints");
    checkpoint::write_checkpoint_folder(run / "checkpoints" / checkpoint::step_folder_name(step),
                                        {step, {}, {{"products", products}}, {}}, 1);
  };
  save(1, choices_json(target(1)));
  EXPECT_EQ(recorded_choices(run)->products, 1u);
  save(2, {{"isa", 1}});
  try {
    recorded_choices(run);
    FAIL() << "it took an older one's";
  } catch (const IntegrityError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("step-00000002"));
  }
  // A damaged one is passed over, as the resume does.
  std::filesystem::remove(run / "checkpoints" / "step-00000002" / checkpoint::kCommitName);
  EXPECT_EQ(recorded_choices(run)->products, 1u);
  std::filesystem::remove_all(run);
}

}  // namespace
}  // namespace megalith::train
