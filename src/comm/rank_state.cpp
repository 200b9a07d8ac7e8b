// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_state.h"

namespace megalith::comm {

void LastCall::note(const Operation& operation, const std::string& of_group) {
  is_any = true;
  kind = operation.kind;
  label = operation.label;
  group = of_group;
}

std::string LastCall::text() const {
  return fmt::format("{} '{}' of group '{}'", kind, label, group);
}

std::string RankState::name() const {
  return host.empty() ? fmt::format("rank {}", world_rank)
                      : fmt::format("rank {} on {}", world_rank, host);
}

std::string RankState::in_step() const { return step < 0 ? "" : fmt::format(" in step {}", step); }

std::string RankState::place() const { return name() + in_step(); }

std::string RankState::told(const std::string& cause) const {
  const std::string after = last_call.is_any ? " after calling " + last_call.text() : "";
  return fmt::format("{} failed{}{}: {}", name(), in_step(), after, cause);
}

Failure RankState::told(const std::exception_ptr& error) const {
  Failure failure = failure_of(error);
  try {
    std::rethrow_exception(error);
  } catch (const CallError&) {
    return failure;
  } catch (...) {
    failure.text = told(failure.text);
  }
  return failure;
}

}  // namespace megalith::comm
