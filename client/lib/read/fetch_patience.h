/// How long a fetch is waited for before other chunks are fetched in its place.
#pragma once

#include <algorithm>
#include <cstdint>

#include "client/lib/resources.h"

namespace kintsugi::client {

/// A fetch that takes kTimesUsual times as long as they usually do lags. From then on it is hedged when the budget
/// allows that, and from `late` on in any case. A small one waits for `late`: to rebuild it costs several times as
/// much, and very many at once make all servers lag.
struct FetchPatience {
  static constexpr uint64_t kSmall = 32 << 10;  ///< bytes
  static constexpr int kTimesUsual = 4;
  /// Patience until enough was learned.
  static constexpr Duration kUnknown = std::chrono::milliseconds(400);

  FetchPatience(const Resources& resources, uint64_t bytes) {
    const auto usual = resources.fetch_times.usual(bytes);
    early = usual ? std::max(resources.options.hedge_floor, kTimesUsual * *usual) : kUnknown;
    late = std::max(resources.options.late_hedge_floor, early);
    if (bytes <= kSmall) early = late;
  }

  Duration early, late;
};

/// Takes note of a fetch that ended well: how long it took, and whether its server lags.
inline void note_fetch(Resources& resources, ServerId server, uint64_t bytes, Duration took) {
  const bool lags = took > FetchPatience(resources, bytes).early;
  resources.fetch_times.record(bytes, took);
  lags ? resources.health.lagged(server) : resources.health.answered(server);
}

/// Takes note of a fetch that is not waited for any longer.
inline void note_given_up(Resources& resources, ServerId server, uint64_t bytes, Duration took) {
  took >= FetchPatience(resources, bytes).late ? resources.health.failed(server)
                                               : resources.health.lagged(server);
}

}  // namespace kintsugi::client
