#include "common/base/crc32c.h"

#include <algorithm>
#include <array>

#include <isa-l/crc.h>

#include "common/base/assert.h"
#include "common/base/math.h"

namespace kintsugi {

namespace {

// Polynomials over GF(2) modulo the Castagnoli polynomial, bits reflected as in the CRC itself: bit 31 is x^0.
constexpr uint32_t kReflectedPolynomial = 0x82f63b78;
constexpr uint32_t kOne = 0x80000000;
constexpr uint32_t kX = 0x40000000;

// ISA-L takes the length as an int.
constexpr size_t kMaxCallBytes = size_t{1} << 30;

constexpr uint32_t multiply_modulo(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kReflectedPolynomial : 0);
  }
  return product;
}

// kPowers[i] = x^(2^i). The polynomial is not primitive, so the powers do not wrap around after 32 as zlib's
// do: the table covers every byte count of 64 bits.
constexpr auto kPowers = [] {
  std::array<uint32_t, 67> powers{};
  powers[0] = kX;
  for (size_t i = 1; i < powers.size(); ++i)
    powers[i] = multiply_modulo(powers[i - 1], powers[i - 1]);
  return powers;
}();

// x^(8 * bytes): multiplying a CRC by it appends that many zero bytes.
constexpr uint32_t shift_operator(size_t bytes) {
  uint32_t power = kOne;
  for (size_t i = 3; bytes != 0; bytes >>= 1, ++i) {
    if ((bytes & 1) != 0) power = multiply_modulo(power, kPowers[i]);
  }
  return power;
}

// The shift by one block, tabulated for each byte of the CRC: it is linear, so the four parts are XORed.
constexpr auto kBlockShift = [] {
  std::array<std::array<uint32_t, 256>, 4> table{};
  const uint32_t shift = shift_operator(kBlockBytes);
  for (uint32_t byte = 0; byte < 4; ++byte) {
    for (uint32_t value = 0; value < 256; ++value) {
      const uint32_t lowest = value & (~value + 1);
      table[byte][value] = value == lowest ? multiply_modulo(value << (8 * byte), shift)
                                           : table[byte][lowest] ^ table[byte][value ^ lowest];
    }
  }
  return table;
}();

uint32_t shift_by_block(uint32_t crc) {
  return kBlockShift[0][crc & 0xff] ^ kBlockShift[1][(crc >> 8) & 0xff] ^ kBlockShift[2][(crc >> 16) & 0xff] ^
         kBlockShift[3][crc >> 24];
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> data) {
  // ISA-L carries the raw register: no initial value and no inversion of its own. It does not write to the buffer.
  auto* bytes = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(data.data()));
  uint32_t state = 0xffffffff;
  for (size_t done = 0; done < data.size();) {
    const size_t part = std::min(kMaxCallBytes, data.size() - done);
    state = crc32_iscsi(bytes + done, static_cast<int>(part), state);
    done += part;
  }
  return ~state;
}

uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, size_t b_bytes) {
  // Initial value and final inversion cancel out between the two, so finalised values combine directly.
  if (b_bytes == kBlockBytes) return shift_by_block(crc_a) ^ crc_b;
  return multiply_modulo(crc_a, shift_operator(b_bytes)) ^ crc_b;
}

std::vector<uint32_t> crc32c_blocks(std::span<const std::byte> data) {
  std::vector<uint32_t> crcs;
  crcs.reserve(divide_up(data.size(), kBlockBytes));
  for (size_t begin = 0; begin < data.size(); begin += kBlockBytes) {
    crcs.push_back(crc32c(data.subspan(begin, std::min(kBlockBytes, data.size() - begin))));
  }
  return crcs;
}

uint32_t crc32c_of_blocks(std::span<const uint32_t> block_crcs, size_t chunk_bytes) {
  KINTSUGI_ASSERT(block_crcs.size() == chunk_bytes / kBlockBytes + (chunk_bytes % kBlockBytes != 0));
  uint32_t crc = 0;  // the CRC of no bytes
  for (size_t i = 0; i < block_crcs.size(); ++i) {
    crc = crc32c_combine(crc, block_crcs[i], std::min(kBlockBytes, chunk_bytes - i * kBlockBytes));
  }
  return crc;
}

}  // namespace kintsugi
