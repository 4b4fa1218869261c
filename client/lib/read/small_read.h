/// Reads a few bytes of one chunk by one call, as an application that reads at random wants it.
#pragma once

#include <cstdint>
#include <span>

#include <boost/asio/awaitable.hpp>

#include "client/lib/read/located_extent.h"
#include "client/lib/resources.h"

namespace kintsugi::client {

inline constexpr uint64_t kMaxSmallRead = 32 << 10;  ///< bytes; more of them are worth a stream

/// The whole part lies in one chunk, whose server looks well.
bool is_small_read(const Resources& resources, const LocatedExtent& part);

/// Fills `into` with the part. The server has checked the blocks that the bytes come from, and this the bytes. The
/// call's error; kUnavailable when the server lags: it is avoided then. REQUIRES: is_small_read(); `into` has the
/// part's length.
asio::awaitable<Status> small_read(Resources& resources, Context context, LocatedExtent part,
                                   std::span<std::byte> into);

}  // namespace kintsugi::client
