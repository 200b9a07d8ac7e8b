// SPDX-License-Identifier: Apache-2.0
// Memory under two addresses: one that is handed out and faults for every thread, and one, known to
// the queued device's thread alone, through which its kernels read and write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "device/arena.h"

namespace megalith::testing {

/// A part of the process's hidden memory, as addresses that fault.
std::unique_ptr<device::AddressSpace> reserve_hidden_memory();

/// Whether it is (the beginning of) memory that reserve_hidden_memory handed out.
bool is_hidden(const void* address);
/// Where the memory can be reached.
std::byte* reachable(const void* hidden);
/// The same for every hidden address among `words`, which hold pointers at multiples of 8 bytes.
void make_reachable(std::span<std::byte> words);

}  // namespace megalith::testing
