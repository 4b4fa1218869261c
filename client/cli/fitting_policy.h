/// The policy that a new cluster takes when nobody chose one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace kintsugi::cli {

/// The policy of a metaserver whose settings name none.
inline constexpr std::string_view kDefaultPolicy = "rs-6-3-1024k";

/// How many chunkservers a stripe of the policy needs; 0: there is no such policy.
uint32_t servers_for(std::string_view policy);

/// The first of those that are usual for which so many chunkservers suffice. kInvalidArgument when there is none.
Result<std::string> fitting_policy(size_t chunkservers);

}  // namespace kintsugi::cli
