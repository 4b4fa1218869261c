/// Cuts a run of cells into the strips that are encoded and decoded at once: a strip is the same range of every
/// sub-cell of a cell, and lies within one buffer for each of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "client/lib/memory.h"
#include "erasure/policy.h"

namespace kintsugi::client {

/// Calls strip(begins, bytes) until [0, length) of the chunks is covered: by row, `begins` are the offsets of the
/// ranges. `length` is that of the longest chunk; whole cells when rows > 1. Buffers of kBufferBytes begin at 0.
template <typename Strip>
void for_each_strip(const erasure::Policy& policy, uint64_t length, Strip strip) {
  const uint32_t rows = policy.rows();
  const uint64_t cell = rows == 1 ? length : policy.cell_bytes, sub_cell = cell / rows;
  std::array<uint64_t, erasure::kRotatedRows> begins{};
  for (uint64_t at = 0; at < length; at += cell) {
    for (uint64_t done = 0; done < sub_cell;) {
      uint64_t bytes = sub_cell - done;
      for (uint32_t row = 0; row < rows; ++row) {
        begins[row] = at + row * sub_cell + done;
        bytes = std::min(bytes, Memory::kBufferBytes - begins[row] % Memory::kBufferBytes);
      }
      strip(std::span(begins).first(rows), bytes);
      done += bytes;
    }
  }
}

/// The part of [begin, begin + bytes), which lies within one buffer, that exists of a chunk `length` bytes long whose
/// buffers `buffer(index)` gives: shorter, or nothing, where the chunk ends.
template <typename Buffer>
auto strip_part(uint64_t begin, uint64_t bytes, uint64_t length, Buffer buffer)
    -> decltype(buffer(size_t{}).subspan(0)) {
  if (begin >= length) return {};
  return buffer(begin / Memory::kBufferBytes)
      .subspan(begin % Memory::kBufferBytes, std::min(bytes, length - begin));
}

}  // namespace kintsugi::client
