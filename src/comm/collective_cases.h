// SPDX-License-Identifier: Apache-2.0
// Every collective against a closed form, on sizes 0, 1, prime and divisible: what a rank calls and
// checks, for tests over every backend (threads, messages between threads, processes under MPI).
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"

namespace megalith::comm {

template <typename T>
View view_of(std::vector<T>& x) {
  return {reinterpret_cast<std::byte*>(x.data()), kDTypeOf<T>, Shape{std::ssize(x)}};
}

struct CollectiveCase {
  const char* name;
  /// Of every rank of a world of any size; checks by assertions of GoogleTest.
  void (*run)(Communicator& world);
};

std::span<const CollectiveCase> collective_cases();

}  // namespace megalith::comm
