// SPDX-License-Identifier: Apache-2.0
// FasterTransformer's tensors of what was written. Private to kserve_infer.
#pragma once

#include "protocols/kserve.h"

namespace megalith::protocols {

/// What is kept of a row of the batch.
struct InferRow {
  std::vector<int32_t> prompt;
  int32_t end_id = 0;
  bool wants_logprobs = true;
};

/// `width`: the most new tokens of a row, which has `beams` texts.
std::unique_ptr<Reply> make_infer_reply(std::string name, KserveRequest request,
                                        std::vector<InferRow> rows, int64_t width, int64_t beams,
                                        const InferFormat& format);

}  // namespace megalith::protocols
