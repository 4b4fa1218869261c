/// Where rebuilt and moved chunks go: m-PPR's choice of destinations (Mitra 2016, section 4.5, equation 4.3).
#pragma once

#include <span>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "repair_manager/plan/selection.h"

namespace kintsugi::repair_manager {

/// Space that must remain free on a destination.
inline constexpr uint64_t kDestinationMarginBytes = 64 << 20;
inline constexpr size_t kDestinationSample = 32;  ///< how many possible destinations are compared
/// How many are compared while none of them keeps the rack spread.
inline constexpr size_t kDestinationLongSample = 512;

/// Where the lost chunk `lost` goes: a server that is alive, not draining, holds no chunk of the stripe and has the
/// space; one that keeps the stripe's rack spread if there is one; failing that the lost chunk's own server, if it is
/// alive; then any other. `taken`: destinations of the other lost chunks; `barred`: servers that must not be it now.
/// kNoSpace: there is none; kLimitExceeded: some, but busy.
///
/// Among at most kDestinationSample servers, equation 4.3 picks the best of all. Among more, it picks the best of a
/// sample of that size, which differs from chunk to chunk. Mitra 2016 sorts all servers for every repair; the best of
/// 32 random ones balances nearly as well, whatever their number.
Result<ServerId> select_destination(const SelectionInput& input, uint32_t lost,
                                    std::span<const ServerId> taken = {},
                                    std::span<const ServerId> barred = {});

/// Makes the same checks for a destination that was asked for. `keep_racks`: kNoSpace also when the stripe would have
/// more chunks in its rack than in an even spread, and than where the chunk can be read now.
Status check_destination(const SelectionInput& input, uint32_t lost, ServerId wanted,
                         std::span<const ServerId> taken = {}, bool keep_racks = false);

}  // namespace kintsugi::repair_manager
