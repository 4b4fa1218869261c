/// The operations of a mount, a few kinds of them, as people look at them.
#pragma once

#include <string_view>
#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::mount {

/// "read" of "mount.read"; empty: it is no operation of a mount.
std::string_view kind_of(std::string_view site);

/// Adds what `totals` say of each kind that there was.
void tell_operations(const std::vector<sight::PathTotals>& totals, proto::SightMount& mount);

}  // namespace kintsugi::mount
