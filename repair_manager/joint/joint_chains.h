/// From who helps with how many parts to chains: which helpers for which part, who is the leaf, and where the
/// rebuilt chunk goes. Evens out what is received.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "repair_manager/joint/joint_choice.h"
#include "repair_manager/joint/joint_matching.h"

namespace kintsugi::repair_manager {

/// For the `accepted` repairs, which the matching let in. Those without a destination are not in the answer.
std::vector<JointChoice> make_chains(std::span<const JointServer> servers, JointRepairs repairs,
                                     const Matching& matching, std::span<const size_t> accepted,
                                     const std::function<bool(size_t, uint32_t)>& may_receive);

}  // namespace kintsugi::repair_manager
