// SPDX-License-Identifier: Apache-2.0
// The activation functions that kernels know. Values and derivatives are those of
// math/elementary.h; vectors of them are in activation-inl.h, their specification in
// activation_reference.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace megalith::kernels {

enum class Activation : uint8_t {
  none,        // u
  gelu_tanh,   // u/2 (1 + tanh(sqrt(2/pi) (u + 0.044715 u^3))): GPT-2's (Hendrycks & Gimpel 2016)
  gelu_erf,    // u/2 (1 + erf(u / sqrt 2)): BERT's
  gelu_quick,  // u sigmoid(1.702 u): OpenAI's CLIP
  silu,        // u sigmoid(u): Llama's (Elfwing et al. 2017)
  relu,        // max(u, 0); its derivative at 0 is 0
};

inline constexpr Activation kActivations[] = {Activation::none,     Activation::gelu_tanh,
                                              Activation::gelu_erf, Activation::gelu_quick,
                                              Activation::silu,     Activation::relu};

constexpr std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::none:
      return "none";
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::gelu_erf:
      return "gelu_erf";
    case Activation::gelu_quick:
      return "gelu_quick";
    case Activation::silu:
      return "silu";
    case Activation::relu:
      return "relu";
  }
  return "";
}
inline std::string_view format_as(Activation activation) { return name_of(activation); }

}  // namespace megalith::kernels
