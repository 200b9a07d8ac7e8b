// SPDX-License-Identifier: Apache-2.0
// config.json and generation_config.json of a Hugging Face folder, and the architecture that a
// checkpoint's manifest names. What is taken has sizes that multiply without overflow.
#include <nlohmann/json.hpp>

#include "base/fuzz/fuzz_input.h"
#include "families/hugging_face.h"
#include "families/model_spec_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::accepts([&] {
    const auto config = models::parse_hugging_face_config(text, "config.json");
    MEGA_CHECK_GT(config.model.num_parameters(), 0);
    const auto again = models::parse_hugging_face_config(
        models::hugging_face_config(config.model, DType::f32, config.end_ids), "again");
    MEGA_CHECK_EQ(again.model.num_parameters(), config.model.num_parameters());
  });
  fuzz::accepts([&] { models::parse_end_ids(text, 1000, "generation_config.json"); });
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_object())
    fuzz::accepts([&] {
      const auto model = models::model_spec_from(json, "manifest.json");
      MEGA_CHECK_GT(model.num_parameters(), 0);
    });
  return 0;
}
