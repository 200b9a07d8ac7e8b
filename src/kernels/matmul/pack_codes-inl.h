// SPDX-License-Identifier: Apache-2.0
// Packing of panels from codes of 8 bits: pieces are widened to bf16, which holds each code
// exactly, and packed as bf16 is. Included once per instruction set.
#if defined(MEGA_PACK_CODES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_PACK_CODES_INL_H
#undef MEGA_PACK_CODES_INL_H
#else
#define MEGA_PACK_CODES_INL_H
#endif

#include "kernels/matmul/pack-inl.h"
#include "kernels/narrow/narrow_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {

/// A piece of an operand, widened: it stays in the first-level cache until it is packed.
class WidenedPiece {
 public:
  static constexpr int64_t kRows = 32, kColumns = 256;

  template <typename Code>
  void fill(const Code* from, int64_t stride, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r, from += stride) {
      bf16_t* to = numbers_ + r * kColumns;
      int64_t i = 0;
      for (; i + kLanes <= columns; i += kLanes) store(load(from + i), to + i);
      if (i < columns) store(load_first(from + i, columns - i), to + i);
    }
  }
  Operand operand(bool k_contiguous) const {
    return {reinterpret_cast<const std::byte*>(numbers_), DType::bf16, kColumns, k_contiguous};
  }

 private:
  HWY_ALIGN bf16_t numbers_[kRows * kColumns + kLanes];  // a row's last vector is stored whole
};

/// pack_panels of codes. Pieces are whole panels and, but for the last of a run, whole pairs.
template <int kVectors, typename Code, PanelForm kForm>
void pack_codes(const Operand& operand, Range i, const KRun& run, int64_t block_steps,
                int64_t width, float* out) {
  const auto* base = reinterpret_cast<const Code*>(operand.data);
  const int64_t k = run.end - run.begin, panel = int64_t{kVectors} * kLanes * block_steps;
  const bool along = operand.k_contiguous;
  const int64_t at_once = along ? width : WidenedPiece::kColumns / width * width;
  const int64_t k_at_once = along ? WidenedPiece::kColumns : WidenedPiece::kRows;
  WidenedPiece piece;
  for (int64_t first = i.begin; first < i.end; first += at_once) {
    const int64_t count = std::min(at_once, i.end - first);
    float* to = out + (first - i.begin) / width * panel;
    for (int64_t at = 0; at < k; at += k_at_once) {
      const int64_t here = std::min(k_at_once, k - at), from = run.begin + at;
      if (along) {
        piece.fill(base + first * operand.stride + from, operand.stride, count, here);
      } else {
        piece.fill(base + from * operand.stride + first, operand.stride, here, count);
      }
      pack_panels<kVectors, bf16_t, kForm>(piece.operand(along), {0, count},
                                           {0, here, run.step + steps_of<kForm>(at)}, block_steps,
                                           width, to);
    }
  }
}

/// pack_codes for a type of codes and a form.
template <int kVectors, typename Code>
auto codes_packing(PanelForm form) {
  return form == PanelForm::words     ? pack_codes<kVectors, Code, PanelForm::words>
         : form == PanelForm::swapped ? pack_codes<kVectors, Code, PanelForm::swapped>
                                      : pack_codes<kVectors, Code, PanelForm::floats>;
}
template <int kVectors>
auto codes_packing(DType codes, PanelForm form) {
  return codes == DType::f8_e4m3 ? codes_packing<kVectors, f8_e4m3_t>(form)
                                 : codes_packing<kVectors, f8_e5m2_t>(form);
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();
#endif
