/// Which functions of a binary call which: what a function can reach next, found in its machine code.
///
/// No instruction is decoded. Code refers to a function by the distance from the end of an instruction to its first byte, as 32 bits;
/// other bytes seldom look like that, and then a function too much is traced. A reference that is no call takes the address: whoever
/// does it may have the function called later, as the first part of a coroutine does with the rest of it. Functions without sleds
/// (those of libraries) are looked through.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tracing/repository/elf_image.h"
#include "tracing/repository/sled_map.h"

namespace kintsugi::tracing {

struct CallGraph {
  /// Function N may reach next callees[begin[N - 1]] to callees[begin[N] - 1]: it calls them, or takes their addresses.
  std::vector<uint32_t> begin, callees;
  /// By function N - 1: it, or one without sleds that it reaches, calls an address that is known only then.
  std::vector<uint8_t> indirect;
  /// Functions whose address is taken, or stands in a table (of virtual functions), or that are reached through those that
  /// have no sleds: where an indirect call may lead.
  std::vector<uint32_t> taken;

  std::span<const uint32_t> callees_of(uint32_t function) const {
    return std::span(callees).subspan(begin[function - 1], begin[function] - begin[function - 1]);
  }
};

CallGraph find_calls(const ElfImage& image, const SledMap& sleds);

}  // namespace kintsugi::tracing
