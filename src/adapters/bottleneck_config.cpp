// SPDX-License-Identifier: Apache-2.0
#include "adapters/bottleneck_config.h"

#include <algorithm>

#include "base/error.h"
#include "families/config_keys.h"

namespace megalith::adapters {
namespace {

using Json = nlohmann::json;
using models::ConfigKeys;

/// Keys that name the model and the origin, and change no arithmetic.
constexpr std::string_view kHarmlessOfHub =
    " hidden_size model_class model_name model_type version label2id ";
/// Keys of initialisation and training, and details of features that are refused anyway.
constexpr std::string_view kHarmlessOfBottlenecks =
    " adapter_residual_before_ln dropout factorized_phm_W factorized_phm_rule "
    "hypercomplex_nonlinearity init_weights inv_adapter_reduction_factor learn_phm phm_bias "
    "phm_c_init phm_dim phm_init_range phm_rank reduction_factor shared_W_phm shared_phm_rule ";

}  // namespace

Bottlenecks parse_bottleneck_config(const Json& json, const std::string& where) {
  const ConfigKeys keys(json, where);
  const Json* const inner = keys.find("config");
  if (inner == nullptr || !inner->is_object())
    throw UserError("{}: config must be an object", where);
  Bottlenecks made{keys.text("name", "")};
  if (made.name.empty()) throw UserError("{}: name is missing", where);
  keys.no_others(kHarmlessOfHub);
  const ConfigKeys config(*inner, where, "config.");
  for (const char* const key : {"mh_adapter", "output_adapter", "original_ln_after"})
    config.only(key, true);
  for (const char* const key : {"original_ln_before", "ln_before", "ln_after", "is_parallel",
                                "use_gating", "cross_adapter", "phm_layer"})
    config.only(key, false);
  config.only("scaling", 1.0);
  config.only("stochastic_depth", 0.0);
  config.only("residual_before_ln", true);
  config.absent("architecture", "another method is");
  config.absent("inv_adapter", "adapters of embeddings are");
  if (const Json* const out = config.find("leave_out"); out != nullptr && !out->empty())
    throw UserError("{}: config.leave_out: layers without an adapter are not supported", where);
  const std::string activation = config.text("non_linearity", "");
  if (activation != "swish" && activation != "silu") {
    throw UserError("{}: config.non_linearity {} is not supported: only swish", where,
                    ConfigKeys::shown(activation));
  }
  config.no_others(kHarmlessOfBottlenecks);
  return made;
}

}  // namespace megalith::adapters
