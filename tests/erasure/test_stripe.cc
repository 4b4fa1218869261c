#include "tests/erasure/test_stripe.h"

#include <algorithm>
#include <cstdlib>

#include "tests/erasure/encode_row.h"

namespace kintsugi::erasure {

uint64_t test_seed() {
  const char* given = std::getenv("KINTSUGI_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

uint8_t slow_product(uint8_t a, uint8_t b) {
  unsigned product = 0;
  for (int bit = 0; bit < 8; ++bit) {
    if ((b >> bit & 1) != 0) product ^= static_cast<unsigned>(a) << bit;
  }
  for (int bit = 14; bit >= 8; --bit) {
    if ((product >> bit & 1) != 0) product ^= 0x11du << (bit - 8);
  }
  return static_cast<uint8_t>(product);
}

Bytes random_bytes(size_t count, std::mt19937_64& random) {
  Bytes bytes(count);
  for (auto& byte : bytes)
    byte = static_cast<std::byte>(random());
  return bytes;
}

std::vector<std::span<const std::byte>> readable(const std::vector<Bytes>& ranges) {
  return {ranges.begin(), ranges.end()};
}

std::vector<std::span<std::byte>> writable(std::vector<Bytes>& ranges) {
  return {ranges.begin(), ranges.end()};
}

std::vector<std::vector<uint32_t>> subsets(uint32_t n, uint32_t size) {
  std::vector<std::vector<uint32_t>> result;
  std::vector<bool> chosen(n);
  std::fill(chosen.begin(), chosen.begin() + size, true);
  do {
    auto& subset = result.emplace_back();
    for (uint32_t i = 0; i < n; ++i) {
      if (chosen[i]) subset.push_back(i);
    }
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
  return result;
}

std::vector<uint32_t> all_but(uint32_t n, std::span<const uint32_t> excluded) {
  std::vector<uint32_t> result;
  for (uint32_t i = 0; i < n; ++i) {
    if (std::find(excluded.begin(), excluded.end(), i) == excluded.end()) result.push_back(i);
  }
  return result;
}

TestStripe::TestStripe(const Policy& p, uint64_t length, std::mt19937_64& random)
    : policy(p), stripe_length(length), user(random_bytes(length, random)) {
  for (uint32_t i = 0; i < policy.chunks(); ++i)
    chunks.emplace_back(chunk_length(policy, length, i));
  for (const Piece& piece : pieces(policy, 0, length)) {
    std::copy_n(user.begin() + piece.stripe_offset, piece.bytes,
                chunks[piece.chunk].begin() + piece.chunk_offset);
  }
  const auto code = Code::get(policy);
  for (size_t offset = 0; offset < chunks[0].size(); offset += policy.cell_bytes) {
    std::vector<std::span<const std::byte>> cells;
    std::vector<std::span<std::byte>> parity;
    for (uint32_t i = 0; i < policy.chunks(); ++i) {
      const size_t begin = std::min(offset, chunks[i].size());
      const size_t bytes = std::min<size_t>(policy.cell_bytes, chunks[i].size() - begin);
      const auto cell = std::span(chunks[i]).subspan(begin, bytes);
      if (i < policy.k) {
        cells.emplace_back(cell);
      } else {
        parity.push_back(cell);
      }
    }
    encode_row(*code, cells, parity);
  }
}

std::span<const std::byte> TestStripe::sub_cell(uint32_t index, size_t row, uint32_t t) const {
  const size_t bytes = policy.cell_bytes / policy.rows();
  const std::span<const std::byte> chunk(chunks[index]);
  const size_t begin = std::min(row * policy.cell_bytes + t * bytes, chunk.size());
  return chunk.subspan(begin, std::min(bytes, chunk.size() - begin));
}

std::span<std::byte> TestStripe::sub_cell(std::vector<Bytes>& of, uint32_t index, size_t row,
                                          uint32_t t) const {
  const size_t bytes = policy.cell_bytes / policy.rows();
  const std::span<std::byte> chunk(of[index]);
  const size_t begin = std::min(row * policy.cell_bytes + t * bytes, chunk.size());
  return chunk.subspan(begin, std::min(bytes, chunk.size() - begin));
}

std::vector<Bytes> TestStripe::decode(const DecodePlan& plan) const {
  std::vector<Bytes> out;
  for (const uint32_t index : plan.wanted)
    out.emplace_back(chunks[index].size(), std::byte{0xa5});
  for (size_t row = 0; row < cell_rows(); ++row) {
    std::vector<std::span<const std::byte>> from;
    std::vector<std::span<std::byte>> to;
    for (uint32_t t = 0; t < policy.rows() * plan.helpers.size(); ++t)
      from.push_back(sub_cell(plan.helpers[t / policy.rows()], row, t % policy.rows()));
    for (uint32_t t = 0; t < policy.rows() * plan.wanted.size(); ++t)
      to.push_back(sub_cell(out, t / policy.rows(), row, t % policy.rows()));
    plan.decode(from, to);
  }
  return out;
}

std::vector<std::span<const std::byte>> TestStripe::chunks_of(std::span<const uint32_t> indices) const {
  std::vector<std::span<const std::byte>> result;
  for (const uint32_t index : indices)
    result.emplace_back(chunks[index]);
  return result;
}

Bytes slow_chunk(const Code& code, const std::vector<Bytes>& cells, uint32_t index, size_t bytes) {
  Bytes result(bytes);
  for (size_t c = 0; c < cells.size(); ++c) {
    const uint8_t coefficient = code.generator()[index * code.k() + c];
    for (size_t i = 0; i < std::min(bytes, cells[c].size()); ++i) {
      result[i] ^= static_cast<std::byte>(slow_product(coefficient, std::to_integer<uint8_t>(cells[c][i])));
    }
  }
  return result;
}

}  // namespace kintsugi::erasure
