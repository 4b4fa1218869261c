#include "client/cli/fitting_policy.h"

#include "erasure/policy.h"

namespace kintsugi::cli {
namespace {

constexpr std::string_view kFittingPolicies[] = {kDefaultPolicy, "rs-4-2-1024k", "rs-3-2-1024k",
                                                 "rs-2-1-1024k", "replication-2-1024k"};

}  // namespace

uint32_t servers_for(std::string_view policy) {
  const auto parsed = erasure::Policy::parse(policy);
  return parsed ? parsed->chunks() : 0;
}

Result<std::string> fitting_policy(size_t chunkservers) {
  for (const std::string_view policy : kFittingPolicies)
    if (servers_for(policy) <= chunkservers) return std::string(policy);
  return Status{
      Code::kInvalidArgument,
      "one chunkserver cannot keep two copies of anything: use at least 2 (3 for an erasure code, 9 for " +
          std::string(kDefaultPolicy) + ")"};
}

}  // namespace kintsugi::cli
