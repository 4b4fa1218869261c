/// Strong types for every id, so that a server is never passed where a stripe is meant.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

#include <fmt/format.h>

#include "common/base/hash.h"

namespace kintsugi {

template <class Tag>
struct Id {
  uint64_t value = 0;  ///< 0 is "none"

  constexpr Id() = default;
  constexpr explicit Id(uint64_t v) : value(v) {}
  constexpr explicit operator bool() const { return value != 0; }
  constexpr auto operator<=>(const Id&) const = default;
};

using ServerId = Id<struct ServerTag>;  ///< a chunkserver; a random number, kept on its disks
using StripeId = Id<struct StripeTag>;
using InodeId = Id<struct InodeTag>;
using UploadId = Id<struct UploadTag>;  ///< a file being written
using RepairId = Id<struct RepairTag>;

inline constexpr InodeId kRootInode{1};

/// One chunk of a stripe: index 0..k-1 are data, k..k+m-1 parity.
struct ChunkId {
  StripeId stripe;
  uint32_t index = 0;
  constexpr auto operator<=>(const ChunkId&) const = default;
};

template <class Tag>
std::ostream& operator<<(std::ostream& out, Id<Tag> id) {
  return out << id.value;
}
inline std::ostream& operator<<(std::ostream& out, ChunkId id) {
  return out << id.stripe << ':' << id.index;
}

}  // namespace kintsugi

template <class Tag>
struct std::hash<kintsugi::Id<Tag>> {
  size_t operator()(kintsugi::Id<Tag> id) const noexcept { return id.value * kintsugi::kGoldenRatio; }
};
template <>
struct std::hash<kintsugi::ChunkId> {
  size_t operator()(kintsugi::ChunkId id) const noexcept {
    return (id.stripe.value * 64 + id.index) * kintsugi::kGoldenRatio;
  }
};

namespace kintsugi::detail {
/// Writes a decimal number. fmt::format_to would compile all of fmt's writers again, two seconds in every file that
/// sees this one.
inline fmt::appender append_number(uint64_t number, fmt::appender out) {
  const fmt::format_int text(number);
  return std::copy_n(text.data(), text.size(), out);
}
}  // namespace kintsugi::detail

template <class Tag>
struct fmt::formatter<kintsugi::Id<Tag>> {
  constexpr auto parse(format_parse_context& ctx) const { return ctx.begin(); }
  auto format(kintsugi::Id<Tag> id, format_context& ctx) const {
    return kintsugi::detail::append_number(id.value, ctx.out());
  }
};
template <>
struct fmt::formatter<kintsugi::ChunkId> {
  constexpr auto parse(format_parse_context& ctx) const { return ctx.begin(); }
  auto format(kintsugi::ChunkId id, format_context& ctx) const {
    fmt::appender out = kintsugi::detail::append_number(id.stripe.value, ctx.out());
    *out++ = ':';
    return kintsugi::detail::append_number(id.index, out);
  }
};
