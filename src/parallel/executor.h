// SPDX-License-Identifier: Apache-2.0
// Walks one stage's schedule. Everything about models and buffers is behind StageWork.
#pragma once

#include <span>

#include "comm/communicator.h"
#include "parallel/schedule.h"

namespace megalith::parallel {

/// One stage's side of the schedule. Each view is asked for once, when its transfer starts, and
/// must stay valid until the transfer has been waited for.
class StageWork {
 public:
  virtual ~StageWork() = default;
  virtual void forward(int micro_batch, int chunk) = 0;
  virtual void backward(int micro_batch, int chunk) = 0;

  /// What forward of (micro_batch, chunk) produced, for the next virtual stage.
  virtual ConstView output(int micro_batch, int chunk) = 0;
  /// Where the input of forward is to be received.
  virtual View input(int micro_batch, int chunk) = 0;
  /// What backward of (micro_batch, chunk) produced, for the previous virtual stage.
  virtual ConstView input_gradient(int micro_batch, int chunk) = 0;
  /// Where the gradient of output() is to be received.
  virtual View output_gradient(int micro_batch, int chunk) = 0;

  /// The transfer is over and its buffer may be released: the next stage has the output
  /// (Korthikanti et al. 2022, appendix B).
  virtual void output_sent(int micro_batch, int chunk) = 0;
  virtual void input_gradient_sent(int micro_batch, int chunk) = 0;
};

/// Runs the actions in order. Collective over `pipeline`, whose rank is the stage.
void execute(std::span<const Action> actions, comm::Communicator& pipeline, StageWork& work);

}  // namespace megalith::parallel
