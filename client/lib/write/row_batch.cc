#include "client/lib/write/row_batch.h"

#include <algorithm>
#include <array>

#include "client/lib/read/strips.h"
#include "common/base/crc32c.h"
#include "erasure/layout.h"

namespace kintsugi::client {

uint64_t RowBatch::full_bytes(const erasure::Policy& policy) {
  const uint64_t rows = std::max<uint64_t>(1, Memory::kBufferBytes / policy.cell_bytes);
  return rows * policy.k * policy.cell_bytes;
}

size_t RowBatch::buffers_needed(const erasure::Policy& policy, uint64_t user_bytes) {
  size_t count = 0;
  for (uint32_t chunk = 0; chunk < own_chunks(policy); ++chunk) {
    count += Memory::buffers_for(erasure::chunk_length(policy, user_bytes, chunk));
  }
  return count;
}

RowBatch::RowBatch(const erasure::Policy& policy, uint64_t first_row_offset, uint64_t user_bytes, Lease lease,
                   Memory& memory)
    : policy_(policy),
      first_row_offset_(first_row_offset),
      user_bytes_(user_bytes),
      lease_(std::move(lease)) {
  buffers_.resize(own_chunks(policy));
  for (uint32_t chunk = 0; chunk < own_chunks(policy); ++chunk) {
    for (size_t i = 0; i < Memory::buffers_for(chunk_bytes(chunk)); ++i)
      buffers_[chunk].push_back(memory.take());
  }
}

uint64_t RowBatch::chunk_bytes(uint32_t chunk) const {
  return erasure::chunk_length(policy_, user_bytes_, chunk);
}

std::span<std::byte> RowBatch::part(uint32_t chunk, size_t buffer) {
  const uint64_t length = chunk_bytes(chunk);
  const uint64_t begin = buffer * Memory::kBufferBytes;
  if (begin >= length) return {};
  return buffers_[chunk][buffer].first(std::min<uint64_t>(length - begin, Memory::kBufferBytes));
}

std::vector<std::span<std::byte>> RowBatch::user_ranges() {
  std::vector<std::span<std::byte>> ranges;
  for (const erasure::Piece& piece : erasure::pieces(policy_, 0, user_bytes_)) {
    uint64_t at = piece.chunk_offset, left = piece.bytes;
    while (left > 0) {
      const size_t in_buffer = at % Memory::kBufferBytes;
      const size_t bytes = std::min<uint64_t>(left, Memory::kBufferBytes - in_buffer);
      ranges.push_back(buffers_[piece.chunk][at / Memory::kBufferBytes].span().subspan(in_buffer, bytes));
      at += bytes;
      left -= bytes;
    }
  }
  return ranges;
}

void RowBatch::shorten(uint64_t user_bytes) {
  user_bytes_ = user_bytes;
  for (uint32_t chunk = 0; chunk < own_chunks(policy_); ++chunk) {
    auto& of_chunk = buffers_[chunk];
    while (of_chunk.size() > Memory::buffers_for(chunk_bytes(chunk))) {
      of_chunk.pop_back();
      lease_.split(1);  // returns that part of the memory
    }
  }
}

void RowBatch::compute_parity(const erasure::Code& code) {
  if (own_chunks(policy_) < policy_.chunks() || policy_.m == 0) return;
  std::array<std::span<const std::byte>, erasure::kMaxSymbols> data;
  std::array<std::span<std::byte>, erasure::kMaxSymbols> parity;
  const uint32_t rows = policy_.rows();
  const uint32_t data_symbols = policy_.k * rows, parity_symbols = policy_.m * rows;
  const uint64_t longest = chunk_bytes(policy_.chunks() - 1);
  for_each_strip(policy_, longest, [&](std::span<const uint64_t> begins, uint64_t bytes) {
    const auto symbol = [&](uint32_t number) {
      const uint32_t chunk = number / rows;
      return strip_part(begins[number % rows], bytes, chunk_bytes(chunk),
                        [&](size_t index) { return buffers_[chunk][index].span(); });
    };
    for (uint32_t i = 0; i < data_symbols; ++i)
      data[i] = symbol(i);
    for (uint32_t i = 0; i < parity_symbols; ++i)
      parity[i] = symbol(data_symbols + i);
    code.encode_symbols(std::span(data).first(data_symbols), std::span(parity).first(parity_symbols));
  });
}

std::vector<Slice> RowBatch::take(uint32_t chunk) {
  if (chunk >= own_chunks(policy_)) return copies_;
  std::vector<Slice> slices = take_own(chunk);
  if (own_chunks(policy_) < policy_.chunks()) copies_ = slices;
  return slices;
}

std::vector<Slice> RowBatch::take_own(uint32_t chunk) {
  std::vector<Slice> slices;
  for (size_t i = 0; i < buffers_[chunk].size(); ++i) {
    const std::span<std::byte> bytes = part(chunk, i);
    Slice slice;
    slice.chunk_offset = first_row_offset_ + i * Memory::kBufferBytes;
    slice.bytes = static_cast<uint32_t>(bytes.size());
    slice.block_crcs = crc32c_blocks(bytes);
    slice.memory =
        std::make_shared<const LeasedBuffer>(LeasedBuffer{lease_.split(1), std::move(buffers_[chunk][i])});
    slices.push_back(std::move(slice));
  }
  buffers_[chunk].clear();
  return slices;
}

}  // namespace kintsugi::client
