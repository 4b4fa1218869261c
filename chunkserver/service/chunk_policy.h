/// Checks what a writer says of a chunk's place in its stripe.
#pragma once

#include <string_view>

#include "erasure/policy.h"

namespace kintsugi::chunkserver {

/// kInvalidArgument: not a policy's name, or its stripes have no such chunk.
inline Status check_policy(std::string_view name, uint32_t index) {
  KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(name));
  if (index < policy.chunks()) return {};
  return {Code::kInvalidArgument, fmt::format("policy {} has no chunk {}", policy.name(), index)};
}

}  // namespace kintsugi::chunkserver
